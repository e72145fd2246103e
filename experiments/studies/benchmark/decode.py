"""Speed of sampling, compared with `generate` of transformers or with Tunix.

All sides sample for the same prompts with the same weights, at temperature 1
and without top-k or top-p. The measured value is tokens per second, where
tokens up to and including EOS count. First both sides generate greedy tokens,
which must be equal.

Shapes:

  small  4 layers d256 v512, 64 prompts of 32, 128 tokens each
  large  12 layers d768 v32k, 64 prompts of 32, 128 tokens each
  long   4 layers d256 v32k, 16 prompts of 512, 16 samples each; lengths are
         geometric with mean 64, cut at 256

d is the width and v the size of the vocabulary.

Each side first tries its settings on a few calls and is measured with the
fastest setting. Our side, which is this project, tries one device and one
device per core; the peer tries one and all threads, and each kind of cache. For
"long" both sides also try several sizes of a microbatch. The limits apply
to float32 with the faster of a dynamic and a static cache; bfloat16 and a
compiled decoding step are reported without a limit. With peer "none" the shape
"long" is also run without refilling, where a row of the batch stays empty after
its sample has ended; refilling starts the next sample in that row.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import rich.console

from experiments.studies.benchmark import machine, peer_comparison, sides, sizes
from experiments.studies.benchmark.outcome import Outcome, Row
from models import flop_counts

# Least ratios, by peer and shape: time per token of the peer over ours.
LIMITS = {
  ("hf", "small"): 2.5,
  ("hf", "large"): 2.3,
  ("hf", "long"): 6.0,
  ("tunix", "long"): 4.0,
}
# Least ratio of tokens per second with refilling to those without.
REFILL_LIMIT = 1.6
PEERS = ("hf", "tunix", peer_comparison.NONE)


class PeerForm(NamedTuple):
  """A variant of a peer, such as float32 or a compiled decoding step.

  Attributes:
    launch: launch of the peer's side.
    options: values to try for each setting, to find the fastest.
    limited: whether the limit and the check of greedy tokens apply.
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
  """Speed of sampling, compared with transformers or Tunix.

  Args:
    console: console for progress.
    shape: name of a shape in `sizes.DECODE`; "" measures all.
    peer: "hf" (transformers), "tunix" or "none".
    calls: number of timed calls of each side.
    pythons: Python interpreters by peer, for peers that are installed in an
      environment of their own.

  Returns:
    The rows. The outcome passes if every ratio with a limit reaches it.

  Raises:
    UsageError: the shape or peer is unknown, the peer is not installed, greedy
      tokens differ, or a side fails.
  """
  return peer_comparison.compare_over_shapes(
    console,
    shape,
    sizes.DECODE,
    [
      functools.partial(peer_comparison.make_launch, peer, PEERS, pythons or {})
    ],
    sizes.write,
    functools.partial(_rows, calls=calls),
  )


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch | None],
  calls: int,
  limits: machine.Machine,
  report: sides.Report,
) -> Iterator[Row]:
  """Yields the rows of one shape, one for each form of the peer."""
  shape, (peer,) = sizes.DECODE[name], launches

  def cost(call: sides.Call) -> flop_counts.Cost:
    return flop_counts.decode_cost(
      shape.model, shape.prompt_length, call.counts["lengths"]
    )

  measure = functools.partial(
    peer_comparison.measure_row,
    shape=shape,
    calls=calls,
    least_seconds=lambda call: limits.least_seconds(cost(call)),
    work=lambda call: limits.utilization(cost(call), call.seconds),
    report=report,
  )
  search = functools.partial(
    sides.start_fastest,
    report=report,
    max_bytes=sides.MAX_BYTES,
    trial_settings=_trial_settings,
  )
  our_launch = sides.Launch(
    "ours", "experiments.studies.benchmark.ours.sampler", job
  )
  with search(our_launch, _our_options(shape)) as ours:
    if peer is None:
      yield measure(f"decode {name}", ours=ours, peer=None)
      # For mixed lengths, a second row compares this project with itself
      # without refilling.
      if shape.mean_length:
        without_refill = dataclasses.replace(
          our_launch, name="ours without refill"
        )
        options = {**_our_options(shape), "rows": (shape.samples,)}
        with search(without_refill, options) as other_side:
          yield measure(
            f"decode {name} beside {without_refill.name}",
            ours=ours,
            peer=other_side,
            limit=REFILL_LIMIT,
          )
      return
    for form in _peer_forms(peer, shape):
      with search(form.launch, form.options) as other_side:
        if form.limited:
          peer_comparison.check_same_greedy_tokens(
            ours, other_side, job["plain"], report
          )
        yield measure(
          f"decode {name} beside {form.launch.name}",
          ours=ours,
          peer=other_side,
          limit=LIMITS.get((peer.name, name)) if form.limited else None,
        )


def _our_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  options: dict[str, Sequence[Any]] = {
    "devices": machine.device_counts(),
    "unroll": (0,),
    "attention": ("blocked", "plain"),
  }
  if shape.mean_length:
    S = shape.samples
    shares = (max(S // parts, 1) for parts in (2, 4, 8, 1))
    options["rows"] = tuple(dict.fromkeys(shares))
    options["micro"] = _microbatches(shape)
  return options


def _peer_forms(peer: sides.Launch, shape: sizes.Shape) -> Iterator[PeerForm]:
  """Yields the forms of the peer that are measured."""
  microbatches = {"micro": _microbatches(shape)} if shape.mean_length else {}
  if peer.name != "hf":
    yield PeerForm(peer, {"devices": machine.device_counts(), **microbatches})
    return
  threads = {"threads": machine.device_counts()}

  def with_dtype(label: str, dtype: str) -> sides.Launch:
    renamed = dataclasses.replace(peer, name=f"transformers {label}")
    return dataclasses.replace(renamed, job={**peer.job, "dtype": dtype})

  eager = {**threads, "cache": ("dynamic", "static"), **microbatches}
  yield PeerForm(with_dtype("float32", "float32"), eager)
  if shape.mean_length:  # A call takes minutes: measure only the form above.
    return
  cache = {"cache": ("dynamic", "static")}
  yield PeerForm(
    with_dtype("bfloat16", "bfloat16"), threads | cache, limited=False
  )
  compiled = threads | {"cache": ("compiled",)}
  yield PeerForm(with_dtype("compiled", "float32"), compiled, limited=False)


def _microbatches(shape: sizes.Shape) -> Sequence[int]:
  """Returns numbers of prompts per call to try, the quickest trial first."""
  P = shape.prompts
  return tuple(dict.fromkeys((P // 4 or 1, P // 2 or 1, P)))


def _trial_settings(candidate: sides.Launch) -> dict[str, Any]:
  """Limits a trial call to one microbatch, which is enough to compare speed."""
  return {"prompts": candidate.job["micro"]}
