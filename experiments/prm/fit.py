"""Trains a process reward model on lines of labelled steps.

"Updates" are optimizer updates of the model; "steps" are reasoning steps.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import optax
from etils import epath
from jax.sharding import NamedSharding, PartitionSpec

from experiments import tasks
from experiments.cli import errors, spec
from experiments.evaluation import policy_loader
from experiments.logging import json_files
from experiments.prm import label
from experiments.training import checkpointing, prng_keys, reward_models
from models import checkpoint_reader, grow, heads, policy
from models.config import ModelConfig
from rewards.process import losses, step_losses, step_model
from rewards.process import metrics as step_metrics
from rewards.process.step_data import StepData, take
from rl import UsageError, gradients, registry, types

Array = jax.Array
DISPATCH = 50  # number of updates in one call of the compiled program
# What a model reads of completions: all tokens, or maths without words.
TEXTS = ("all", "maths")


@dataclasses.dataclass(frozen=True)
class Settings:
  """Settings of `fit`.

  Attributes:
    policy: policy from which the model starts, as in `label.Settings`.
    task: its task; "" takes that of the run.
    data: JSONL file of the lines.
    data_digest: first 12 hex digits of the SHA-256 of the file.
    loss: step loss with its settings, such as "q_ranking(margin=2.0)".
    text: a key of `TEXTS`, what the model reads of completions.
    updates: number of optimizer updates.
    batch: number of examples of an update.
    learning_rate: largest learning rate, after the warmup.
    layers: number of layers that are added to the decoder. They read the hidden
      states from which the policy predicts tokens.
    language_coefficient: weight of the negative log-likelihood of the tokens.
    calibration: share of the problems that choose the threshold, and that are
      not trained on.
    max_steps: K, largest number of steps of a sample.
    checkpoint_every: updates between two checkpoints.
    seed: seed of the head, the added layers and the batches.
  """

  policy: str = ""
  task: str = ""
  data: str = ""
  data_digest: str = ""
  loss: str = "two_class"
  text: str = "all"
  updates: int = 600
  batch: int = 64
  learning_rate: float = 2e-3
  layers: int = 1
  language_coefficient: float = 0.5
  calibration: float = 0.125
  max_steps: int = 32
  checkpoint_every: int = 250
  seed: int = 0

  def make_loss(self) -> step_losses.StepLoss:
    """Returns the loss; refuses an unknown name or setting."""
    name, settings = spec.parse(self.loss, "--loss")
    return step_losses.get(name, **settings)

  def left_out(self, task: tasks.Task) -> tuple[int, ...]:
    """Returns the ids of the tokens that the model does not read."""
    if self.text not in TEXTS:
      raise UsageError(registry.describe_unknown("--text", self.text, TEXTS))
    if self.text == "all":
      return ()
    if not task.word_ids:
      raise UsageError(
        f"--text {self.text} leaves words out, but the task {task.name} does "
        "not tell words from maths; use --text all, or the task narrated_chain"
      )
    return task.word_ids


@dataclasses.dataclass(frozen=True)
class FittedModel:
  """A process reward model with its parameters."""

  model: step_model.StepModel
  params: types.PyTree
  task: tasks.Task  # that of the policy that it was made from
  max_steps: int  # K
  threshold: float  # score below which a step counts as an error


def check_settings(settings: Settings, workdir: epath.Path) -> None:
  """Refuses a workdir with a model that is fitted with other settings."""
  if not (workdir / reward_models.RECORD_FILE).exists():
    return
  # A setting that the record lacks is newer than the model.
  earlier = (
    dataclasses.asdict(Settings())
    | reward_models.read_record(workdir)["settings"]
  )
  changed = [
    f"{name} = {earlier[name]!r} (now {value!r})"
    for name, value in dataclasses.asdict(settings).items()
    if earlier[name] != value
  ]
  if changed:
    raise UsageError(
      f"{workdir} has a model that is fitted with {', '.join(changed[:3])}; "
      "use another --workdir"
    )


def _make_model(
  settings: Settings, loaded: policy_loader.LoadedPolicy
) -> tuple[ModelConfig, step_model.StepModel, types.PyTree]:
  """Returns the decoder's shape, the model and its first parameters."""
  # The decoder has the parameters of the policy. The added layers are
  # initialized such that its output does not change, and the head at random.
  if loaded.model.lora_rank:
    raise UsageError(
      f"{loaded.name} has LoRA adapters, but a process reward model starts "
      "from all parameters; use a policy with model.lora_rank = 0"
    )
  # Numbers folded into the seed's key: 3 the model, 4 the batches, and 5 the
  # samples of `evaluate`.
  key = jax.random.fold_in(prng_keys.from_seed(settings.seed), 3)
  layers_key, head_key = jax.random.split(key)
  config, decoder = grow.append_layers(
    loaded.model, loaded.params, settings.layers, layers_key
  )
  loss = settings.make_loss()
  params = reward_models.init_params(loss, config.width, decoder, head_key)
  model = step_model.StepModel(
    policy.bind(config), heads.linear, loss, settings.left_out(loaded.task)
  )
  return config, model, _replicate(params, loaded)


