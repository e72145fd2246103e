"""Speed of a GRPO iteration, compared with the trainers of TRL and Tunix.

A call is one iteration: it draws the samples of all prompts at temperature 1,
scores a sample by the share of even token ids, normalizes advantages within the
group (the samples of one prompt), and makes one AdamW update, without a KL
term. The learning rate is the same on all sides. The measured value is tokens
per second of the whole iteration, where tokens up to and including EOS count.

Shapes:

  small  4 layers d256 v1024, 8 prompts of 64, 8 samples of 128 tokens each
  long   4 layers d256 v32k, 16 prompts of 512, 16 samples each; lengths are
         geometric with mean 64, cut at 256
  smollm2  30 layers d576 v49k, 8 prompts of 64, 8 samples each; lengths are
         geometric with mean 16, cut at 64

d is the width and v the size of the vocabulary. A side may use 20 GiB of
memory.

Each side first tries its settings and is measured with the fastest setting.
Three checks show that both sides do equal work:

  * The sampler of this project and the peer's sampler generate the same greedy
    tokens from the same weights.
  * The mean length of completions is the same on both sides, within 5 standard
    errors if lengths are mixed. This is checked once before the timing, and for
    every timed pair of calls.
  * One update moves the output kernel of the first MLP by about the learning
    rate, as an AdamW update does.

A peer's trainer runs its own loop, so hooks stop it between two iterations
(`peers.turns`).
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
from experiments.studies.benchmark import (
  machine,
  outcome,
  peer_comparison,
  sides,
  sizes,
)
from models import flop_counts

# Least ratios, by peer and shape: time per token of the peer over ours.
LIMITS = {
  ("tunix", "small"): 1.5,
  ("trl", "small"): 1.7,
  ("tunix", "long"): 4.0,
  ("trl", "long"): 4.0,
  ("trl", "smollm2"): 4.0,
}
# So small that the policy hardly changes. At 1e-5 completions became short
# within a few updates, because EOS has an even id, which is rewarded.
LEARNING_RATE = 1e-7
# Allowed range of the largest change of a weight, divided by the learning rate.
# AdamW moves each weight by about one learning rate.
MOVE_RANGE = 0.2, 5.0
# Largest allowed difference of mean lengths, in standard errors. By chance the
# difference exceeds it about once in two million pairs.
MAX_STANDARD_ERRORS = 5.0
# If completions are long, settings are tried on a fourth of the prompts, which
# is the largest microbatch among the settings.
TRIAL_DIVISOR, TRIAL_PROMPTS = 4, "few_prompts"
ALL_PEERS = "all"
PEERS = ("trl", "tunix", ALL_PEERS, peer_comparison.NONE)
# Programs that run iterations; the program in `peers.PEERS` only samples.
PROGRAMS = {"tunix": "experiments.studies.benchmark.peers.tunix_grpo"}


def iteration(
  console: rich.console.Console,
  *,
  shape: str = "",
  peer: str = ALL_PEERS,
  calls: int = 5,
  pythons: Mapping[str, str] | None = None,
) -> outcome.Outcome:
  """Speed of a GRPO iteration, compared with TRL and Tunix.

  Args:
    console: console for progress.
    shape: name of a shape in `sizes.ITERATION`; "" measures all.
    peer: "trl", "tunix", "all" for both, or "none".
    calls: number of timed calls of each side.
    pythons: Python interpreters by peer, for peers that are installed in an
      environment of their own.

  Returns:
    The rows. The outcome passes if every ratio with a limit reaches it.

  Raises:
    UsageError: the shape or peer is unknown, a peer is not installed, the work
      is not equal, or a side fails.
  """
  peers = ("trl", "tunix") if peer == ALL_PEERS else (peer,)
  return peer_comparison.compare_over_shapes(
    console,
    shape,
    sizes.ITERATION,
    [functools.partial(make_launch, pythons or {}, name) for name in peers],
    write_job,
    functools.partial(_rows, calls=calls),
  )


def write_job(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """Writes weights and prompts, and returns the job of all sides.

  The job names an EOS id even for weights that never draw it, because the
  peers' trainers need one.
  """
  job = sizes.write(
    shape,
    folder,
    eos_id=sizes.EOS_ID,
    learning_rate=LEARNING_RATE,
    chunk=None,
    rows=0,
    packed=shape.mean_length > 0,
  )
  few = folder / f"{TRIAL_PROMPTS}.npy"
  np.save(
    few, np.load(job["prompts"])[: max(shape.prompts // TRIAL_DIVISOR, 1)]
  )
  return job | {TRIAL_PROMPTS: str(few)}


def make_launch(
  pythons: Mapping[str, str], peer: str, job: Mapping[str, Any]
) -> sides.Launch | None:
  """Returns the launch of a peer's trainer, or None for the peer "none"."""
  peer_launch = peer_comparison.make_launch(peer, PEERS, pythons, job)
  if peer in PROGRAMS:
    peer_launch = dataclasses.replace(peer_launch, program=PROGRAMS[peer])
  return peer_launch


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch | None],
  calls: int,
  limits: machine.Machine,
  report: sides.Report,
) -> Iterator[outcome.Row]:
  """Yields the rows of one shape, one for each peer or one without a peer."""
  shape = sizes.ITERATION[name]
  measure = functools.partial(
    peer_comparison.measure_row,
    calls=calls,
    least_seconds=functools.partial(_least_seconds, limits, shape),
    report=report,
  )
  search = functools.partial(
    sides.start_fastest, report=report, max_bytes=sides.MAX_BYTES
  )
  if shape.mean_length:  # A call of a peer takes minutes: try fewer prompts.
    fewer_prompts = {"prompts": job[TRIAL_PROMPTS]}
    search = functools.partial(search, trials=1, trial_job=fewer_prompts)
  our_launch = sides.Launch(
    "ours", "experiments.studies.benchmark.ours.grpo_iteration", job
  )
  with search(our_launch, our_options(shape)) as ours:
    check_learning(ours)
    for peer_launch in launches:
      if peer_launch is None:
        yield measure(f"iteration {name}", shape, ours, None)
        continue
      with search(peer_launch, peer_options(peer_launch.name, shape)) as other:
        sampler_launch = sides.Launch(
          "our sampler",
          "experiments.studies.benchmark.ours.sampler",
          job | {"devices": 1},
        )
        with sides.Side(sampler_launch) as sampler:
          peer_comparison.check_same_greedy_tokens(
            sampler, other, job["plain"], report
          )
        check_same_lengths(check_learning(ours), check_learning(other))
        yield measure(
          f"iteration {name} beside {peer_launch.name}",
          shape,
          ours,
          other,
          check_pair=check_same_lengths,
          limit=LIMITS.get((peer_launch.name, name)),
        )


