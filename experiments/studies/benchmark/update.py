"""Speed of an update, compared with torch.

Both sides take the same weights, token ids and advantages, and make an AdamW
update with the clipped surrogate averaged over tokens. Before the timing both
report the loss, the gradient norm, the mean log-probability of the tokens
before and after one update, and the sum of squared weights after it. These
numbers must agree.

Shapes:

  small  4 layers d256 v1024, 8 prompts of 64, 8 samples of 128 each
  large  12 layers d768 v32k, the same batch

d is the width and v the size of the vocabulary. Our side, which is this
project, runs a prompt once for all its samples; torch runs it once for each
sample. In tokens per second only the tokens of completions count, on both
sides. Each side first tries its settings and is measured with the fastest
setting. The limits apply to eager float32; bfloat16 autocast and
`torch.compile` are reported without a limit.
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
  peer_comparison,
  random_rollout,
  sides,
  sizes,
)
from experiments.studies.benchmark.outcome import Outcome, Row
from models import flop_counts

# Least ratios by shape: time per token of torch over ours.
LIMITS = {"small": 1.1, "large": 1.35}
BOUND_LIMITS = {"large": 0.55}  # least share of the measured matmul rate
PEERS = ("torch", peer_comparison.NONE)
BATCH = "batch.npz"
LIMITED_FORM = "eager float32"
FORMS = {
  LIMITED_FORM: {"dtype": "float32", "compiled": False},
  "autocast bfloat16": {"dtype": "bfloat16", "compiled": False},
  "compiled float32": {"dtype": "float32", "compiled": True},
}
# Largest allowed relative differences between the sides. Float32 rounding can
# change the sign of a small gradient, and so the update of a weight.
TOLERANCES = {
  "loss": 1e-4,
  "grad_norm": 1e-3,
  "log_prob": 1e-4,
  "log_prob_after": 1e-4,
  "squares_after": 1e-4,
}
OPTIMIZER = {"learning_rate": 1e-4, "weight_decay": 0.01}


def update(
  console: rich.console.Console,
  *,
  shape: str = "",
  peer: str = "torch",
  calls: int = 5,
  pythons: Mapping[str, str] | None = None,
) -> Outcome:
  """Speed of an update, compared with torch.

  Args:
    console: console for progress.
    shape: name of a shape in `sizes.UPDATE`; "" measures all.
    peer: "torch" or "none".
    calls: number of timed calls of each side.
    pythons: Python interpreters by peer, for peers that are installed in an
      environment of their own.

  Returns:
    The rows. The outcome passes if every ratio with a limit reaches it, and our
    share of the matmul rate reaches its limit.

  Raises:
    UsageError: the shape or peer is unknown, the peer is not installed, the
      updates differ, or a side fails.
  """
  return peer_comparison.compare_over_shapes(
    console,
    shape,
    sizes.UPDATE,
    [
      functools.partial(peer_comparison.make_launch, peer, PEERS, pythons or {})
    ],
    write_job,
    functools.partial(_rows, calls=calls),
  )


def write_job(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """Writes weights and a batch, and returns the job of all sides."""
  size = (shape.prompts, shape.samples, shape.prompt_length, shape.max_tokens)
  batch = (shape.model.vocab_size, *size)
  rollout = random_rollout.make(*batch)
  job = sizes.write(shape, folder, batch=batch, chunk=None, **OPTIMIZER)
  np.savez(
    folder / BATCH,
    prompts=rollout.tokens.prompts,
    completions=rollout.completions,
    advantages=rollout.scores,
  )
  return job | {"batch_file": str(folder / BATCH)}


def check_same_update(
  ours: sides.Side, peer: sides.Side, report: sides.Report
) -> None:
  """Checks that both sides make the same update.

  Raises:
    UsageError: a value differs by more than its entry in `TOLERANCES`, or the
      update is too small to prove that they agree.
  """
  our_numbers, peer_numbers = ours.ask("proof"), peer.ask("proof")
  for name, tolerance in TOLERANCES.items():
    our_value, peer_value = our_numbers[name], peer_numbers[name]
    error = abs(our_value - peer_value) / abs(our_value)
    if not error <= tolerance:
      raise errors.UsageError(
        f"{peer.launch} makes another update: {name} is {peer_value:.7g}, ours "
        f"is {our_value:.7g}, a relative difference of {error:.1e}"
      )
  change = abs(our_numbers["log_prob_after"] - our_numbers["log_prob"])
  if change < 10 * TOLERANCES["log_prob_after"] * abs(our_numbers["log_prob"]):
    raise errors.UsageError(
      f"an update that changes log_prob by {change:.1e} is too small to prove "
      "that both sides agree"
    )
  report(
    f"proved: {peer.launch} makes our update; mean log-prob moved {change:.3g}"
  )


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch | None],
  calls: int,
  limits: machine.Machine,
  report: sides.Report,
) -> Iterator[Row]:
  """Yields the rows of one shape, one for each form of torch or one alone."""
  shape, (peer,) = sizes.UPDATE[name], launches
  lengths = np.full((shape.prompts, shape.samples), shape.max_tokens)
  cost = flop_counts.update_cost(shape.model, shape.prompt_length, lengths)
  measure = functools.partial(
    peer_comparison.measure_row,
    shape=shape,
    calls=calls,
    least_seconds=lambda _: limits.least_seconds(cost),
    work=lambda call: limits.utilization(cost, call.seconds),
    report=report,
  )
  bound_limit = BOUND_LIMITS.get(name)
  search = functools.partial(
    sides.start_fastest, report=report, max_bytes=sides.MAX_BYTES
  )
  our_launch = sides.Launch(
    "ours", "experiments.studies.benchmark.ours.gradient_update", job
  )
  with search(our_launch, _our_options(shape)) as ours:
    if peer is None:
      yield measure(
        f"update {name}", ours=ours, peer=None, bound_limit=bound_limit
      )
      return
    options = _peer_options(shape)
    for label, form in FORMS.items():
      launch = dataclasses.replace(
        peer, name=f"torch {label}", job={**peer.job, **form}
      )
      is_limited = label == LIMITED_FORM
      with search(launch, options) as other_side:
        if is_limited:
          check_same_update(ours, other_side, report)
        yield measure(
          f"update {name} beside {launch.name}",
          ours=ours,
          peer=other_side,
          limit=LIMITS.get(name) if is_limited else None,
          bound_limit=bound_limit if is_limited else None,
        )
      # All settings are tried for the first form. The other forms use the
      # fastest of them, and try only numbers of threads.
      chosen = {
        key: (value,) for key, value in other_side.launch.chosen.items()
      }
      options = chosen | {"threads": options["threads"]}


def _our_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  P = shape.prompts
  large = shape.model.layers > 4
  return {
    "devices": machine.device_counts(),
    "unroll": (0,),
    "attention": ("blocked", "plain"),
    "micro": (P // 4, P) if large else (P, P // 2),
    "chunk": (None, 512),
  }


def _peer_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  rows = shape.prompts * shape.samples
  return {
    "threads": machine.device_counts(),
    "rows": (rows // 4, rows) if shape.model.layers > 4 else (rows, rows // 4),
    "chunk": (None, 1024),
  }
