"""Speed of a GRPO iteration, compared with the trainers of TRL and Tunix.

A call is one iteration: it draws the samples of all prompts at temperature 1,
scores a sample by the share of even token ids, normalizes advantages within the
group (the samples of one prompt), and makes one AdamW update, without a KL
term. The learning rate is the same on all sides. The measured value is tokens
per second of the whole iteration, where tokens up to and including EOS count.

Three checks show that both sides do equal work: our sampler and the peer's
generate the same greedy tokens; the mean length of completions is the same
within 5 standard errors, before the timing and in every timed pair of calls;
and one update moves the output kernel of the first MLP by about the learning
rate, as an AdamW update does.

A peer's trainer runs its own loop, so hooks stop it between two iterations
(`peers.protocol.Served.train`).
"""

from __future__ import annotations

import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import rich.console

from experiments.studies.benchmark import comparison, machine, sides, sizes
from experiments.studies.benchmark.comparison import Case, Options, Rival
from experiments.studies.benchmark.outcome import Outcome
from models import flop_counts
from rl import UsageError

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
TRIAL_DIVISOR = 4
ALL_PEERS = "all"
PEERS = ("trl", "tunix", ALL_PEERS, comparison.NONE)


def iteration(
  console: rich.console.Console,
  *,
  shape: str = "",
  peer: str = ALL_PEERS,
  calls: int = 5,
  pythons: Mapping[str, str] | None = None,
) -> Outcome:
  """Speed of a GRPO iteration, compared with TRL and Tunix.

  The settings are those of `comparison.compare`; the peer is "trl", "tunix",
  "all" for both, or "none". The outcome passes if every ratio with a limit
  reaches it.
  """
  return comparison.compare(
    console,
    shape,
    sizes.ITERATION,
    peers=("trl", "tunix") if peer == ALL_PEERS else (peer,),
    allowed=PEERS,
    pythons=pythons,
    calls=calls,
    write=write_job,
    options=our_options,
    rivals=rivals,
    costs=[flop_counts.decode_cost, flop_counts.update_cost],
    trial=lambda job: job["trial"],
  )


def write_job(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """Writes weights and prompts, and returns the job of all sides."""
  count = max(shape.prompts // TRIAL_DIVISOR, 1)
  return sizes.write(
    shape,
    folder,
    kind="iteration",
    # Also for weights that never draw it: the peers' trainers need one.
    eos_id=sizes.EOS_ID,
    learning_rate=LEARNING_RATE,
    chunk=None,
    rows=0,
    packed=shape.mean_length > 0,
    trial={"count": count} if shape.mean_length else {},
  )


def our_options(shape: sizes.Shape) -> Options:
  """Returns the settings of our side to try, likely best values first."""
  options = {
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


def rivals(case: Case) -> Iterator[Rival]:
  """Yields a rival for each peer, or this project alone."""
  row = f"iteration {case.name}"
  for launch in case.peers:
    if launch is None:
      yield Rival(row, check=lambda ours, *_: check_learning(ours))
      continue
    workers = {"trl": "threads", "tunix": "devices"}[launch.name]
    options = {workers: machine.device_counts()}
    if case.shape.mean_length:
      options["micro"] = microbatches(case.shape)
    yield Rival(
      f"{row} beside {launch.name}",
      launch.with_job(**case.job),
      options,
      check=check_same_work,
      check_pair=check_same_lengths,
      limit=LIMITS.get((launch.name, case.name)),
    )


def check_same_work(
  ours: sides.Side, peer: sides.Side, report: sides.Report
) -> None:
  """Checks greedy tokens, the sizes of updates, and mean lengths."""
  sampler = sides.Launch("our sampler", sides.OURS, ours.launch.job)
  with sides.Side(sampler.with_job(kind="sampler", devices=1)) as our_sampler:
    comparison.check_same_greedy_tokens(our_sampler, peer, report)
  check_same_lengths(check_learning(ours), check_learning(peer))


def microbatches(shape: sizes.Shape) -> Sequence[int]:
  """Returns numbers of prompts per backward pass to try."""
  # No side fits more than a quarter of the prompts into its memory.
  return tuple(dict.fromkeys(max(shape.prompts // n, 1) for n in (8, 16, 4)))


def check_learning(side: sides.Side) -> sides.Call:
  """Runs an iteration; raises UsageError if weights move by another rate."""
  side.ask("changed")
  call = side.run(0)
  # Largest change of a weight, in learning rates.
  change = side.ask("changed")["largest"] / LEARNING_RATE
  smallest, largest = MOVE_RANGE
  if not smallest <= change <= largest:
    raise UsageError(
      f"{side.launch}: an update moves weights by {change:.3g} learning rates; "
      f"an AdamW update lies in [{smallest}, {largest}]"
    )
  return call


def check_same_lengths(our_call: sides.Call, peer_call: sides.Call) -> None:
  """Raises UsageError if the number or mean length of completions differs."""
  lengths = (call.counts["lengths"] for call in (our_call, peer_call))
  ours, peers = map(np.ravel, lengths)
  standard_errors = [x.std() / len(x) ** 0.5 for x in (ours, peers)]
  allowed = MAX_STANDARD_ERRORS * float(np.hypot(*standard_errors))
  if len(ours) != len(peers) or abs(ours.mean() - peers.mean()) > allowed:
    raise UsageError(
      f"{len(ours)} completions of {ours.mean():.1f} tokens beside "
      f"{len(peers)} of {peers.mean():.1f}: the two sides do not do the same "
      "work"
    )
