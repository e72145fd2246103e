"""Which checkpoints of a run stay: the latest, every so many, and the best.

  keep_checkpoints = 2      the latest two
  keep_every = 500          and those of every 500th step
  keep_best = "evaluation/accuracy/pass@8"    and the best by what is logged

The higher the better; "-loss/total" is the lower the better. Of equal ones the
first stays. What a step was worth is read from `metrics.jsonl`, so that an
evaluation may end after the checkpoint of its step, and a run that was killed
in between still finds its best.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Sequence
from typing import Any

import jax
import ml_collections
import numpy as np
from etils import epath
from orbax.checkpoint import checkpoint_managers as policies

from experiments.evaluation import statistics
from experiments.logging import run_logger
from experiments.training import host_needs
from experiments.training.experiment import Experiment
from rl import choices, step

_EVALUATION = "evaluation/"


@dataclasses.dataclass(frozen=True)
class Best:
  """Keeps the checkpoint at which a metric was best.

  Attributes:
    workdir: of the run that logs it.
    metric: its name, with "-" before it where less is better.
  """

  workdir: epath.Path
  metric: str

  def should_preserve(
    self, checkpoints: Sequence[Any], *, context: Any
  ) -> Sequence[bool]:
    """As Orbax asks: one answer for each checkpoint."""
    del context
    sign, name = _parse(self.metric)
    steps, values = run_logger.read_metrics(self.workdir).get(name, ((), ()))
    worth = {
      int(number): sign * float(value)
      for number, value in zip(steps, values, strict=True)
      if not math.isnan(value)
    }
    there = [found.step for found in checkpoints if found.step in worth]
    best = max(there, key=lambda number: (worth[number], -number), default=None)
    return [found.step == best for found in checkpoints]


def also(
  config: ml_collections.ConfigDict, workdir: epath.Path
) -> list[policies.PreservationPolicy]:
  """What a run keeps besides the latest checkpoints."""
  kept: list[policies.PreservationPolicy] = []
  if config.keep_every:
    kept.append(policies.EveryNSteps(config.keep_every))
  if config.keep_best:
    kept.append(Best(workdir, config.keep_best))
  return kept


def check(e: Experiment) -> None:
  """Refuses what would keep nothing, or nothing that is asked for.

  Raises:
    ValueError: fewer than one, a metric that is not logged, or one that is not
      logged when checkpoints are saved.
  """
  config = e.config
  if config.keep_checkpoints < 1:
    raise ValueError(
      f"keep_checkpoints = {config.keep_checkpoints} must be at least 1"
    )
  every = config.checkpoint_every
  if config.keep_every < 0 or (every and config.keep_every % every):
    raise ValueError(
      f"keep_every = {config.keep_every} must be a multiple of "
      f"checkpoint_every = {every}; nearest: "
      f"{max(round(config.keep_every / every), 1) * every if every else 0}"
    )
  if not config.keep_best:
    return
  _, name = _parse(config.keep_best)
  known = _logged(e)
  if name not in known:
    raise ValueError(choices.unknown("keep_best", name, known))
  cadence = "evaluate_every" if name.startswith(_EVALUATION) else "log_every"
  often = config[cadence]
  if not often or every % often:
    raise ValueError(
      f"keep_best = {config.keep_best} needs it known at every checkpoint: "
      f"checkpoint_every = {every} must be a multiple of {cadence} = {often}"
    )


def _parse(metric: str) -> tuple[float, str]:
  """(1 or -1, the metric's name)."""
  return (-1.0, metric[1:]) if metric.startswith("-") else (1.0, metric)


def _logged(e: Experiment) -> list[str]:
  """Names of the numbers that a run logs, clocks left out.

  Of a method that asks the host, whose step cannot be traced from shapes alone,
  only those of evaluations.
  """
  names = []
  if not host_needs.host_needs(e.methods):
    _, found = jax.eval_shape(
      step.make(e.methods, e.policy, e.txs, e.plan),
      e.abstract,
      e.abstract_rollout,
    )
    names = sorted(name for name, value in found.items() if value.ndim == 0)
  if not e.samples_own:
    return names
  N, S = 1, e.config.evaluation.samples
  nothing = np.zeros((N, S), np.int32)
  asked = statistics.Evaluation(
    task="",
    step=0,
    temperature=1.0,
    ids=np.arange(N),
    scores=nothing * 1.0,
    correct=nothing,
    answer_ids=nothing,
    lengths=nothing,
    finished=nothing > 0,
  )
  return names + [_EVALUATION + name for name in asked.columns]
