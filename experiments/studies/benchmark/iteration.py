"""A whole GRPO iteration beside TRL's and Tunix's trainers.

A call is a rollout, its reward and an update: the samples of all prompts drawn
at temperature 1, the share of even ids as the reward, advantages within the
group, one AdamW step of the same rate, no KL. What counts are tokens up to and
including EOS, per second of the whole iteration.

  small  4 layers d256 v1024, 8 prompts of 64 by 8 samples of 128 tokens
  long   4 layers d256 v32k, 16 prompts of 512 by 16 samples, lengths geometric
         with mean 64 and at most 256; each side at its fastest microbatch
         within 20 GiB

Each side runs at the setting that was fastest when tried. Equal work is proved
before: the greedy tokens of our sampler and the peer's are the same from the
same folder; an iteration's mean length is the same, within 5 standard errors
where lengths are mixed, before and in every pair of calls that counts; and an
update moves the first MLP's kernel by as much as AdamW's rate, on both sides.
Peers own their loops, so hooks hold them between two iterations (`peers.turns`).
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import rich.console

from experiments.cli import errors
from experiments.studies import flop_counts
from experiments.studies.benchmark import beside, machine, outcome, sides, sizes

LIMITS = {
  ("tunix", "small"): 1.5,
  ("trl", "small"): 1.7,
  ("tunix", "long"): 4.0,
  ("trl", "long"): 4.0,
}
# So small that the policy stays what it is: at 1e-5 it learned within a few
# updates that EOS is an even id, and completions became short.
LEARNING_RATE = 1e-7
STEPS = 0.2, 5.0  # of the rate: the largest move that is AdamW's
ERRORS = 5.0  # standard errors
# Where completions are long, settings are tried on so many times fewer prompts,
# the largest microbatch that is tried.
FEWER, FEW = 4, "few_prompts"
EVERY = "all"
PEERS = ("trl", "tunix", EVERY, beside.NONE)
# What makes an iteration of a peer, where another program only samples.
PROGRAMS = {"tunix": "experiments.studies.benchmark.peers.tunix_grpo"}


def iteration(
  console: rich.console.Console,
  *,
  shape: str = "",
  peer: str = EVERY,
  calls: int = 5,
  pythons: Mapping[str, str] | None = None,
) -> outcome.Outcome:
  """A whole GRPO iteration beside TRL and Tunix.

  Args:
    console: where progress goes.
    shape: one of `sizes.ITERATION`; "" takes all.
    peer: "trl", "tunix", "all" of them or "none".
    calls: of each side that count.
    pythons: interpreters of peers that have one of their own.

  Returns:
    Rows. Passed: every ratio that has a limit reaches it.

  Raises:
    UsageError: unknown shape or peer, a peer that is not installed, work that is
      not equal, or a side that fails.
  """
  peers = ("trl", "tunix") if peer == EVERY else (peer,)
  return beside.over_shapes(
    console,
    shape,
    sizes.ITERATION,
    [functools.partial(launch, pythons or {}, name) for name in peers],
    written,
    functools.partial(_rows, calls=calls),
  )


def written(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """The job of every side; EOS is told also where the weights never draw it."""
  job = sizes.write(
    shape,
    folder,
    eos_id=sizes.EOS_ID,
    learning_rate=LEARNING_RATE,
    chunk=None,
    rows=0,
  )
  few = folder / f"{FEW}.npy"
  np.save(few, np.load(job["prompts"])[: max(shape.prompts // FEWER, 1)])
  return job | {FEW: str(few)}


def launch(
  pythons: Mapping[str, str], peer: str, job: Mapping[str, Any]
) -> sides.Launch | None:
  """How a peer's trainer is started, once it was found installed."""
  found = beside.launch(peer, PEERS, pythons, job)
  if peer in PROGRAMS:
    found = dataclasses.replace(found, program=PROGRAMS[peer])
  return found


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch | None],
  calls: int,
  limits: machine.Machine,
  tell: sides.Tell,
) -> Iterator[outcome.Row]:
  """Of one shape: ours beside each peer, or alone."""
  shape = sizes.ITERATION[name]
  measure = functools.partial(
    beside.row,
    calls=calls,
    bound=functools.partial(_bound, limits, shape),
    tell=tell,
  )
  search = functools.partial(sides.fastest, tell=tell, memory=sides.MEMORY)
  if shape.mean_length:  # a call of a peer takes minutes
    few = {"prompts": job[FEW]}
    search = functools.partial(search, trials=1, brief=few)
  own = sides.Launch("ours", "experiments.studies.benchmark.own.iteration", job)
  with search(own, own_options(shape)) as ours:
    prove_learning(ours)
    for told in launches:
      if told is None:
        yield measure(f"iteration {name}", shape, ours, None)
        continue
      with search(told, peer_options(told.name, shape)) as other:
        sampler = sides.Launch(
          "our sampler",
          "experiments.studies.benchmark.own.decode",
          job | {"devices": 1},
        )
        with sides.Side(sampler) as drawn:
          beside.prove_greedy(drawn, other, job["plain"], tell)
        prove_same_lengths(prove_learning(ours), prove_learning(other))
        yield measure(
          f"iteration {name} beside {told.name}",
          shape,
          ours,
          other,
          prove=prove_same_lengths,
          limit=LIMITS[told.name, name],
        )


