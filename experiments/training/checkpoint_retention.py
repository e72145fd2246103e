"""Rules by which a run keeps checkpoints besides its latest ones.

`checkpointing.Checkpoints` itself keeps the latest `config.keep_checkpoints`.
This module adds two rules; a checkpoint is kept if any rule keeps it:

  keep_every = 500          keeps the checkpoints at multiples of 500 steps
  keep_best = "evaluation/accuracy/pass@8"
                            keeps the checkpoint with the highest value of this
                            metric; for "-loss/total", the one with the lowest

Of equally good checkpoints the earliest is kept. The values are read from
`metrics.jsonl` at each save, because an evaluation may end after its checkpoint
was saved, and because a run that was killed and resumed must still find its
best checkpoint. A checkpoint without a logged value is never the best.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import ml_collections
from etils import epath
from orbax.checkpoint import checkpoint_managers

from experiments.logging import run_logger
from experiments.training import host_needs, iteration, placement
from experiments.training.experiment import Experiment
from rl import UsageError, registry


@dataclasses.dataclass(frozen=True)
class BestByMetric:
  """An Orbax preservation policy that keeps the one best checkpoint.

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
    candidates = [
      checkpoint.step
      for checkpoint in checkpoints
      if checkpoint.step in value_by_step
    ]
    best_step = max(
      candidates,
      # Of equal values, the smallest step.
      key=lambda step: (value_by_step[step], -step),
      default=None,
    )
    return [checkpoint.step == best_step for checkpoint in checkpoints]


def check(config: ml_collections.ConfigDict) -> None:
  """Checks `keep_checkpoints` and `keep_every`."""
  if config.keep_checkpoints < 1:
    raise UsageError(
      f"keep_checkpoints = {config.keep_checkpoints} must be at least 1"
    )
  every = config.checkpoint_every
  if config.keep_every < 0 or (every and config.keep_every % every):
    nearest = max(round(config.keep_every / every), 1) * every if every else 0
    raise UsageError(
      f"keep_every = {config.keep_every} must be a multiple of "
      f"checkpoint_every = {every}; nearest: {nearest}"
    )


def check_best(e: Experiment, evaluation_metrics: Sequence[str]) -> None:
  """Checks that the metric of `keep_best` is logged at every checkpoint.

  Args:
    e: experiment whose config has `keep_best`.
    evaluation_metrics: names of the metrics that its evaluations log.
  """
  config = e.config
  _, name = parse_metric(config.keep_best)
  logged = [*_step_metrics(e), *evaluation_metrics]
  if name not in logged:
    raise UsageError(registry.describe_unknown("keep_best", name, logged))
  is_evaluated = name in evaluation_metrics
  interval_key = "evaluate_every" if is_evaluated else "log_every"
  every, interval = config.checkpoint_every, config[interval_key]
  if not interval or every % interval:
    raise UsageError(
      f"keep_best = {config.keep_best} must be logged at every checkpoint: "
      f"checkpoint_every = {every} must be a multiple of {interval_key} = "
      f"{interval}"
    )


def _step_metrics(e: Experiment) -> list[str]:
  """Returns the names of the metrics of a training step, except times."""
  # A step whose method has needs that the host computes cannot be traced; it
  # has no names here.
  if host_needs.host_needs(e.methods):
    return []
  _, metrics = jax.eval_shape(
    iteration.make_train_step(e),
    placement.abstract_state(e),
    e.abstract_rollout,
  )
  return sorted(name for name, value in metrics.items() if value.ndim == 0)


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
  """Splits a metric into its sign and its name.

  "-loss/total" gives (-1.0, "loss/total"), and "loss/total" gives
  (1.0, "loss/total"). The best checkpoint has the largest sign * value.
  """
  return (-1.0, metric[1:]) if metric.startswith("-") else (1.0, metric)
