"""What an experiment with a process reward model is, and what can be wrong."""

from __future__ import annotations

import dataclasses

import ml_collections
from etils import epath

from experiments import tasks
from experiments.cli import arguments, spec
from experiments.configs import chain
from experiments.training import (
  build,
  initial_state,
  validate,
  workdirs,
)
from experiments.training.experiment import Experiment
from models import checkpoint_reader, storage_paths
from rl import registry

# Where labels come from, and the checker whose notion of an error they share:
# a detour that leads back is an error to "clean" alone, since a continuation
# recovers from it. What no outcome can show, a wrong result that a later
# operation undoes (times 0), stays an error to both.
LABELS = {
  "checker": "clean",
  "monte_carlo": "filler",
  "binary_search": "filler",
}


def default(
  labels: str = "binary_search", updates: int = 600, seed: int = 0
) -> ml_collections.ConfigDict:
  """Every setting with its meaning.

  Args:
    labels: one of `LABELS`.
    updates: of the process reward model.
    seed: of the base, the samples, the labels and the model.
  """
  base = chain.base()
  base.seed = seed
  base.task = "chain(operations=5)"  # of 3, a vote of 16 is never wrong
  return ml_collections.ConfigDict(
    {
      "kind": "prm",
      "seed": seed,
      "labels": labels,
      "updates": updates,
      "base": base,  # trained first, in `base/`; unless
      "init_from": "",  # the workdir of a run that is there
      "problems": 4096,  # whose samples are labelled
      "calibration": 512,  # of them, kept from the fit to set the threshold
      "samples": 4,  # of each
      "continuations": 8,  # M, of each prefix
      "least": 2,  # of them must succeed: one may be luck
      "prefixes": 512,  # continued at a time
      "layers": 1,  # on top of the base's, for it to read its own opinion
      "batch": 16,  # problems of an update, with all their samples
      "learning_rate": 2e-3,
      "language_coefficient": 0.5,  # of predicting the samples' tokens
      "checkpoint_every": 250,
      "evaluation": {
        "problems": 512,  # held out
        "samples": 32,
        "batch": 64,  # problems at a time
        "ns": (2, 4, 8, 16),  # samples that the best is chosen from
      },
    }
  )


@dataclasses.dataclass(frozen=True)
class Prepared:
  """A checked experiment.

  Attributes:
    config: of `default`.
    workdir: where it lives.
    base: the experiment whose policy is sampled.
    base_dir: its workdir.
    checkers: `{name: task}`, the same chains judged by each checker.
  """

  config: ml_collections.ConfigDict
  workdir: epath.Path
  base: Experiment
  base_dir: epath.Path
  checkers: dict[str, tasks.Task]


def prepare(
  config: ml_collections.ConfigDict, workdir: epath.PathLike
) -> Prepared:
  """Finds every mistake before anything is written.

  Args:
    config: of `default`.
    workdir: of the run; it may hold a part of the same run.

  Raises:
    ValueError, FileNotFoundError: what is wrong, in one line.
  """
  workdir = storage_paths.parse(workdir)
  arguments.check_seed("seed", config.seed)
  if config.labels not in LABELS:
    raise ValueError(registry.describe_unknown("labels", config.labels, LABELS))
  for name in (
    "updates",
    "problems",
    "calibration",
    "samples",
    "continuations",
    "batch",
  ):
    if config[name] < 1:
      raise ValueError(f"{name} = {config[name]} must be at least 1")
  if config.batch > config.problems - config.calibration:
    raise ValueError(
      f"batch = {config.batch} is more than the "
      f"{config.problems - config.calibration} problems that are left of "
      f"problems = {config.problems} after calibration = {config.calibration}"
    )
  if not 1 <= config.least <= config.continuations:
    raise ValueError(
      f"least = {config.least} must be in 1..continuations = "
      f"{config.continuations}"
    )
  if max(config.evaluation.ns) > config.evaluation.samples:
    raise ValueError(
      f"evaluation.ns = {tuple(config.evaluation.ns)} asks for more than "
      f"evaluation.samples = {config.evaluation.samples}"
    )
  workdirs.check_config(workdir, config)
  if config.init_from:
    base_dir = epath.Path(config.init_from)
    base = _existing(base_dir)
  else:
    base_dir = workdir / initial_state.BASE_FOLDER
    base = validate.check_and_build(config.base, base_dir)
  name, task_settings = spec.parse(base.config.task)
  if name != "chain":
    raise ValueError(
      f"the base policy is of task {name!r}, whose steps no rule can check; "
      "use a base of 'chain'"
    )
  checkers = {
    prm: tasks.get(name, **{**task_settings, "prm": prm})
    for prm in dict.fromkeys(LABELS.values())
  }
  base.task.test(config.evaluation.problems)
  return Prepared(config, workdir, base, base_dir, checkers)


def _existing(folder: epath.Path) -> Experiment:
  """The experiment of a run that has a checkpoint."""
  base = build.build(workdirs.read_config(folder))
  if base.model.lora_rank:
    raise ValueError(
      f"--base {folder} trained adapters, and a process model is grown from "
      "whole parameters; use a run with model.lora_rank = 0"
    )
  checkpoint_reader.check_params(
    folder / checkpoint_reader.FOLDER, base.abstract.params
  )
  return base
