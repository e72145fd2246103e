"""Trains the process reward model on the labels."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import optax

from experiments.cli import errors
from experiments.prm.settings import Prepared
from experiments.training import checkpointing, prng_keys
from models import grow, heads, policy
from rewards.process import losses, model
from rewards.process.labels import Labels
from rl import types

Array = jax.Array
State = dict[str, types.PyTree]  # keys "params" and "opt_state"
DISPATCH = 50  # updates in one call of the compiled program


def process_model(e: Prepared) -> model.ProcessModel:
  """Returns the model: the base's decoder with more layers, and a head.

  The score of a step is `p(right) - p(wrong)` of the two-class head.
  """
  shape = e.base.model
  shape = dataclasses.replace(shape, layers=shape.layers + e.config.layers)
  return model.ProcessModel(
    policy.bind(shape), heads.linear, heads.two_class_score
  )


def start(e: Prepared, params: types.PyTree) -> State:
  """Returns the state before the first update.

  The decoder has the parameters of the base policy. The layers that are added
  to it leave its output unchanged at first. The head is initialized at random.

  Args:
    e: the experiment.
    params: parameters of the base policy.
  """
  key = jax.random.fold_in(prng_keys.from_seed(e.config.seed), 3)
  layers_key, head_key = jax.random.split(key)
  _, decoder = grow.append_layers(
    e.base.model, params, e.config.layers, layers_key
  )
  params = {
    "decoder": decoder,
    "head": heads.init_linear(
      head_key, e.base.model.width + model.SURPRISES, 2
    ),
  }
  return {"params": params, "opt_state": _optimizer(e).init(params)}


def fit(
  e: Prepared,
  state: State,
  rollout: types.Rollout,
  labels: Labels,
  checkpoints: checkpointing.Checkpoints,
) -> tuple[State, float]:
  """Trains from the newest checkpoint to the last update and saves checkpoints.

  The seed and the number of an update determine its batch, so a resumed run has
  the same result as an uninterrupted one.

  Args:
    e: the experiment.
    state: initial state, as returned by `start`. It is used if there is no
      checkpoint.
    rollout: samples of the base policy. Those of the last `calibration`
      problems are not used.
    labels: labels of the steps of the samples.
    checkpoints: reads and saves the states.

  Returns:
    The final state, and the mean loss of the last `DISPATCH` updates.
  """
  tx, scorer = _optimizer(e), process_model(e)
  # Each use of the seed folds in a number of its own: 1 problems, 2 samples,
  # 3 parameters, 4 batches, 5 held-out samples.
  key = jax.random.fold_in(prng_keys.from_seed(e.config.seed), 4)
  steps = rollout.step_mask.shape[-1]
  problems = e.config.problems - e.config.calibration
  data = jax.tree.map(
    lambda x: x[:problems], (rollout.tokens, rollout.step_ids, labels)
  )

  def loss(params, tokens, step_ids, labels):
    reading = model.read_through(scorer.policy, params["decoder"], tokens)
    features = model.step_features(reading, step_ids, steps)
    outputs = scorer.head(params["head"], features)
    language = losses.language_loss(reading.log_probs, tokens.mask)
    return (
      losses.two_class_cross_entropy(outputs, labels.values, labels.weights)
      + e.config.language_coefficient * language
    )

  def update(carry, number, data):
    params, opt_state = carry
    indices = jax.random.choice(
      jax.random.fold_in(key, number),
      problems,
      (e.config.batch,),
      replace=False,
    )
    batch = jax.tree.map(lambda x: x[indices], data)
    value, grads = jax.value_and_grad(loss)(params, *batch)
    changes, opt_state = tx.update(grads, opt_state, params)
    return (optax.apply_updates(params, changes), opt_state), value

  @jax.jit
  def updates(state, numbers, data):
    carry = state["params"], state["opt_state"]
    carry, values = jax.lax.scan(
      lambda c, number: update(c, number, data), carry, numbers
    )
    return dict(zip(("params", "opt_state"), carry, strict=True)), values.mean()

  done, meta = 0, {}
  try:
    restored = checkpoints.restore_newest(state, print)
  except ValueError as error:
    raise errors.RunError(str(error)) from error
  if restored is not None:
    (state, meta), done = restored, checkpoints.latest_step()
  while done < e.config.updates:
    after = min(done + DISPATCH, e.config.updates)
    state, mean = updates(state, jnp.arange(done, after), data)
    done, meta = after, {"loss": float(mean)}
    checkpoints.save(done, state, meta, force=done == e.config.updates)
  return state, meta["loss"]


def _optimizer(e: Prepared) -> optax.GradientTransformation:
  rate = optax.warmup_cosine_decay_schedule(
    0.0,
    e.config.learning_rate,
    warmup_steps=min(50, e.config.updates // 10),
    decay_steps=e.config.updates,
    end_value=0.1 * e.config.learning_rate,
  )
  return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b2=0.98))
