"""Trains the process reward model on the labels of reasoning steps.

"Updates" are optimizer updates of the model; "steps" are reasoning steps.
"""

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
DISPATCH = 50  # number of updates in one call of the compiled program


def process_model(e: Prepared) -> model.ProcessModel:
  """Returns the process reward model, as functions of its parameters.

  It is the decoder of the base policy with `config.layers` more layers, and a
  head with the classes "wrong" and "right". The score of a reasoning step is
  `p(right) - p(wrong)`, where p is the probability of a class.
  """
  decoder = e.base.model
  decoder = dataclasses.replace(
    decoder, layers=decoder.layers + e.config.layers
  )
  return model.ProcessModel(
    policy=policy.bind(decoder), head=heads.linear, read=heads.two_class_score
  )


def start(e: Prepared, params: types.PyTree) -> State:
  """Returns the state of parameters and optimizer before the first update.

  The decoder has the parameters of the base policy. The added layers are
  initialized such that the decoder's output does not change. The head is
  initialized at random.

  Args:
    e: the experiment.
    params: parameters of the base policy.
  """
  # `fit` lists the numbers that are folded into the seed's key.
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
  """Trains from the latest checkpoint to the last update.

  The seed and the number of an update determine its batch, so a resumed run has
  the same result as an uninterrupted one.

  Args:
    e: the experiment.
    state: state from `start`, used if there is no checkpoint.
    rollout: samples of the base policy. Those of the last `config.calibration`
      problems are not used.
    labels: labels of the steps of the samples.
    checkpoints: reads and saves checkpoints.

  Returns:
    The final state, and the mean loss of the updates in the last dispatch (up
    to `DISPATCH` updates).

  Raises:
    RunError: there are checkpoints, but none can be read.
  """
  tx, scorer = _optimizer(e), process_model(e)
  # Each use of the seed folds another number into its key: 1 problems,
  # 2 samples, 3 parameters, 4 batches, 5 samples of held-out problems.
  key = jax.random.fold_in(prng_keys.from_seed(e.config.seed), 4)
  max_steps = rollout.step_mask.shape[-1]  # K
  num_problems = e.config.problems - e.config.calibration
  data = jax.tree.map(
    lambda x: x[:num_problems], (rollout.tokens, rollout.step_ids, labels)
  )

  def loss_fn(params, tokens, step_ids, labels):
    reading = model.read_through(scorer.policy, params["decoder"], tokens)
    features = model.step_features(reading, step_ids, max_steps)
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
      num_problems,
      (e.config.batch,),
      replace=False,
    )
    batch = jax.tree.map(lambda x: x[indices], data)
    loss, grads = jax.value_and_grad(loss_fn)(params, *batch)
    changes, opt_state = tx.update(grads, opt_state, params)
    return (optax.apply_updates(params, changes), opt_state), loss

  @jax.jit
  def run_updates(state, numbers, data):
    """Makes the updates with these numbers; returns state and mean loss."""
    carry = state["params"], state["opt_state"]
    (params, opt_state), values = jax.lax.scan(
      lambda c, number: update(c, number, data), carry, numbers
    )
    return {"params": params, "opt_state": opt_state}, values.mean()

  # Number of finished updates, and the extra values in their checkpoint.
  done, meta = 0, {}
  try:
    restored = checkpoints.restore_newest(state, print)
  except ValueError as error:
    raise errors.RunError(str(error)) from error
  if restored is not None:
    (state, meta), done = restored, checkpoints.latest_step()
  while done < e.config.updates:
    end = min(done + DISPATCH, e.config.updates)
    state, mean_loss = run_updates(state, jnp.arange(done, end), data)
    done, meta = end, {"loss": float(mean_loss)}
    checkpoints.save(done, state, meta, force=done == e.config.updates)
  return state, meta["loss"]


def _optimizer(e: Prepared) -> optax.GradientTransformation:
  """Returns Adam with clipped gradients, warmup and cosine decay to a tenth."""
  rate = optax.warmup_cosine_decay_schedule(
    0.0,
    e.config.learning_rate,
    warmup_steps=min(50, e.config.updates // 10),
    decay_steps=e.config.updates,
    end_value=0.1 * e.config.learning_rate,
  )
  return optax.chain(optax.clip_by_global_norm(1.0), optax.adam(rate, b2=0.98))
