"""The config of an experiment with a process reward model, and its checks."""

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

# Sources of labels, each with the checker that defines an error in the same
# way. A true step that does not lead to the answer is an error for the checker
# "clean". It is none for "filler", nor for labels from continuations, because a
# continuation can still reach the right answer. A wrong result that a later
# operation undoes (a multiplication by 0) is an error for both checkers, but
# labels from continuations miss it.
LABELS = {
  "checker": "clean",
  "monte_carlo": "filler",
  "binary_search": "filler",
}


def default(
  labels: str = "binary_search", updates: int = 600, seed: int = 0
) -> ml_collections.ConfigDict:
  """Returns the default config.

  Args:
    labels: source of the labels, one of `LABELS`.
    updates: number of updates of the process reward model.
    seed: seed of the base policy, the samples, the labels and the model.
  """
  base = chain.base()
  base.seed = seed
  # With 3 operations a majority vote of 16 is always right.
  base.task = "chain(operations=5)"
  return ml_collections.ConfigDict(
    {
      "kind": "prm",
      "seed": seed,
      "labels": labels,
      "updates": updates,
      # Config of the base policy, which is trained in `base/` of the workdir if
      # `init_from` is empty.
      "base": base,
      "init_from": "",  # workdir of a finished run that is the base policy
      "problems": 4096,  # training problems whose samples are labelled
      # Number of these problems that are not trained on and set the threshold.
      "calibration": 512,
      "samples": 4,  # samples per problem
      "continuations": 8,  # continuations per prefix
      # Continuations that must succeed for a prefix to count as right. A single
      # success may be chance.
      "least": 2,
      "prefixes": 512,  # prefixes that are continued at the same time
      # Layers that are added to the decoder of the base policy. They can use
      # the hidden states from which the base policy predicts the next token.
      "layers": 1,
      "batch": 16,  # problems per update, with all their samples
      "learning_rate": 2e-3,
      # Weight of the additional loss for predicting the tokens of the samples.
      "language_coefficient": 0.5,
      "checkpoint_every": 250,  # updates between two checkpoints
      "evaluation": {
        "problems": 512,  # held-out problems
        "samples": 32,  # samples per problem
        "batch": 64,  # problems that are sampled at the same time
        "ns": (2, 4, 8, 16),  # values of n in the best of n samples
      },
    }
  )


@dataclasses.dataclass(frozen=True)
class Prepared:
  """A checked experiment.

  Attributes:
    config: config with the keys of `default`.
    workdir: folder for the results.
    base: experiment of the base policy, which is sampled.
    base_dir: workdir of the base policy.
    checkers: `{name: task}`, the task of the base policy with each of the
      checkers in `LABELS` for its step scores.
  """

  config: ml_collections.ConfigDict
  workdir: epath.Path
  base: Experiment
  base_dir: epath.Path
  checkers: dict[str, tasks.Task]


def prepare(
  config: ml_collections.ConfigDict, workdir: epath.PathLike
) -> Prepared:
  """Checks a config before anything is written.

  Args:
    config: config with the keys of `default`.
    workdir: folder for the results. It may contain an unfinished run with the
      same config.

  Raises:
    ValueError: a value of the config is wrong.
    FileNotFoundError: `init_from` contains no run.
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
      raise ValueError(f"{name} = {config[name]}, but it must be at least 1")
  if config.batch > config.problems - config.calibration:
    raise ValueError(
      f"batch = {config.batch} is more than the "
      f"{config.problems - config.calibration} problems to train on, which are "
      f"problems = {config.problems} minus calibration = {config.calibration}; "
      "use a smaller batch or more problems"
    )
  if not 1 <= config.least <= config.continuations:
    raise ValueError(
      f"least = {config.least}, but it must be from 1 to continuations = "
      f"{config.continuations}"
    )
  if max(config.evaluation.ns) > config.evaluation.samples:
    raise ValueError(
      f"evaluation.ns = {tuple(config.evaluation.ns)} contains a number of "
      f"samples above evaluation.samples = {config.evaluation.samples}; use "
      "more samples or smaller values"
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
      f"the base policy was trained on the task {name!r}, whose steps no exact "
      "rule can check; use a base of 'chain'"
    )
  checkers = {
    prm: tasks.get(name, **{**task_settings, "prm": prm})
    for prm in dict.fromkeys(LABELS.values())
  }
  # Raises an error if the task has fewer held-out problems.
  base.task.test(config.evaluation.problems)
  return Prepared(config, workdir, base, base_dir, checkers)


def _existing(folder: epath.Path) -> Experiment:
  """Builds the experiment of a finished run and checks its checkpoint."""
  base = build.build(workdirs.read_config(folder))
  if base.model.lora_rank:
    raise ValueError(
      f"the run in --base {folder} trained LoRA adapters, but a process reward "
      "model starts from a checkpoint with all parameters; use a run with "
      "model.lora_rank = 0"
    )
  checkpoint_reader.check_params(
    folder / checkpoint_reader.FOLDER, base.abstract.params
  )
  return base
