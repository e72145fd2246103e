"""Speed of an update beside torch.

Both sides take the same weights, token ids and advantages, the clipped
surrogate averaged over tokens, and AdamW. That they do the same is proved
first: loss, gradient norm, and the tokens' mean log-probability before and
after one update.

  small  4 layers d256 v1024, 8 prompts of 64 by 8 samples of 128
  large  12 layers d768 v32k, the same batch

A prompt is run once for its samples by ours and once a sample by torch; tokens
per second count completions on both. Each side runs at the setting that was
fastest when tried. The limits are for float32, eager; bfloat16 by autocast and
`torch.compile` are shown beside.
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
from experiments.studies.benchmark import (
  beside,
  machine,
  random_rollout,
  sides,
  sizes,
)
from experiments.studies.benchmark.outcome import Outcome, Row

LIMITS = {"small": 1.1, "large": 1.35}
BOUND_LIMITS = {"large": 0.55}  # of the measured matmul rate
PEERS = ("torch", beside.NONE)
BATCH = "batch.npz"
LIMITED = "eager float32"
FORMS = {
  LIMITED: {"dtype": "float32", "compiled": False},
  "autocast bfloat16": {"dtype": "bfloat16", "compiled": False},
  "compiled float32": {"dtype": "float32", "compiled": True},
}
# Relative; after an update, of float32's own noise in small gradients' signs.
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
  """Speed of an update beside torch.

  Args:
    console: where progress goes.
    shape: one of `sizes.UPDATE`; "" takes all.
    peer: "torch" or "none".
    calls: of each side that count.
    pythons: interpreters of peers that have one of their own.

  Returns:
    Rows. Passed: every ratio that has a limit reaches it, and so does our
    share of the matmul rate.

  Raises:
    UsageError: unknown shape or peer, a peer that is not installed, an update that
      differs, or a side that fails.
  """
  return beside.over_shapes(
    console,
    shape,
    sizes.UPDATE,
    [functools.partial(beside.launch, peer, PEERS, pythons or {})],
    write,
    functools.partial(_rows, calls=calls),
  )


def write(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """Weights and a batch; the job of every side."""
  size = (shape.prompts, shape.samples, shape.prompt_length, shape.max_tokens)
  batch = (shape.model.vocab_size, *size)
  made = random_rollout.make(*batch)
  job = sizes.write(shape, folder, batch=batch, chunk=None, **OPTIMIZER)
  np.savez(
    folder / BATCH,
    prompts=made.tokens.prompts,
    completions=made.completions,
    advantages=made.scores,
  )
  return job | {"batch_file": str(folder / BATCH)}


def prove(ours: sides.Side, peer: sides.Side, tell: sides.Tell) -> None:
  """Both make the same update.

  Raises:
    UsageError: they differ by more than `TOLERANCES`; says in what.
  """
  own, other = ours.ask("proof"), peer.ask("proof")
  for name, tolerance in TOLERANCES.items():
    off = abs(own[name] - other[name]) / abs(own[name])
    if not off <= tolerance:
      raise errors.UsageError(
        f"{peer.launch} makes another update: {name} is {other[name]:.7g}, "
        f"ours is {own[name]:.7g}, which is {off:.1e} off"
      )
  moved = abs(own["log_prob_after"] - own["log_prob"])
  if moved < 10 * TOLERANCES["log_prob_after"] * abs(own["log_prob"]):
    raise errors.UsageError("an update that changes nothing proves nothing")
  tell(
    f"proved: {peer.launch} makes our update; mean log-prob moved {moved:.3g}"
  )


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch | None],
  calls: int,
  limits: machine.Machine,
  tell: sides.Tell,
) -> Iterator[Row]:
  """Of one shape: ours beside each form of torch, or alone."""
  shape, (peer,) = sizes.UPDATE[name], launches
  lengths = np.full((shape.prompts, shape.samples), shape.max_tokens)
  cost = flop_counts.update_cost(shape.model, shape.prompt_length, lengths)
  measure = functools.partial(
    beside.row,
    shape=shape,
    calls=calls,
    bound=lambda _: limits.bound(cost),
    work=lambda call: limits.work(cost, call.seconds),
    tell=tell,
  )
  least = BOUND_LIMITS.get(name)
  search = functools.partial(sides.fastest, tell=tell, memory=sides.MEMORY)
  own = sides.Launch("ours", "experiments.studies.benchmark.own.update", job)
  with search(own, _own_options(shape)) as ours:
    if peer is None:
      yield measure(f"update {name}", ours=ours, peer=None, bound_limit=least)
      return
    options = _peer_options(shape)
    for label, form in FORMS.items():
      launch = dataclasses.replace(
        peer, name=f"torch {label}", job={**peer.job, **form}
      )
      limited = label == LIMITED
      with search(launch, options) as other:
        if limited:
          prove(ours, other, tell)
        yield measure(
          f"update {name} beside {launch.name}",
          ours=ours,
          peer=other,
          limit=LIMITS.get(name) if limited else None,
          bound_limit=least if limited else None,
        )
      # The other forms are tried with as many threads, and cut like this one.
      kept = {key: (value,) for key, value in other.launch.chosen.items()}
      options = kept | {"threads": options["threads"]}


def _own_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  P = shape.prompts
  large = shape.model.layers > 4
  return {
    "devices": machine.splits(),
    "unroll": (0,),
    "attention": ("blocked", "plain"),
    "micro": (P // 4, P) if large else (P, P // 2),
    "chunk": (None, 512),
  }


def _peer_options(shape: sizes.Shape) -> dict[str, Sequence[Any]]:
  rows = shape.prompts * shape.samples
  return {
    "threads": machine.splits(),
    "rows": (rows // 4, rows) if shape.model.layers > 4 else (rows, rows // 4),
    "chunk": (None, 1024),
  }
