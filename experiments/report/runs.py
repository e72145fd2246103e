"""Reads the files of a run's workdir."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Sequence
from typing import Any

import numpy as np
from etils import epath

from experiments.evaluation import summary
from experiments.logging import run_logger
from experiments.training import workdirs
from models import storage_paths
from rl import UsageError

# Files of the evaluations before and after training, by the policy's name.
EVALUATIONS = {
  "base": workdirs.BASE_EVALUATION_FILE,
  "trained": workdirs.EVALUATION_FILE,
}


@dataclasses.dataclass(frozen=True)
class Run:
  """The content of one workdir, which may lack any of its files."""

  workdir: epath.Path
  # Contents of `config.json`, `method.txt` and `advantages.json`, or empty.
  config: dict[str, Any]
  method: str
  advantages: dict[str, Any]
  # {metric: (steps, values)}
  series: dict[str, tuple[np.ndarray, np.ndarray]]
  # Those of `EVALUATIONS` that exist, by the policy's name.
  evaluations: dict[str, summary.Evaluation]
  # Records of the evaluations during training, by step.
  intermediate: list[dict[str, Any]]

  @property
  def name(self) -> str:
    """Name of the folder."""
    return self.workdir.name

  @property
  def last_step(self) -> int:
    """The last logged step; 0 if the run has logged nothing."""
    return int(max((steps[-1] for steps, _ in self.series.values()), default=0))


def names(runs: Sequence[Run]) -> list[str]:
  """Returns the names of the runs' folders.

  A run that shares this name with another run gets its path instead.
  """
  folders = [run.name for run in runs]
  return [
    run.name if folders.count(run.name) == 1 else str(run.workdir)
    for run in runs
  ]


def read(workdir: epath.PathLike) -> Run:
  """Reads the files of a run.

  Raises:
    UsageError: the folder has no config, metrics or evaluation, or a file is
      damaged.
  """
  workdir = storage_paths.parse(workdir)
  method_path = workdir / workdirs.METHOD_FILE
  run = Run(
    workdir=workdir,
    config=_read_object(workdir / workdirs.CONFIG_FILE),
    method=method_path.read_text() if method_path.exists() else "",
    advantages=_read_object(workdir / workdirs.ADVANTAGES_FILE),
    series=run_logger.read_metrics(workdir),
    evaluations={
      name: summary.load(workdir / file)
      for name, file in EVALUATIONS.items()
      if (workdir / file).exists()
    },
    intermediate=[
      summary.load_record(path)
      for path in sorted(workdir.glob("evaluation_[0-9]*.json"))
    ],
  )
  if not (run.config or run.series or run.evaluations):
    expected = ", ".join(
      (workdirs.CONFIG_FILE, "metrics.jsonl", *EVALUATIONS.values())
    )
    raise UsageError(
      f"{workdir} holds no run: it has none of the files {expected}"
    )
  return run


def _read_object(path: epath.Path) -> dict[str, Any]:
  """Reads a file with a JSON object; returns {} if the file is missing."""
  if not path.exists():
    return {}
  try:
    values = json.loads(path.read_text())
  except ValueError as error:
    raise UsageError(f"{path} is damaged: {error}") from None
  if not isinstance(values, dict):
    raise UsageError(
      f"{path} is damaged: it must contain a JSON object, not a "
      f"{type(values).__name__}"
    )
  return values