def _replicate(
  params: types.PyTree, loaded: policy_loader.LoadedPolicy
) -> types.PyTree:
  """Puts all parameters on all devices of the policy."""
  mesh = loaded.sharding.mesh
  return jax.device_put(params, NamedSharding(mesh, PartitionSpec()))


def split(data: StepData, calibration: float) -> tuple[StepData, StepData]:
  """Returns the lines to train on, and those that choose the threshold.

  `calibration` is the share of the problems for the threshold. The lines of a
  problem stay together.
  """
  problems = np.unique(data.problems)
  first = problems[len(problems) - round(calibration * len(problems)) :]
  is_calibration = np.isin(data.problems, first)
  return tuple(
    jax.tree.map(lambda x, rows=rows: x[rows], data)
    for rows in (~is_calibration, is_calibration)
  )


def fit(
  settings: Settings,
  loaded: policy_loader.LoadedPolicy,
  data: StepData,
  workdir: epath.Path,
  update: Callable[[int], None],
) -> dict[str, Any]:
  """Trains from the latest checkpoint to the last update; writes `fit.json`.

  The seed and the number of an update determine its batch, so a resumed command
  has the same result as an uninterrupted one.

  Args:
    settings: the settings.
    loaded: the policy from which the model starts.
    data: lines of labelled steps.
    workdir: folder of the checkpoints and of `fit.json`.
    update: function called with the number of finished updates.

  Returns:
    The content of `fit.json`: "settings", "policy_step", the shape of the
    "decoder", "left_out", the ids of the tokens that the model does not read,
    and after the last update "loss" (the mean of the last dispatch),
    "threshold", "examples" and "calibration_lines".

  Raises:
    UsageError: the lines lack what the loss learns from, there are fewer
      examples than a batch has, or the settings cannot be used.
    RunError: there are checkpoints, but none can be read.
  """
  decoder, model, params = _make_model(settings, loaded)
  model.loss.check_targets(data)
  train, calibration = split(model.filter_text(data), settings.calibration)
  train = model.loss.prepare(train)
  examples = model.loss.examples(train)
  if len(examples) < settings.batch:
    raise UsageError(
      f"the lines have {len(examples)} examples for the loss {settings.loss}, "
      f"fewer than --batch {settings.batch}; label more problems, or use a "
      "smaller batch"
    )
  tx = _optimizer(settings)
  key = jax.random.fold_in(prng_keys.from_seed(settings.seed), 4)

  def loss_fn(params: types.PyTree, batch: StepData) -> tuple[Array, Array]:
    outputs, log_probs = model.outputs(params, batch)
    language = losses.language_loss(log_probs, batch.tokens.mask)
    value = model.loss.loss(outputs, batch)
    value += settings.language_coefficient * language
    return value, value

  @jax.jit
  def run_updates(state, numbers, train, examples):
    """Makes the updates with these numbers; returns state and mean loss."""

    def make_update(state, number):
      rows = jax.random.choice(
        jax.random.fold_in(key, number),
        len(examples),
        (settings.batch,),
        replace=False,
      )
      batch = take(train, examples[rows])
      grads, value = gradients.accumulate(loss_fn, state["params"], batch, 1)
      trained = state["params"], state["opt_state"]
      (params, opt_state), _, _ = gradients.apply(tx, trained, grads)
      return {"params": params, "opt_state": opt_state}, value.sum()

    state, values = jax.lax.scan(make_update, state, numbers)
    return state, values.mean()

  record = {
    "settings": dataclasses.asdict(settings),
    label.POLICY_STEP: loaded.step,
    "decoder": dataclasses.asdict(decoder),
    "left_out": list(model.left_out),
  }
  # Written first, so that a command with other settings does not continue.
  record_file = workdir / reward_models.RECORD_FILE
  json_files.replace_object(record_file, record)
  state = {
    "params": params,
    "opt_state": _replicate(tx.init(params), loaded),
  }
  done, meta = 0, {"loss": float("nan")}
  device_data = _replicate((train, examples), loaded)
  with checkpointing.Checkpoints(
    workdir / checkpoint_reader.FOLDER,
    keep=1,
    every=settings.checkpoint_every,
  ) as checkpoints:
    try:
      restored = checkpoints.restore_newest(state, print)
    except UsageError as error:
      raise errors.RunError(str(error)) from error
    if restored is not None:
      (state, meta), done = restored, checkpoints.latest_step()
    while done < settings.updates:
      end = min(done + DISPATCH, settings.updates)
      state, loss = run_updates(state, jnp.arange(done, end), *device_data)
      done, meta = end, {"loss": float(loss)}
      checkpoints.save(done, state, meta, force=done == settings.updates)
      update(done)
  record |= {
    "loss": meta["loss"],
    "threshold": _calibrate(model, state["params"], calibration),
    "examples": len(examples),
    "calibration_lines": len(calibration.problems),
  }
  json_files.replace_object(record_file, record)
  return record


