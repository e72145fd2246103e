"""Process reward models that score the reasoning steps of a run's samples.

`config.models.NAME.workdir` is the workdir in which `python -m experiments.prm
fit` has fitted a model. Between sampling and the update, the model scores each
step of the samples, and its scores become the extra "model/NAME" of the
rollout, `[P, S, K]`, which the reward `model_steps` reads. A model is frozen
unless `config.models.NAME.labels` is set; then it is trained beside the policy,
on the samples of the policy.

Axes: P prompts, S samples of a prompt, K steps.
"""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import ml_collections
import optax
from etils import epath
from jax.sharding import Mesh

from experiments import tasks
from experiments.cli import spec
from experiments.training import decoder
from models import checkpoint_reader, heads, policy, sharding, transformer
from models.config import from_fields
from rewards import base
from rewards.process import step_features as process_model
from rewards.process import step_losses, step_model
from rl import (
  UsageError,
  gradients,
  learners,
  masked,
  registry,
  step,
  training_state,
  types,
  update_plan,
)
from rl.method import Method

Array = jax.Array
RECORD_FILE = "fit.json"  # in the workdir of `experiments.prm fit`


@dataclasses.dataclass(frozen=True)
class RewardModel:
  """A fitted model that scores the steps of a run's samples.

  Attributes:
    workdir: folder of the fitted model.
    model: functions of its parameters.
    shapes: shapes of its parameters.
    threshold: score below which a step counts as an error.
    labels: a key of `LABELS`, which makes the labels that the model is trained
      on; "" if it is frozen.
    every: training steps from one of its updates to the next.
    tx: optimizer of its updates; None if it is frozen.
  """

  workdir: epath.Path
  model: step_model.StepModel
  shapes: types.PyTree
  threshold: float
  labels: str = ""
  every: int = 1
  tx: optax.GradientTransformation | None = None


def task_labels(rollout: types.Rollout) -> tuple[Array, Array]:
  """Labels each step by the task's step score: 1 above 0, 0 below 0.

  Returns:
    The labels, and their weights: 0 for steps that the task scores 0, which it
    does not judge, or not at all (NaN); `[P, S, K]` each.
  """
  scores = rollout.step_scores
  is_judged = (scores > 0) | (scores < 0)
  return (scores > 0).astype(jnp.float32), is_judged.astype(jnp.float32)


def verdict_labels(rollout: types.Rollout) -> tuple[Array, Array]:
  """Labels each step by the verdict of its sample: 1 right, 0 wrong.

  Returns:
    The labels, and their weights: 0 if the verdict is unknown; `[P, S, K]`
    each.
  """
  shape = rollout.step_mask.shape
  verdicts = jnp.broadcast_to(rollout.correct[..., None], shape)
  return (
    (verdicts == 1).astype(jnp.float32),
    (verdicts >= 0).astype(jnp.float32),
  )


LABELS: Mapping[str, Callable[[types.Rollout], tuple[Array, Array]]] = {
  "task": task_labels,
  "verdict": verdict_labels,
}


# ------------------------------------------------------------------------------
# Reading a workdir
# ------------------------------------------------------------------------------


def read_record(workdir: epath.Path) -> dict[str, Any]:
  """Returns the content of `fit.json`.

  Raises:
    UsageError: the workdir has no fitted model.
  """
  path = workdir / RECORD_FILE
  if not path.exists():
    raise UsageError(
      f"{workdir} has no fitted model; run python -m experiments.prm fit "
      f"--workdir {workdir}"
    )
  return json.loads(path.read_text())


def read(workdir: epath.Path, splits_sequences: bool = False) -> RewardModel:
  """Returns the frozen model of a workdir; reads no parameters.

  Args:
    workdir: workdir of `experiments.prm fit`.
    splits_sequences: whether the mesh splits the tokens of a sequence.

  Raises:
    UsageError: the workdir has no model that is fitted to the end.
  """
  record = read_record(workdir)
  if "threshold" not in record:
    raise UsageError(
      f"the model in {workdir} is not fitted to the end; run the command fit "
      "again"
    )
  name, settings = spec.parse(record["settings"]["loss"], "--loss")
  loss = step_losses.get(name, **settings)
  shape = decoder.choose_fast_forms(
    from_fields(record["decoder"]), splits_sequences=splits_sequences
  )
  return RewardModel(
    workdir=workdir,
    model=step_model.StepModel(
      policy.bind(shape),
      heads.linear,
      loss,
      left_out=tuple(record.get("left_out", ())),
    ),
    shapes=jax.eval_shape(
      lambda key: init_params(
        loss, shape.width, transformer.init(shape, key), key
      ),
      jax.random.key(0),
    ),
    threshold=record["threshold"],
  )