def _least_seconds(
  machine_limits: machine.Machine, shape: sizes.Shape, call: sides.Call
) -> float:
  """Returns the least time of a rollout plus the least time of an update."""
  workload = shape.model, shape.prompt_length, call.counts["lengths"]
  return sum(
    machine_limits.least_seconds(cost(*workload))
    for cost in (flop_counts.decode_cost, flop_counts.update_cost)
  )


def our_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  """Returns the settings to try for our side, likely best values first."""
  options: dict[str, Sequence[Any]] = {
    "devices": machine.device_counts(),
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
  """Returns the settings to try for a peer."""
  options: dict[str, Sequence[Any]] = {
    {"trl": "threads", "tunix": "devices"}[peer]: machine.device_counts()
  }
  if shape.mean_length:
    options["micro"] = microbatches(shape)
  return options


def microbatches(shape: sizes.Shape) -> Sequence[int]:
  """Returns numbers of prompts per backward pass to try.

  No side fits more than a quarter of the prompts into its memory.
  """
  P = shape.prompts
  return tuple(dict.fromkeys(max(P // n, 1) for n in (8, 16, 4)))


def check_learning(side: sides.Side) -> sides.Call:
  """Runs an iteration and checks that its update changes the weights.

  Raises:
    UsageError: the weights do not move by about the learning rate, or the side
      uses too much memory.
  """
  side.ask("changed")
  call = side.run(0)
  sides.check_memory(side.launch, call, sides.MAX_BYTES)
  # Largest change of a weight, in learning rates.
  change = side.ask("changed")["largest"] / LEARNING_RATE
  smallest, largest = MOVE_RANGE
  if not smallest <= change <= largest:
    raise errors.UsageError(
      f"{side.launch}: an update moves weights by {change:.3g} learning rates; "
      f"an AdamW update lies in [{smallest}, {largest}]"
    )
  return call


def check_same_lengths(our_call: sides.Call, peer_call: sides.Call) -> None:
  """Checks that both calls drew equally many and equally long completions.

  Raises:
    UsageError: the number of completions or their mean length differs.
  """
  ours, peers = (
    np.ravel(call.counts["lengths"]) for call in (our_call, peer_call)
  )
  standard_errors = [x.std() / len(x) ** 0.5 for x in (ours, peers)]
  allowed = MAX_STANDARD_ERRORS * float(np.hypot(*standard_errors))
  if len(ours) != len(peers) or abs(ours.mean() - peers.mean()) > allowed:
    raise errors.UsageError(
      f"{len(ours)} completions of {ours.mean():.1f} tokens beside "
      f"{len(peers)} of {peers.mean():.1f}: the two sides do not do the same "
      "work"
    )
