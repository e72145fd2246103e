"""Measures whether the labels of a source, and those that a loss reads, matter.

The labels are alive if two samples of a problem with the same verdict have
other labels, and a model that is fitted to lines with moved labels has other
parameters. Within each line the labels (and the second labels) of the steps are
moved by one; if the loss reads verdicts, these are moved by one line.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Collection, Sequence
from typing import Any

import jax
import numpy as np
from etils import epath

from experiments import planted_judge
from experiments.logging import json_files
from experiments.prm import __main__ as prm
from experiments.prm import label, step_lines
from models import checkpoint_reader
from rewards.process import step_losses
from rl import UsageError

_LABEL = ("--problems", "64", "--samples", "8", "--batch", "32")
_FIT = ("--steps", "8", "--batch", "32")
# Loss -> flags of `label` for lines with all that it reads.
_LINES = {"dual_head": ("--potentials", "checker")}
_FAULTS = planted_judge.Faults(false_acceptance=0.1, false_rejection=0.1)


def measure(
  base: str, source: str = "monte_carlo(least=2)", loss: str = "two_class"
) -> tuple[bool, float]:
  """Labels lines of a policy and fits two models to them.

  Args:
    base: workdir of a policy whose task has steps.
    source: source of the labels.
    loss: step loss.

  Returns:
    Whether labels vary among samples of equal verdict, and the length of the
    difference of the fitted parameters, divided by that of the parameters.
  """
  with (
    tempfile.TemporaryDirectory() as name,
    planted_judge.serving(_FAULTS) as url,
  ):
    folder = epath.Path(name)
    asks = source.startswith(("judge", "consensus", "mixture"))
    _call(
      "label",
      folder / "reference",
      *("--policy", base, "--source", source, *_LABEL, *_LINES.get(loss, ())),
      *(("--judge", url, "--judge_model", "planted") if asks else ()),
    )
    file = folder / "reference" / label.LINES_FILE
    lines = json_files.read(file)
    moved = _move(lines, step_losses.get(loss).targets)
    moved_file = folder / "moved.jsonl"
    text = "".join(json.dumps(line) + "\n" for line in moved)
    json_files.replace(moved_file, text)
    reference, changed = (
      _fit(base, loss, folder / name, data)
      for name, data in (("reference", file), ("moved", moved_file))
    )
  difference = np.linalg.norm(changed - reference)
  return _vary(lines), float(difference / np.linalg.norm(reference))


def fit_model(base: str, folder: epath.Path, seed: int) -> str:
  """Returns the workdir of a model; a missing one is fitted to new lines."""
  workdir = folder / f"model-seed_{seed}"
  if not (workdir / "complete").exists():
    _call("label", workdir, "--policy", base, *_LABEL)
    _call("fit", workdir, "--policy", base, *_FIT, "--seed", str(seed))
    (workdir / "complete").touch()
  return str(workdir)


def _call(command: str, workdir: epath.Path, *flags: str) -> None:
  """Runs a command of `experiments.prm`, which prints its progress."""
  status = prm.main([command, "--workdir", str(workdir), *flags])
  if status:
    raise UsageError(f"experiments.prm {command} {' '.join(flags)} has failed")


def _fit(
  base: str, loss: str, workdir: epath.Path, data: epath.Path
) -> np.ndarray:
  """Fits a model to lines; returns its parameters as one vector."""
  flags = ("--policy", base, "--data", str(data), "--loss", loss, *_FIT)
  _call("fit", workdir, *flags)
  params = checkpoint_reader.restore_params(workdir / checkpoint_reader.FOLDER)
  leaves = [np.ravel(np.asarray(x)) for x in jax.tree.leaves(params)]
  return np.concatenate(leaves)


def _move(
  lines: Sequence[dict[str, Any]], targets: Collection[str]
) -> list[dict[str, Any]]:
  """Returns the lines with the labels of other steps."""
  verdicts = [line[step_lines.CORRECT] for line in lines]
  if "verdicts" in targets:
    verdicts = [*verdicts[1:], *verdicts[:1]]
  moved = []
  for line, verdict in zip(lines, verdicts, strict=True):
    labels = {
      key: [*line[key][1:], *line[key][:1]]
      for key in (step_lines.LABELS, step_lines.POTENTIALS)
      if key in line
    }
    moved.append(line | labels | {step_lines.CORRECT: verdict})
  return moved


def _vary(lines: Sequence[dict[str, Any]]) -> bool:
  """Returns whether labels differ among samples of one prompt and verdict."""
  labels: dict[tuple, set[str]] = {}
  for line in lines:
    key = line[step_lines.PROMPT], line[step_lines.CORRECT]
    labels.setdefault(key, set()).add(json.dumps(line[step_lines.LABELS]))
  return any(len(values) > 1 for values in labels.values())