def init_params(
  loss: step_losses.StepLoss,
  width: int,
  decoder_params: types.PyTree,
  key: Array,
) -> types.PyTree:
  """Returns the parameters of a model before the first update.

  Args:
    loss: the loss that it is fitted with.
    width: D of the decoder.
    decoder_params: parameters of the decoder.
    key: PRNG key of the head.
  """
  params = {
    "decoder": decoder_params,
    "head": heads.init_linear(
      key, width + process_model.SURPRISES, loss.outputs
    ),
  }
  if loss.reads_reference:
    params["reference"] = jax.tree.map(jnp.copy, decoder_params)
  return params


def restore_params(model: RewardModel, mesh: Mesh) -> types.PyTree:
  """Returns the parameters of a model, split over a mesh.

  Raises:
    UsageError: the checkpoint is damaged, or has other parameters.
  """
  placed = sharding.with_shardings(
    model.shapes, sharding.shardings(model.shapes, mesh)
  )
  return checkpoint_reader.restore_params(
    model.workdir / checkpoint_reader.FOLDER, placed
  )


# ------------------------------------------------------------------------------
# The models of a run
# ------------------------------------------------------------------------------


def check(
  models: Mapping[str, ml_collections.ConfigDict], methods: Mapping[str, Method]
) -> None:
  """Checks the settings of the reward models.

  Args:
    models: `config.models`.
    methods: the method of each learner of the run.
  """
  # In the state, a model has its name beside learners and parameter sets.
  names_of_methods = {*methods, *learners.RESERVED} | {
    name for method in methods.values() for name, _ in method.parameter_sets
  }
  for name, settings in models.items():
    where = f"models.{name}"
    if name in names_of_methods:
      raise UsageError(
        f"{where}: {methods[learners.POLICY].name} has parameters that are "
        f"named {name!r}; give the model another name, such as {name}_model"
      )
    if not name.isidentifier():
      raise UsageError(
        f"{where}: the name {name!r} must be letters, digits and _, such as prm"
      )
    allowed = ("", *LABELS)
    if settings.labels not in allowed:
      raise UsageError(
        registry.describe_unknown(f"{where}.labels", settings.labels, allowed)
      )
    if settings.every < 1:
      raise UsageError(f"{where}.every = {settings.every} must be at least 1")
    if not settings.learning_rate > 0:
      raise UsageError(
        f"{where}.learning_rate = {settings.learning_rate} must be above 0; "
        "leave labels empty for a model that is not trained"
      )


def check_fit(
  models: Mapping[str, RewardModel],
  task: tasks.Task,
  vocab_size: int,
  state: training_state.State,
  rollouts: step.Rollouts,
) -> None:
  """Checks the models against the task and the tokens of the policy.

  Args:
    models: the models of the run.
    task: the task.
    vocab_size: number of tokens of the policy.
    state: shapes of the training state.
    rollouts: shapes of a rollout, or of those of the learners.
  """
  for name, model in models.items():
    size = model.shapes["decoder"]["embed"]["table"].shape[0]
    if size != vocab_size:
      raise UsageError(
        f"models.{name}.workdir = {model.workdir}: the model has {size} "
        f"tokens, and the policy {vocab_size}; fit it on samples of a policy "
        "with the same tokens"
      )
    rollout = learners.by_learner(rollouts)[learners.POLICY]
    if model.labels == "task" and rollout.step_scores is None:
      raise UsageError(
        f"models.{name}.labels = 'task': {task.name} does not score steps; "
        "nearest: 'verdict'"
      )
  # A decoder may refuse the length of the texts.
  jax.eval_shape(
    lambda *arrays: add_scores(models, *arrays, parts=1), state, rollouts
  )


def make(config: ml_collections.ConfigDict) -> dict[str, RewardModel]:
  """Makes the models of `config.models`, by their names.

  Raises:
    UsageError: a workdir has no fitted model; or a model cannot be trained with
      its loss.
  """
  models = {}
  for name, settings in (config.get("models") or {}).items():
    model = read(
      epath.Path(settings.workdir),
      splits_sequences=(config.mesh.get("context") or 1) != 1,
    )
    if settings.labels:
      _check_trainable(name, settings.labels, model.model.loss)
      model = dataclasses.replace(
        model,
        labels=settings.labels,
        every=settings.every,
        tx=optimizer(settings.learning_rate),
      )
    models[name] = model
  return models


