"""Speed of an update: compared with torch, and without padding.

In both benchmarks the sides take the same weights, token ids and advantages,
and make an AdamW update with the clipped surrogate averaged over tokens. Before
the timing both report the loss, the gradient norm, the mean log-probability of
the tokens before and after one update, and the sum of squared weights after it.
These numbers must agree.

`update` compares this project with torch, at the shapes of `sizes.UPDATE`. Our
side runs a prompt once for all its samples; torch runs it once for each sample.
In tokens per second only the tokens of completions count, on both sides. Each
side first tries its settings and is measured with the fastest setting. The
limits apply to eager float32; bfloat16 autocast and `torch.compile` are
reported without a limit.

`packing` compares this project with itself, at the shapes of `sizes.PACKING`:
one side packs the texts of the batch (`experiments.training.packed_texts`) and
the other one computes padding. The limits are those of the time of a packed
update divided by that of a padded one: .45 if the mean length is a fourth of
the largest, 1.05 if all completions have the largest length.
"""

from __future__ import annotations

import dataclasses
import pathlib
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import rich.console

from experiments.studies.benchmark import comparison, machine, sides, sizes
from experiments.studies.benchmark.comparison import Case, Options, Rival
from experiments.studies.benchmark.outcome import Outcome
from models import flop_counts
from rl import UsageError

# Least ratios by shape: time per token of torch over ours.
LIMITS = {"small": 1.1, "large": 1.35}
BOUND_LIMITS = {"large": 0.55}  # least share of the measured matmul rate
# Least ratios of the time of a padded update to that of a packed one.
LEAST_RATIO, LEAST_RATIO_FULL = 1 / 0.45, 1 / 1.05
PEERS = ("torch", comparison.NONE)
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
# Entries of the job of both sides of `packing`, ours being packed.
PACKED = {"devices": 1, "unroll": 0, "attention": "blocked", "packed": True}
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

  The settings are those of `comparison.compare`; the peer is "torch" or "none".
  The outcome passes if every ratio with a limit reaches it, and our share of
  the matmul rate reaches its limit.
  """
  return comparison.compare(
    console,
    shape,
    sizes.UPDATE,
    peers=[peer],
    allowed=PEERS,
    pythons=pythons,
    calls=calls,
    write=write_job,
    options=_options,
    rivals=_torch_rivals,
    costs=[flop_counts.update_cost],
    utilization=True,
  )


def packing(
  console: rich.console.Console, *, shape: str = "", calls: int = 5
) -> Outcome:
  """Time of an update without padding, compared with one that computes it.

  The settings are those of `comparison.compare`. The outcome passes if every
  ratio reaches its limit.
  """
  return comparison.compare(
    console,
    shape,
    sizes.PACKING,
    calls=calls,
    write=lambda *args: write_job(*args) | PACKED,
    options=lambda _: {},
    rivals=_padded_rivals,
    costs=[flop_counts.update_cost],
  )


def write_job(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """Writes weights and a batch, and returns the job of all sides."""
  rollout = sizes.random_rollout(*shape.batch)
  # The lengths are those of the batch, whatever ends the weights would draw.
  never_ending = dataclasses.replace(shape, mean_length=0.0)
  job = sizes.write(never_ending, folder, kind="update", chunk=None)
  file = folder / "batch.npz"
  np.savez(
    file,
    prompts=rollout.tokens.prompts,
    completions=rollout.completions,
    advantages=rollout.scores,
  )
  return job | OPTIMIZER | {"batch": shape.batch, "batch_file": str(file)}


def check_same_update(
  ours: sides.Side, peer: sides.Side, report: sides.Report
) -> None:
  """Raises UsageError if values of the sides differ by more than `TOLERANCES`.

  It is also raised if the update is too small to prove that they agree.
  """
  our_numbers, peer_numbers = ours.ask("proof"), peer.ask("proof")
  for name, tolerance in TOLERANCES.items():
    our_value, peer_value = our_numbers[name], peer_numbers[name]
    error = abs(our_value - peer_value) / abs(our_value)
    if not error <= tolerance:
      raise UsageError(
        f"{peer.launch} makes another update: {name} is {peer_value:.7g}, ours "
        f"is {our_value:.7g}, a relative difference of {error:.1e}"
      )
  change = abs(our_numbers["log_prob_after"] - our_numbers["log_prob"])
  if change < 10 * TOLERANCES["log_prob_after"] * abs(our_numbers["log_prob"]):
    raise UsageError(
      f"an update that changes log_prob by {change:.1e} is too small to prove "
      "that both sides agree"
    )
  report(
    f"proved: {peer.launch} makes our update; mean log-prob moved {change:.3g}"
  )


def _options(shape: sizes.Shape) -> Options:
  """Returns the settings of our side to try."""
  P, large = shape.prompts, shape.model.layers > 4
  return {
    "devices": machine.device_counts(),
    "unroll": (0,),
    "attention": ("blocked", "plain"),
    "micro": (P // 4, P) if large else (P, P // 2),
    "chunk": (None, 512),
  }


def _torch_rivals(case: Case) -> Iterator[Rival]:
  """Yields the forms of torch, or this project alone."""
  name, shape, (peer,) = case.name, case.shape, case.peers
  bound_limit = BOUND_LIMITS.get(name)
  if peer is None:
    yield Rival(f"update {name}", bound_limit=bound_limit)
    return
  limited = {
    "check": check_same_update,
    "limit": LIMITS.get(name),
    "bound_limit": bound_limit,
  }
  rows = shape.prompts * shape.samples
  options = {
    "threads": machine.device_counts(),
    "rows": (rows // 4, rows) if shape.model.layers > 4 else (rows, rows // 4),
    "chunk": (None, 1024),
  }
  for label, form in FORMS.items():
    launch = dataclasses.replace(peer, name=f"torch {label}")
    checks = limited if label == LIMITED_FORM else {}
    row = f"update {name} beside {launch.name}"
    yield Rival(row, launch.with_job(**case.job, **form), options, **checks)


def _padded_rivals(case: Case) -> Iterator[Rival]:
  """Yields the side that computes padding."""
  padded = dataclasses.replace(case.ours, name="padded")

  def check(ours: sides.Side, other: sides.Side, report: sides.Report) -> None:
    room = ours.ask("room")["tokens"]
    report(f"room for {room or 'all'} tokens of a prompt")
    check_same_update(ours, other, report)

  yield Rival(
    f"update packed beside padded, {case.name}",
    padded.with_job(packed=False),
    check=check,
    limit=LEAST_RATIO if case.shape.mean_length else LEAST_RATIO_FULL,
  )
