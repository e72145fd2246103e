"""The default config of `experiments.prm`, and the checks of a config."""

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

# `{source of labels: checker}`: the exact checker that defines an error most
# like the source does. The checkers differ in steps with right arithmetic that
# do not lead to the answer: errors for "clean", but not for "filler". Labels
# from continuations do not call them errors either, because a continuation can
# still reach the right answer. They differ from both checkers in a wrong result
# that a later operation undoes (a multiplication by 0): both checkers call it
# an error, but labels from continuations do not.
CHECKER_BY_SOURCE = {
  "checker": "clean",
  "monte_carlo": "filler",
  "binary_search": "filler",
}


def default(
  labels: str = "binary_search", updates: int = 600, seed: int = 0
) -> ml_collections.ConfigDict:
  """Returns the default config.

  Args:
    labels: source of the labels, a key of `CHECKER_BY_SOURCE`.
    updates: number of optimizer updates of the process reward model.
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
      # Config of the run that trains the base policy in `base/` of the workdir.
      # It is used if `init_from` is empty.
      "base": base,
      "init_from": "",  # workdir of a finished run that has the base policy
      "problems": 4096,  # number of problems whose samples are labelled
      # Number of these problems that choose the threshold and are not used for
      # training.
      "calibration": 512,
      "samples": 4,  # samples per problem
      "continuations": 8,  # continuations per prefix
      # Number of continuations that must succeed for a prefix to count as
      # right; a single success may be chance.
      "least": 2,
      "prefixes": 512,  # prefixes that are continued at a time
      # Number of layers that are added to the decoder of the base policy. They
      # read the hidden states from which the base policy predicts tokens.
      "layers": 1,
      "batch": 16,  # problems per update, with all their samples
      "learning_rate": 2e-3,  # maximum, after the warmup
      # Weight of a second loss term, the negative log-likelihood of the tokens
      # of the samples.
      "language_coefficient": 0.5,
      "checkpoint_every": 250,  # updates between two checkpoints
      "evaluation": {
        "problems": 512,  # held-out problems
        "samples": 32,  # samples per problem
        "batch": 64,  # problems that are sampled at a time
        "ns": (2, 4, 8, 16),  # values of n in the best of n samples
      },
    }
  )


@dataclasses.dataclass(frozen=True)
class Prepared:
  """An experiment whose config has been checked.

  Attributes:
    config: config with the keys of `default`.
    workdir: folder for the results.
    base: experiment that trains, or has trained, the base policy.
    base_dir: workdir of the experiment `base`.
    checkers: `{checker: task}`: the task of the base policy, with step scores
      from each of the checkers in `CHECKER_BY_SOURCE`.
  """

  config: ml_collections.ConfigDict
  workdir: epath.Path
  base: Experiment
  base_dir: epath.Path
  checkers: dict[str, tasks.Task]


def prepare(
  config: ml_collections.ConfigDict, workdir: epath.PathLike
) -> Prepared:
  """Checks a config and builds the experiment; writes nothing.

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
  if config.labels not in CHECKER_BY_SOURCE:
    raise ValueError(
      registry.describe_unknown("labels", config.labels, CHECKER_BY_SOURCE)
    )
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
      f"{config.problems - config.calibration} problems to train on, which are "
      f"problems = {config.problems} minus calibration = {config.calibration}; "
      "use a smaller batch or more problems"
    )
  if not 1 <= config.least <= config.continuations:
    raise ValueError(
      f"least = {config.least} must be between 1 and continuations = "
      f"{config.continuations}"
    )
  if max(config.evaluation.ns) > config.evaluation.samples:
    raise ValueError(
      f"evaluation.ns = {tuple(config.evaluation.ns)} must not contain a value "
      f"above evaluation.samples = {config.evaluation.samples}; use more "
      "samples or smaller values"
    )
  workdirs.check_config(workdir, config)
  if config.init_from:
    base_dir = epath.Path(config.init_from)
    base = _build_finished_run(base_dir)
  else:
    base_dir = workdir / initial_state.BASE_FOLDER
    base = validate.check_and_build(config.base, base_dir)
  name, task_settings = spec.parse(base.config.task)
  if name != "chain":
    raise ValueError(
      f"the base policy was trained on the task {name!r}, for whose steps "
      "there is no exact checker; use a base policy that was trained on 'chain'"
    )
  checkers = {
    # The task's setting `prm` chooses the checker of its step scores.
    checker: tasks.get(name, **{**task_settings, "prm": checker})
    for checker in dict.fromkeys(CHECKER_BY_SOURCE.values())
  }
  # Raises a ValueError if the task has fewer held-out problems.
  base.task.test(config.evaluation.problems)
  return Prepared(config, workdir, base, base_dir, checkers)


def _build_finished_run(folder: epath.Path) -> Experiment:
  """Builds the experiment of a finished run and checks its checkpoint.

  Raises:
    FileNotFoundError: the folder has no run or no checkpoint.
    ValueError: the run trained LoRA adapters, or its checkpoint has other
      parameters.
  """
  base = build.build(workdirs.read_config(folder))
  if base.model.lora_rank:
    raise ValueError(
      f"the run in --base {folder} trained LoRA adapters, but the process "
      "reward model starts from a checkpoint with all parameters; use a run "
      "with model.lora_rank = 0"
    )
  checkpoint_reader.check_params(
    folder / checkpoint_reader.FOLDER, base.abstract.params
  )
  return base
