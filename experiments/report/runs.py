"""A run, as its files say."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath

from experiments.evaluation import statistics
from experiments.logging import run_logger
from experiments.training import workdirs
from models import storage_paths

EVALUATIONS = {"base": "evaluation_base.json", "trained": "evaluation.json"}


@dataclasses.dataclass(frozen=True)
class Run:
  """What the files of one workdir say.

  Attributes:
    workdir: the folder.
    config: of the run, empty where it is not written yet.
    series: `{metric: (steps, values)}`, see `logging.read_metrics`.
    evaluations: "base" and "trained", those that are there.
    between: what `evaluation_NNNNNN.json` of the steps between say, in their
      order; their samples are not read.
  """

  workdir: epath.Path
  config: dict[str, Any]
  series: dict[str, tuple[np.ndarray, np.ndarray]]
  evaluations: dict[str, statistics.Evaluation]
  between: list[dict[str, Any]]

  @property
  def name(self) -> str:
    """Of the folder."""
    return self.workdir.name

  @property
  def last_step(self) -> int:
    """The last one that was logged; 0 without any."""
    return int(max((steps[-1] for steps, _ in self.series.values()), default=0))

  @property
  def title(self) -> str:
    """Its name, and the task that it was evaluated on."""
    tasks = sorted({e.task for e in self.evaluations.values()})
    return "  ·  ".join([self.name, *tasks])


def names(runs: Sequence[Run]) -> list[str]:
  """How to call each of several runs: its folder, or the path to it."""
  folders = [run.name for run in runs]
  return [
    run.name if folders.count(run.name) == 1 else str(run.workdir)
    for run in runs
  ]


def read(workdir: epath.PathLike) -> Run:
  """Reads the files of a run.

  Args:
    workdir: of the run.

  Returns:
    The run.

  Raises:
    ValueError: the folder holds none of them.
  """
  workdir = storage_paths.parse(workdir)
  config_path = workdir / workdirs.CONFIG_FILE
  config = json.loads(config_path.read_text()) if config_path.exists() else {}
  run = Run(
    workdir=workdir,
    config=config,
    series=run_logger.read_metrics(workdir),
    evaluations={
      name: statistics.load(workdir / file)
      for name, file in EVALUATIONS.items()
      if (workdir / file).exists()
    },
    between=[
      json.loads(path.read_text())
      for path in sorted(workdir.glob("evaluation_[0-9]*.json"))
    ],
  )
  if not (run.config or run.series or run.evaluations):
    expected = ", ".join(
      (workdirs.CONFIG_FILE, "metrics.jsonl", *EVALUATIONS.values())
    )
    raise ValueError(f"{workdir} holds no run: none of {expected} is there")
  return run