def _check_trainable(
  name: str, labels: str, loss: step_losses.StepLoss
) -> None:
  """Refuses a loss that cannot learn from the samples of a run."""
  if "potentials" in loss.targets:
    raise UsageError(
      f"models.{name}.labels: the loss {loss.name} learns from potentials, "
      "which a run does not have; fit the model with another loss, such as "
      "bce, or leave labels empty"
    )
  if labels == "task" and "labels" not in loss.targets:
    raise UsageError(
      f"models.{name}.labels = 'task': the loss {loss.name} reads no labels of "
      "steps; nearest: 'verdict'"
    )
  if loss.count is None:
    raise UsageError(
      f"models.{name}.labels: the loss {loss.name} selects its examples on "
      "the host, and cannot train in a run; fit the model with another loss, "
      "such as bce, or leave labels empty"
    )


def optimizer(
  learning_rate: optax.ScalarOrSchedule,
) -> optax.GradientTransformation:
  """Returns Adam with clipped gradients; the reference does not change."""
  adam = optax.chain(
    optax.clip_by_global_norm(1.0), optax.adam(learning_rate, b2=0.98)
  )
  return optax.multi_transform(
    {"trained": adam, "frozen": optax.set_to_zero()},
    lambda params: {
      name: jax.tree.map(
        lambda _, kind="frozen" if name == "reference" else "trained": kind,
        value,
      )
      for name, value in params.items()
    },
  )


def add_to_state(
  models: Mapping[str, RewardModel],
  state: training_state.State,
  params: Mapping[str, types.PyTree],
) -> training_state.State:
  """Returns the state with some models: those that are trained are learners.

  Args:
    models: the models of the run.
    state: the training state.
    params: parameters by the names of the models to add.
  """
  trained = {
    name: training_state.Learner(value, models[name].tx.init(value))
    for name, value in params.items()
    if models[name].tx is not None
  }
  frozen = {n: value for n, value in params.items() if n not in trained}
  return state.replace(
    learners={**state.learners, **trained},
    carried=state.carried.replace(models={**state.carried.models, **frozen}),
  )


def add_scores(
  models: Mapping[str, RewardModel],
  state: training_state.State,
  rollouts: step.Rollouts,
  parts: int,
) -> step.Rollouts:
  """Adds the scores of every model to the policy's rollout, as extras.

  Args:
    models: the models; without any, the rollouts are returned as they are.
    state: training state with the parameters of the models.
    rollouts: a rollout, or those of the learners.
    parts: number of slices along P that are scored one after another.
  """
  if not models:
    return rollouts
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  data = step_model.of_rollout(rollout)
  scores = {}
  for name, model in models.items():
    is_trained = name in state.learners
    params = (
      state.learners[name].params if is_trained else state.carried.models[name]
    )

    def score(part, model=model, params=params):
      return model.model.scores(params, part)

    scores[name] = update_plan.map_parts(score, data, parts)
  return _with_scores(rollouts, scores)


def abstract_scores(
  models: Mapping[str, RewardModel], rollouts: step.Rollouts
) -> step.Rollouts:
  """Returns the shapes of the result of `add_scores`.

  Args:
    models: the models.
    rollouts: shapes of a rollout, or of those of the learners.

  Raises:
    UsageError: there are models, but the task has no steps.
  """
  if not models:
    return rollouts
  rollout = learners.by_learner(rollouts)[learners.POLICY]
  if rollout.step_mask is None:
    raise UsageError(
      f"models: {', '.join(models)} cannot score the samples, because the task "
      "does not divide completions into steps; use such a task, for example "
      "chain(), or leave models empty"
    )
  shape = jax.ShapeDtypeStruct(rollout.step_mask.shape, jnp.float32)
  return _with_scores(rollouts, dict.fromkeys(models, shape))


