"""The process reward model learns its labels."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import optax

from experiments.cli import errors
from experiments.prm.settings import Prepared
from experiments.training import checkpointing, prng_keys
from models import grow, heads
from models import policy as policies
from rewards.process import losses, model
from rewards.process.labels import Labels
from rl import types

Array = jax.Array
State = dict[str, types.PyTree]  # params and opt_state
DISPATCH = 50  # updates in one program


def process_model(e: Prepared) -> model.ProcessModel:
  """The base's decoder, grown, with a head read as `p(good) - p(bad)`."""
  shape = e.base.model
  shape = dataclasses.replace(shape, layers=shape.layers + e.config.layers)
  policy = policies.bind(shape)
  return model.ProcessModel(policy, heads.linear, heads.two_class_score)


def start(e: Prepared, params: types.PyTree) -> State:
  """The state before the first update.

  The base's decoder, with layers that change nothing yet, and a new head.
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
  """Updates from the latest checkpoint to the last, saved on the way.

  Batches are a function of the seed and the number of the update, so a resumed
  run is the uninterrupted one.

  Args:
    e: the experiment.
    state: of `start`; where there is a checkpoint, that is taken instead.
    rollout: the samples; those of the last `calibration` problems are not
      looked at.
    labels: of their steps.
    checkpoints: where states are saved.

  Returns:
    The last state, and the mean loss of its last dispatch.
  """
  tx, scorer = _optimizer(e), process_model(e)
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
    chosen = jax.random.choice(
      jax.random.fold_in(key, number),
      problems,
      (e.config.batch,),
      replace=False,
    )
    rows = jax.tree.map(lambda x: x[chosen], data)
    value, gradient = jax.value_and_grad(loss)(params, *rows)
    change, opt_state = tx.update(gradient, opt_state, params)
    return (optax.apply_updates(params, change), opt_state), value

  @jax.jit
  def updates(state, numbers, data):
    carry = state["params"], state["opt_state"]
    carry, values = jax.lax.scan(
      lambda c, number: update(c, number, data), carry, numbers
    )
    return dict(zip(("params", "opt_state"), carry, strict=True)), values.mean()

  done, meta = 0, {}
  try:
    found = checkpoints.restore_newest(state, print)
  except ValueError as error:
    raise errors.RunError(str(error)) from error
  if found is not None:
    (state, meta), done = found, checkpoints.latest_step()
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
