"""Time of an update that leaves out padding, compared with one that does not.

Both sides are this project. They make the update of the benchmark `update` with
the same weights and the same batch; one side packs the texts of the batch
(`experiments.training.packed_texts`) and the other one computes padding.

Shapes, all of the model SmolLM2-135M with random weights and 8 samples of each
prompt of 64 tokens:

  64         8 prompts; lengths are geometric with mean 16, cut at 64
  64 full    8 prompts; all completions have 64 tokens
  256        2 prompts; lengths are geometric with mean 64, cut at 256
  256 full   1 prompt; all completions have 256 tokens

The limits are those of the time of a packed update divided by that of a padded
one: .45 if the mean length is a fourth of the largest, 1.05 if all completions
have the largest length.
"""

from __future__ import annotations

import dataclasses
import functools
import pathlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import rich.console

from experiments.studies.benchmark import (
  machine,
  peer_comparison,
  random_rollout,
  sides,
  sizes,
  update,
)
from experiments.studies.benchmark.outcome import Outcome, Row
from models import flop_counts

# Least ratios of the time of a padded update to that of a packed one.
LEAST_RATIO, LEAST_RATIO_FULL = 1 / 0.45, 1 / 1.05
PROGRAM = "experiments.studies.benchmark.ours.gradient_update"


def packing(
  console: rich.console.Console, *, shape: str = "", calls: int = 5
) -> Outcome:
  """Time of an update without padding, compared with one that computes it.

  Args:
    console: console for progress.
    shape: name of a shape in `sizes.PACKING`; "" measures all.
    calls: number of timed calls of each side.

  Returns:
    The rows. The outcome passes if every ratio reaches its limit.

  Raises:
    UsageError: the shape is unknown, the updates differ, or a side fails.
  """
  return peer_comparison.compare_over_shapes(
    console,
    shape,
    sizes.PACKING,
    [],
    write_job,
    functools.partial(_rows, calls=calls),
  )


def write_job(shape: sizes.Shape, folder: pathlib.Path) -> dict[str, Any]:
  """Writes weights, and returns the job of both sides."""
  batch = (
    shape.model.vocab_size,
    shape.prompts,
    shape.samples,
    shape.prompt_length,
    shape.max_tokens,
    shape.mean_length,
  )
  # The weights of lengths that vary would need a search for the EOS token.
  never_ending = dataclasses.replace(shape, mean_length=0.0)
  job = sizes.write(
    never_ending, folder, batch=batch, chunk=None, **update.OPTIMIZER
  )
  return job | {"devices": 1, "unroll": 0, "attention": "blocked"}


def _rows(
  name: str,
  job: Mapping[str, Any],
  launches: Sequence[sides.Launch],
  calls: int,
  limits: machine.Machine,
  report: sides.Report,
) -> Iterator[Row]:
  """Yields the row of one shape."""
  del launches
  shape = sizes.PACKING[name]
  lengths = random_rollout.random_lengths(
    (shape.prompts, shape.samples), shape.max_tokens, shape.mean_length
  )
  cost = flop_counts.update_cost(shape.model, shape.prompt_length, lengths)
  launch = functools.partial(sides.Launch, program=PROGRAM)
  with (
    sides.Side(launch("packed", job={**job, "packed": True})) as packed,
    sides.Side(launch("padded", job=job)) as padded,
  ):
    report(f"room for {packed.facts['room'] or 'all'} tokens of a prompt")
    update.check_same_update(packed, padded, report)
    yield peer_comparison.measure_row(
      f"update packed beside padded, {name}",
      shape,
      packed,
      padded,
      calls,
      least_seconds=lambda _: limits.least_seconds(cost),
      report=report,
      limit=LEAST_RATIO if shape.mean_length else LEAST_RATIO_FULL,
    )
