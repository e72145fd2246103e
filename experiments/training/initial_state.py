"""Makes the state that a run starts with.

A run that has a checkpoint restores it. Otherwise its parameters are those of a
supervised base that the run itself trains first (`config.base`), of another run
(`config.init_from`, its workdir), of a Hugging Face folder
(`config.policy.path`), or random.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from typing import Any

import jax
import ml_collections
from etils import epath

from experiments import tasks
from experiments.cli import errors, spec
from experiments.data import pretrained
from experiments.logging import provenance
from experiments.training import checkpointing, reward_models, workdirs
from experiments.training.experiment import Experiment
from models import checkpoint_reader, storage_paths
from rl import step, types

BASE_FOLDER = "base"  # in the workdir: the supervised run that it starts from
# Key in the metadata of a checkpoint: the commit of the code that saved it.
_CODE = "code"


def has_base(config: ml_collections.ConfigDict) -> bool:
  """Returns whether a run first trains the supervised base of its config."""
  other_source = (
    config.get("init_from") or config.policy.path or config.policy.preset
  )
  return bool(config.get("base")) and not other_source


def base_config(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """Returns the config of the supervised base, which trains no adapters."""
  base = config.base.copy_and_resolve_references()
  base.model.lora_rank = 0
  return base


def restore_or_initialise(
  e: Experiment, workdir: epath.Path, checkpoints: checkpointing.Checkpoints
) -> step.State:
  """Returns the state of the latest readable checkpoint, or that at step 0.

  Checkpoints do not contain the frozen parameters, of the policy and of reward
  models. They are read again from the source that the run started from.

  Args:
    e: the experiment.
    workdir: folder of the run.
    checkpoints: checkpoints of the run.

  Raises:
    RunError: there are checkpoints and none of them can be read.
  """
  target = e.saved_part(e.abstract)
  try:
    restored = checkpoints.restore_newest(target, print)
  except ValueError as error:
    raise errors.RunError(str(error)) from error
  if restored is None:
    return _add_models(e, e.init(starting_params(e, workdir)))
  state, saved_metadata = restored
  commit = provenance.commit()
  saved_commit = saved_metadata.get(_CODE, commit)
  if saved_commit != commit and jax.process_index() == 0:
    print(
      f"{workdir}: its checkpoint was saved by commit {saved_commit}, and the "
      f"run resumes with commit {commit}"
    )
  frozen = frozen_params(e, workdir)
  state = state.with_carried(frozen=frozen)
  return _add_models(e, state)


def _add_models(e: Experiment, state: step.State) -> step.State:
  """Adds the reward models that a state lacks, on the training mesh."""
  params = {
    name: reward_models.restore_params(model, e.mesh)
    for name, model in e.reward_models.items()
    if name not in state.learners
  }
  add = jax.jit(
    functools.partial(reward_models.add_to_state, e.reward_models),
    out_shardings=e.shardings,
    donate_argnums=(0, 1),
  )
  return add(state, params) if params else state


def metadata() -> dict[str, Any]:
  """Returns the JSON values that are saved with every checkpoint."""
  return {_CODE: provenance.commit()}


def frozen_params(e: Experiment, workdir: epath.Path) -> types.PyTree:
  """Returns the parameters that a run does not train; {} without LoRA."""
  if not e.model.lora_rank:
    return {}
  return e.init(starting_params(e, workdir)).carried.frozen


def starting_params(e: Experiment, workdir: epath.Path) -> types.PyTree | None:
  """Returns the parameters to start from, or None for random values."""
  if has_base(e.config):
    source = str(workdir / BASE_FOLDER)
  else:
    source = e.config.get("init_from") or e.config.policy.path
  if not source:
    return None
  if source == e.config.policy.path:
    from models import hf  # imports transformers

    folder = pretrained.resolve(source)
    _, params = hf.load(folder, dtype=e.model.param_dtype, mesh=e.mesh)
    return e.select_params(params)
  return checkpoint_reader.restore_params(
    epath.Path(source) / checkpoint_reader.FOLDER,
    e.abstract_params_without_lora,
    workdirs.read_frozen_step(workdir),
  )


def write_model_file(e: Experiment, workdir: epath.Path) -> None:
  """Writes `model.json`, with paths that are valid from any folder."""
  folder = pretrained.resolve(e.config.policy.path)
  other_run = e.config.get("init_from")
  task_name, settings = spec.parse(e.config.task)
  is_text = "tokenizer" in tasks.settings(task_name)
  frozen, frozen_step = "", None
  if e.model.lora_rank:
    if has_base(e.config):
      frozen = BASE_FOLDER
    else:
      frozen = _absolute(other_run or folder)
    if other_run:
      # The other run may save further checkpoints. This run always reads the
      # one that it started from.
      frozen_step = checkpoint_reader.latest_step(
        epath.Path(other_run) / checkpoint_reader.FOLDER
      )
  workdirs.write_model(
    workdir,
    e.model,
    tokenizer=_absolute(settings.get("tokenizer") or folder),
    frozen=frozen,
    frozen_step=frozen_step,
    stops=e.task.eos_ids if is_text else (),
  )


def _absolute(path: str) -> str:
  """Returns an absolute path; "" stays ""."""
  return str(storage_paths.absolute(path)) if path else ""


def describe_start(
  e: Experiment, workdir: epath.Path, done: int
) -> Iterator[str]:
  """Yields the lines that a run prints before it trains.

  Args:
    e: the experiment.
    workdir: folder of the run.
    done: finished training steps, 0 for a run that was not resumed.
  """
  if done >= e.config.steps:
    yield f"{workdir}: complete at step {done}"
  elif done:
    yield f"{workdir}: resumed after step {done} of {e.config.steps}"
  else:
    yield f"{workdir}: {e.config.steps} steps of {e.task.name}"
    yield from e.task.notes
    if e.texts is not None:
      epochs = e.config.steps * e.config.rollout.prompts / len(e.texts)
      yield f"{e.texts.note}; {e.config.steps} steps are {epochs:.3g} epochs"
    yield from map(str, e.methods.values())
