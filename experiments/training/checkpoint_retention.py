"""The retention policy: which checkpoints of a run are kept.

  keep_checkpoints = 2      keeps the latest two
  keep_every = 500          also keeps that of every 500th step
  keep_best = "evaluation/accuracy/pass@8"    also keeps the best by a metric

Higher is better; for "-loss/total" lower is better. Of equally good checkpoints
the first is kept. The value of a checkpoint is read from `metrics.jsonl` at
each save, because its evaluation may end after it was saved, and because a run
that was killed and resumed must still find its best checkpoint.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import ml_collections
from etils import epath
from orbax.checkpoint import checkpoint_managers

from experiments.logging import run_logger


@dataclasses.dataclass(frozen=True)
class BestByMetric:
  """An Orbax preservation policy that keeps the best checkpoint.

  Attributes:
    workdir: folder of the run, which logs the metric.
    metric: name of the metric, with "-" in front if lower is better.
  """

  workdir: epath.Path
  metric: str

  def should_preserve(
    self, checkpoints: Sequence[Any], *, context: Any
  ) -> Sequence[bool]:
    """Returns whether each checkpoint is kept; Orbax calls it."""
    del context
    sign, name = parse_metric(self.metric)
    steps, values = run_logger.read_metrics(self.workdir).get(name, ((), ()))
    value_by_step = {
      int(step): sign * float(value)
      for step, value in zip(steps, values, strict=True)
      if not math.isnan(value)
    }
    candidates = [c.step for c in checkpoints if c.step in value_by_step]
    best_step = max(
      candidates,
      key=lambda step: (value_by_step[step], -step),  # the first of equals
      default=None,
    )
    return [c.step == best_step for c in checkpoints]


def make_policies(
  config: ml_collections.ConfigDict, workdir: epath.Path
) -> list[checkpoint_managers.PreservationPolicy]:
  """Makes the policies that keep checkpoints besides the latest ones.

  Args:
    config: config of the run, with `keep_every` and `keep_best`.
    workdir: folder of the run.
  """
  policies: list[checkpoint_managers.PreservationPolicy] = []
  if config.keep_every:
    policies.append(checkpoint_managers.EveryNSteps(config.keep_every))
  if config.keep_best:
    policies.append(BestByMetric(workdir, config.keep_best))
  return policies


def parse_metric(metric: str) -> tuple[float, str]:
  """Splits "-loss/total" into (-1.0, "loss/total"); the sign is 1.0 without "-"."""
  return (-1.0, metric[1:]) if metric.startswith("-") else (1.0, metric)