def _with_scores(
  rollouts: step.Rollouts, scores: Mapping[str, Any]
) -> step.Rollouts:
  """Adds scores, by the name of the model, to the policy's extras."""
  by_learner = learners.by_learner(rollouts)
  rollout = by_learner[learners.POLICY]
  extras = {str(base.model_scores(name)): x for name, x in scores.items()}
  rollout = rollout.replace(extras=rollout.extras.update(extras))
  if not isinstance(rollouts, Mapping):
    return rollout
  return {**by_learner, learners.POLICY: rollout}


def update(
  models: Mapping[str, RewardModel],
  state: training_state.State,
  rollout: types.Rollout,
  parts: int,
) -> tuple[dict[str, training_state.Learner], step.Metrics]:
  """Trains those models that are not frozen on the samples of a rollout.

  Args:
    models: the models.
    state: training state before the step.
    rollout: the policy's rollout, with the scores of the models.
    parts: number of slices along P, whose gradients are computed one after
      another; they change the result by rounding alone.

  Returns:
    The learners that are these models, and metrics (`metrics`); "NAME/loss" is
    NaN in a step without an update.
  """
  trained, logged = {}, {}
  for name, model in models.items():
    logged |= metrics(name, model, rollout)
    if model.tx is None:
      continue
    is_due = (state.step + 1) % model.every == 0
    trained[name], logged[f"{name}/loss"] = jax.lax.cond(
      is_due,
      lambda old, model=model: _update_one(model, old, rollout, parts),
      lambda old: (old, jnp.full((), jnp.nan)),
      state.learners[name],
    )
  return trained, logged


def _update_one(
  model: RewardModel,
  learner: training_state.Learner,
  rollout: types.Rollout,
  parts: int,
) -> tuple[training_state.Learner, Array]:
  """Makes one update of a model; returns its state and the loss before it."""
  values, weights = LABELS[model.labels](rollout)
  exists = rollout.valid("step")
  data = model.model.filter_text(
    step_model.of_rollout(rollout).replace(
      values=values,
      weights=weights * exists,
      correct=jnp.where(rollout.sample_mask, rollout.correct, -1),
    )
  )

  # The loss is that of the fit without the likelihood of the tokens.
  loss = model.model.loss
  total = loss.count(data)

  def loss_fn(params, part):
    outputs, _ = model.model.outputs(params, part)
    share = jnp.where(total > 0, loss.count(part) / total, 0.0)
    value = loss.loss(outputs, part) * share
    return value, value

  grads, values = gradients.accumulate(loss_fn, learner.params, data, parts)
  # An update that is not finite, or that no label is for, changes nothing.
  trained, _, _ = gradients.apply(
    model.tx, (learner.params, learner.opt_state), grads, total > 0
  )
  return training_state.Learner(*trained), values.sum()


def metrics(
  name: str, model: RewardModel, rollout: types.Rollout
) -> step.Metrics:
  """Returns the proxy (the model's scores) beside the gold (the task's).

    NAME/score        mean score of a step by the model
    NAME/worst        mean over the samples of their lowest score
    cost/NAME_tokens  tokens, of prompts and completions, that the model reads

  and if the task itself scores steps:

    NAME/task_score   mean score of a step by the task
    NAME/task_worst   mean over the samples of their lowest score by the task
    NAME/accuracy     share of the steps that the model and the task judge
                      equally, of those that the task judges

  Args:
    name: NAME.
    model: the model.
    rollout: a rollout with the model's scores.
  """
  exists = rollout.valid("step")
  has_steps = exists.any(-1)
  scores = rollout.extras[base.model_scores(name)]
  tokens = model.model.filter_text(step_model.of_rollout(rollout)).tokens

  def mean(values: Array) -> Array:
    return masked.mean(values, exists, (0, 1, 2))

  def worst(values: Array) -> Array:
    lowest = masked.min(values, exists)
    return masked.mean(jnp.where(has_steps, lowest, 0.0), has_steps, (0, 1))

  logged = {
    f"{name}/score": mean(scores),
    f"{name}/worst": worst(scores),
    f"cost/{name}_tokens": (
      tokens.lengths.sum() + tokens.prompt_mask.sum()
    ).astype(jnp.float32),
  }
  if rollout.step_scores is None:
    return logged
  task_scores = rollout.step_scores
  is_equal = (scores >= model.threshold) == (task_scores > 0)
  return logged | {
    f"{name}/task_score": mean(task_scores),
    f"{name}/task_worst": worst(task_scores),
    f"{name}/accuracy": masked.mean(
      is_equal.astype(jnp.float32), exists & (task_scores != 0), (0, 1, 2)
    ),
  }
