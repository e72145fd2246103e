"""Sampling speed beside transformers' `generate`, or Tunix's sampler.

A side samples the same prompts from the same weights at temperature 1, from the
whole distribution; what counts are tokens up to and including EOS, per second.
That both compute the same is proved first: their greedy tokens are equal.

  small  4 layers d256 v512, 64 prompts of 32, 128 tokens each
  large  12 layers d768 v32k, the same
  long   4 layers d256 v32k, 16 prompts of 512 by 16 samples, lengths geometric
         with mean 64 and at most 256; each side at its fastest microbatch

Each side runs at the setting that was fastest when tried: ours on one or all
cores as devices, the peer with one or all threads and each kind of cache. The
limits are for float32, of the faster of a dynamic and a static cache; bfloat16
and a compiled step are shown beside. With peer "none" a shape of mixed lengths
is also run without refilling: each sample in a row of its own.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import rich.console

from experiments.studies import flop_counts
from experiments.studies.benchmark import beside, machine, sides, sizes
from experiments.studies.benchmark.outcome import Outcome, Row

LIMITS = {
  ("hf", "small"): 2.5,
  ("hf", "large"): 2.3,
  ("hf", "long"): 6.0,
  ("tunix", "long"): 4.0,
}
REFILL = 1.6  # times the throughput of a row for every sample
PEERS = ("hf", "tunix", beside.NONE)


class Opponent(NamedTuple):
  """A peer in one of its forms.

  Attributes:
    launch: how it is started.
    options: among which its fastest setting is looked for.
    limited: whether limits and the proof are for this form.
  """

  launch: sides.Launch
  options: Mapping[str, Sequence[Any]]
  limited: bool = True


def decode(
  console: rich.console.Console,
  *,
  shape: str = "",
  peer: str = "hf",
  calls: int = 5,
  pythons: Mapping[str, str] | None = None,
) -> Outcome:
  """Sampling speed beside transformers or Tunix.

  Args:
    console: where progress goes.
    shape: one of `sizes.DECODE`; "" takes all.
    peer: "hf", "tunix" or "none".
    calls: of each side that count.
    pythons: interpreters of peers that have one of their own.

  Returns:
    Rows. Passed: every ratio that has a limit reaches it.

  Raises:
    UsageError: unknown shape or peer, a peer that is not installed, greedy tokens
      that differ, or a side that fails.
  """
  return beside.over_shapes(
    console,
    shape,
    sizes.DECODE,
    [functools.partial(beside.launch, peer, PEERS, pythons or {})],
    sizes.write,
    functools.partial(_rows, calls=calls),
  )


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch | None],
  calls: int,
  limits: machine.Machine,
  tell: sides.Tell,
) -> Iterator[Row]:
  """Of one shape: ours beside each form of the peer, or alone."""
  shape, (peer,) = sizes.DECODE[name], launches

  def cost(call: sides.Call) -> flop_counts.Cost:
    return flop_counts.decode_cost(
      shape.model, shape.prompt_length, call.counts["lengths"]
    )

  measure = functools.partial(
    beside.row,
    shape=shape,
    calls=calls,
    bound=lambda call: limits.bound(cost(call)),
    work=lambda call: limits.work(cost(call), call.seconds),
    tell=tell,
  )
  search = functools.partial(
    sides.fastest, tell=tell, memory=sides.MEMORY, trial=_trial
  )
  own = sides.Launch("ours", "experiments.studies.benchmark.own.decode", job)
  with search(own, _own_options(shape)) as ours:
    if peer is None:
      yield measure(f"decode {name}", ours=ours, peer=None)
      if shape.mean_length:
        still = dataclasses.replace(own, name="ours without refill")
        options = {**_own_options(shape), "rows": (shape.samples,)}
        with search(still, options) as other:
          yield measure(
            f"decode {name} beside {still.name}",
            ours=ours,
            peer=other,
            limit=REFILL,
          )
      return
    for opponent in _forms(peer, shape):
      with search(opponent.launch, opponent.options) as other:
        if opponent.limited:
          beside.prove_greedy(ours, other, job["plain"], tell)
        yield measure(
          f"decode {name} beside {opponent.launch.name}",
          ours=ours,
          peer=other,
          limit=LIMITS.get((peer.name, name)) if opponent.limited else None,
        )


def _own_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  options: dict[str, Sequence[Any]] = {
    "devices": machine.splits(),
    "unroll": (0,),
    "attention": ("blocked", "plain"),
  }
  if shape.mean_length:
    S = shape.samples
    shares = (max(S // parts, 1) for parts in (2, 4, 8, 1))
    options["rows"] = tuple(dict.fromkeys(shares))
    options["micro"] = _microbatches(shape)
  return options


def _forms(peer: sides.Launch, shape: sizes.Shape) -> Iterator[Opponent]:
  """What the peer is tried as."""
  micro = {"micro": _microbatches(shape)} if shape.mean_length else {}
  if peer.name != "hf":
    yield Opponent(peer, {"devices": machine.splits(), **micro})
    return
  threads = {"threads": machine.splits()}

  def form(label: str, dtype: str) -> sides.Launch:
    named = dataclasses.replace(peer, name=f"transformers {label}")
    return dataclasses.replace(named, job={**peer.job, "dtype": dtype})

  plain = {**threads, "cache": ("dynamic", "static"), **micro}
  yield Opponent(form("float32", "float32"), plain)
  if shape.mean_length:  # a call takes minutes
    return
  cache = {"cache": ("dynamic", "static")}
  yield Opponent(form("bfloat16", "bfloat16"), threads | cache, limited=False)
  compiled = threads | {"cache": ("compiled",)}
  yield Opponent(form("compiled", "float32"), compiled, limited=False)


def _microbatches(shape: sizes.Shape) -> Sequence[int]:
  """Prompts at once, the quickest to try first."""
  P = shape.prompts
  return tuple(dict.fromkeys((P // 4 or 1, P // 2 or 1, P)))


def _trial(candidate: sides.Launch) -> dict[str, Any]:
  """One microbatch tells how fast a setting is."""
  return {"prompts": candidate.job["micro"]}