def _bound(
  limits: machine.Machine, shape: sizes.Shape, call: sides.Call
) -> float:
  """Seconds of the rollout and of the update, one after the other."""
  what = shape.model, shape.prompt_length, call.counts["lengths"]
  return sum(
    limits.bound(cost(*what))
    for cost in (flop_counts.decode_cost, flop_counts.update_cost)
  )


def own_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  """Settings that ours is tried with, the likely best ones first."""
  options: dict[str, Sequence[Any]] = {
    "devices": machine.splits(),
    "unroll": (0, 1),
    "attention": ("blocked", "plain"),
  }
  if shape.mean_length:
    S = shape.samples
    options |= {
      "micro": microbatches(shape),
      "chunk": (256, 1024),
      "rows": (S // 2, S // 4, S),
    }
  return options


def peer_options(peer: str, shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  """Settings that a peer is tried with."""
  options: dict[str, Sequence[Any]] = {
    {"trl": "threads", "tunix": "devices"}[peer]: machine.splits()
  }
  if shape.mean_length:
    options["micro"] = microbatches(shape)
  return options


def microbatches(shape: sizes.Shape) -> Sequence[int]:
  """Prompts of a backward pass; more than a quarter of them fit nobody."""
  P = shape.prompts
  return tuple(dict.fromkeys(max(P // n, 1) for n in (8, 16, 4)))


def prove_learning(side: sides.Side) -> sides.Call:
  """An iteration whose update is seen in the weights.

  Raises:
    UsageError: they move by something else than AdamW's rate, or it took more
      memory than a side may hold.
  """
  side.ask("changed")
  call = side.run(0)
  sides.check_memory(side.launch, call, sides.MEMORY)
  moved = side.ask("changed")["largest"] / LEARNING_RATE
  least, most = STEPS
  if not least <= moved <= most:
    raise errors.UsageError(
      f"{side.launch}: an update moves weights by {moved:.3g} learning rates; "
      f"AdamW's lies in [{least}, {most}]"
    )
  return call


def prove_same_lengths(own: sides.Call, other: sides.Call) -> None:
  """Completions are equally many and, on average, equally long.

  Raises:
    UsageError: they are not.
  """
  found = [np.ravel(call.counts["lengths"]) for call in (own, other)]
  means = [lengths.mean() for lengths in found]
  deviations = [lengths.std() / len(lengths) ** 0.5 for lengths in found]
  allowed = ERRORS * float(np.hypot(*deviations))
  if len(found[0]) != len(found[1]) or abs(means[0] - means[1]) > allowed:
    raise errors.UsageError(
      f"{len(found[0])} completions of {means[0]:.1f} tokens beside "
      f"{len(found[1])} of {means[1]:.1f}: this is other work"
    )