def score(
  model: step_model.StepModel,
  params: types.PyTree,
  data: StepData,
  batch: int = 64,
) -> np.ndarray:
  """Returns the scores of the steps of lines, `[N, S, K]`."""
  scores = _jitted_scores(model)
  count = len(data.problems)
  parts = []
  for start in range(0, count, batch):
    # Copies of the last line fill up the shape of the compiled program.
    rows = np.minimum(np.arange(start, start + batch), count - 1)
    part = scores(params, jax.tree.map(lambda x, rows=rows: x[rows], data))
    parts.append(np.asarray(part)[: count - start])
  return np.concatenate(parts)


@functools.lru_cache(maxsize=4)
def _jitted_scores(model: step_model.StepModel) -> Callable[..., jax.Array]:
  return jax.jit(model.scores)


def _calibrate(
  model: step_model.StepModel, params: types.PyTree, data: StepData
) -> float:
  """Returns the threshold with the highest first-error F1 against labels."""
  # The model is not trained on the lines.
  if not (data.weights > 0).any():
    return 0.0
  labelled_error = step_metrics.first_error(
    data.values, data.weights > 0, threshold=0.5
  )
  return float(
    step_metrics.best_threshold(
      score(model, params, data), data.weights > 0, labelled_error
    )
  )


def load(
  workdir: epath.Path, loaded: policy_loader.LoadedPolicy
) -> FittedModel:
  """Loads the model of a workdir, which started from a policy.

  Raises:
    UsageError: the workdir has no model that is fitted to the end.
  """
  saved = reward_models.read(workdir)
  return FittedModel(
    model=saved.model,
    params=reward_models.restore_params(saved, loaded.sharding.mesh),
    task=loaded.task,
    max_steps=reward_models.read_record(workdir)["settings"]["max_steps"],
    threshold=saved.threshold,
  )


def _optimizer(settings: Settings) -> optax.GradientTransformation:
  """Returns the optimizer, with warmup and cosine decay to a tenth."""
  return reward_models.optimizer(
    optax.warmup_cosine_decay_schedule(
      0.0,
      settings.learning_rate,
      warmup_steps=min(50, max(settings.updates // 10, 1)),
      decay_steps=max(settings.updates, 2),
      end_value=0.1 * settings.learning_rate,
    )
  )
