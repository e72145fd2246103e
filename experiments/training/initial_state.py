"""Makes the state that a run starts with.

A run that has a checkpoint restores it. Otherwise its parameters are those of a
supervised base that the run itself trains first (`config.base`), of another run
(`config.init_from`, its workdir), of a Hugging Face folder
(`config.policy.path`), or random.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Callable, Iterator
from typing import Any

import jax
import ml_collections
from etils import epath

from experiments import tasks
from experiments.cli import errors, spec
from experiments.logging import provenance
from experiments.training import (
  checkpointing,
  placement,
  reward_models,
  workdirs,
)
from experiments.training.experiment import Experiment
from models import checkpoint_reader, sharding, storage_paths, transformer
from models.config import ModelConfig
from rl import UsageError, training_state, types

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
  """Returns the config of the supervised base, which trains no adapters.

  Raises:
    UsageError: the run starts from other parameters.
  """
  if not has_base(config):
    raise UsageError("the config has no base to train; leave out --base")
  base = config.base.copy_and_resolve_references()
  base.model.lora_rank = 0
  return base


def base_name(base: ml_collections.ConfigDict) -> str:
  """Returns a folder name of a base, `base-seed_N-HASH`, by its config."""
  text = base.to_json(sort_keys=True)
  digest = hashlib.sha256(text.encode()).hexdigest()[:8]
  return f"base-seed_{base.seed}-{digest}"


def check_base(
  e: Experiment,
  check_and_build: Callable[[ml_collections.ConfigDict], Experiment],
) -> None:
  """Checks the supervised base that a run starts from, if it has one.

  Args:
    e: the experiment.
    check_and_build: the function of `validate`, which imports this module.
  """
  if not has_base(e.config):
    return
  config = base_config(e.config)
  if config.steps < 1:
    raise UsageError(
      f"base.steps = {config.steps} must be at least 1, because the run starts "
      "from the base's last checkpoint; nearest: 1 (for a run without a base, "
      "set config.base to an empty ConfigDict)"
    )
  try:
    base = check_and_build(config)
  except UsageError as error:
    raise UsageError(f"base: {error}") from None
  model = model_without_lora(e)
  if base.model != model:
    raise UsageError(
      f"base.model {base.model} is not {model}; both must be the same"
    )


def check_source(e: Experiment) -> None:
  """Checks that the run of `config.init_from` has the parameters to read."""
  if not e.config.get("init_from"):
    return
  source = epath.Path(e.config.init_from)
  try:
    checkpoint_reader.check_params(
      source / checkpoint_reader.FOLDER, abstract_params_without_lora(e)
    )
    workdirs.check_fingerprints(
      e.config.init_from, e.fingerprints, names=("tokenizer",)
    )
  except UsageError as error:
    raise UsageError(f"init_from: {error}") from None


def restore_or_initialise(
  e: Experiment, workdir: epath.Path, checkpoints: checkpointing.Checkpoints
) -> training_state.State:
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
  target = placement.abstract_state(e).saved_part()
  try:
    restored = checkpoints.restore_newest(target, print)
  except UsageError as error:
    raise errors.RunError(str(error)) from error
  if restored is None:
    return _add_models(e, placement.init_state(e, starting_params(e, workdir)))
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


def _add_models(
  e: Experiment, state: training_state.State
) -> training_state.State:
  """Adds the reward models that a state lacks, on the training mesh."""
  params = {
    name: reward_models.restore_params(model, e.mesh)
    for name, model in e.reward_models.items()
    if name not in state.learners
  }
  add = jax.jit(
    functools.partial(reward_models.add_to_state, e.reward_models),
    out_shardings=placement.state_shardings(e),
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
  state = placement.init_state(e, starting_params(e, workdir))
  return state.carried.frozen


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

    _, params = hf.load(e.folder, dtype=e.model.param_dtype, mesh=e.mesh)
    return select_params(e, params)
  return checkpoint_reader.restore_params(
    epath.Path(source) / checkpoint_reader.FOLDER,
    abstract_params_without_lora(e),
    workdirs.read_frozen_step(workdir),
  )


def model_without_lora(e: Experiment) -> ModelConfig:
  """Returns the shape of the decoder in a source: without LoRA adapters."""
  return dataclasses.replace(e.model, lora_rank=0)


def abstract_params_without_lora(e: Experiment) -> types.PyTree:
  """Returns shapes and shardings of the parameters of `model_without_lora`."""
  model = model_without_lora(e)
  shapes = jax.eval_shape(
    lambda key: transformer.init(model, key), jax.random.key(0)
  )
  return sharding.with_shardings(shapes, sharding.shardings(shapes, e.mesh))


def select_params(e: Experiment, params: types.PyTree) -> types.PyTree:
  """Returns those parameters of a folder that the decoder has.

  Args:
    e: the experiment.
    params: parameters of a Hugging Face folder, which may have further heads.
  """

  def intersect(params: types.PyTree, shapes: types.PyTree) -> types.PyTree:
    if not isinstance(params, dict):
      return params
    names = params.keys() & shapes.keys()
    return {name: intersect(params[name], shapes[name]) for name in names}

  return intersect(params, abstract_params_without_lora(e))


def write_model_file(e: Experiment, workdir: epath.Path) -> None:
  """Writes `model.json`, with paths that are valid from any folder."""
  other_run = e.config.get("init_from")
  task_name, settings = spec.parse(e.config.task)
  is_text = "tokenizer" in tasks.settings(task_name)
  frozen, frozen_step = "", None
  if e.model.lora_rank:
    if has_base(e.config):
      frozen = BASE_FOLDER
    else:
      frozen = _absolute(other_run or e.folder)
    if other_run:
      # The other run may save further checkpoints. This run always reads the
      # one that it started from.
      frozen_step = checkpoint_reader.latest_step(
        epath.Path(other_run) / checkpoint_reader.FOLDER
      )
  workdirs.write_model(
    workdir,
    e.model,
    tokenizer=_absolute(settings.get("tokenizer") or e.folder),
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
    if e.config.get("init_from"):
      yield f"starts from the parameters of {e.config.init_from}"
    yield from e.task.notes
    if e.texts is not None:
      epochs = e.config.steps * e.config.rollout.prompts / len(e.texts)
      yield f"{e.texts.note}; {e.config.steps} steps are {epochs:.3g} epochs"
    yield from map(str, e.methods.values())
