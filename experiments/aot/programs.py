"""The programs of an experiment, traced from shapes alone.

- rollout: sampling, and the scores of a task that is scored on the device.
- score: the teacher-forced log-probabilities of a rollout under the policy and
  every parameter set, which is what the forward passes of a method cost.
- train_step: one train step with its passes; the state is donated.
- evaluation: sampling of held-out problems on the training devices.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from experiments.evaluation import evaluator
from experiments.training import rollouts
from experiments.training.experiment import Experiment
from rl import learners, scoring, step, types
from rl.sampling import generation

# Traces and lowers a program.
Lower = Callable[[], jax.stages.Lowered]


def lower_functions(e: Experiment) -> Mapping[str, Lower]:
  """Returns a function that lowers each program, by the program's name.

  Args:
    e: experiment whose mesh may consist of devices that are not present. A
      supervised experiment has no rollout and no evaluation.
  """
  rollout = placed_rollout(e)
  state = e.abstract
  functions = {
    "score": lambda: jax.jit(_scorer(e)).lower(state, policy_rollout(rollout)),
    "train_step": lambda: _train_step(e).lower(state, rollout),
  }
  if e.samples_own:
    functions = {
      "rollout": lambda: _lower_sampler(e, policy_rollout(rollout)),
      **functions,
      "evaluation": lambda: _lower_evaluation(e),
    }
  return functions


def state_arguments(e: Experiment, name: str) -> types.PyTree:
  """Returns the part of the training state that a program takes as arguments.

  Args:
    e: the experiment.
    name: name of one of its programs.

  Returns:
    Shapes and shardings. The rest of `e.abstract` takes memory on the devices
    beside the program.
  """
  state = e.abstract
  if name == "train_step":
    return state
  if name == "score":
    return state.params, state.frozen, state.parameter_sets
  if name == "evaluation":
    return state.params, state.frozen
  if e.sampling_mesh == e.mesh:
    return e.abstract_sampling
  sampling_devices = set(e.sampling_mesh.devices.flat)
  if not sampling_devices & set(e.mesh.devices.flat):
    return state  # nothing of the state lies on the devices that only sample
  # The program takes a copy in another layout, and all of the state lies there.
  return ()


def policy_rollout(rollout: step.Rollouts) -> types.Rollout:
  """Returns the rollout of the policy, if each learner has its own."""
  return learners.by_learner(rollout)[learners.POLICY]


def placed_rollout(e: Experiment) -> step.Rollouts:
  """Returns the shapes of a rollout, with its prompts over the data axes."""
  rollout = e.abstract_rollout
  return jax.tree.map(_sharded, rollout, e.rollout_shardings(rollout))


def _sharded(leaf: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def _train_step(e: Experiment) -> Any:
  return jax.jit(
    step.make(e.methods, e.policy, e.txs, e.plan),
    donate_argnums=0,
    out_shardings=(e.shardings, e.replicated),
  )


def _scorer(e: Experiment) -> Callable:
  """Returns `score(state, rollout)`: log-probabilities under each parameter set.

  The policy's own parameters are the set "old".
  """

  def score(state: step.State, rollout: types.Rollout) -> dict[str, jax.Array]:
    needs = [
      scoring.Need(source, scoring.log_probs)
      for source in ("old", *state.parameter_sets)
    ]
    scored = e.passed(state, rollout, needs)
    return {str(need): scored.extras[need] for need in needs}

  return score


def _lower_sampler(e: Experiment, rollout: types.Rollout) -> jax.stages.Lowered:
  state = e.abstract_sampling
  if e.task.jittable:
    gather = rollouts.make_rollout_fn(
      e.task,
      e.policy,
      e.sampling,
      e.config.rollout.prompts,
      e.sampling_sharding,
      e.method,
    )
    return jax.jit(gather).lower(state)

  def generate(
    params: types.PyTree,
    frozen: types.PyTree,
    prompts: jax.Array,
    prompt_mask: jax.Array,
    keys: jax.Array,
  ) -> generation.Samples:
    policy = e.policy.with_frozen(frozen)
    return generation.generate(
      policy, params, prompts, prompt_mask, keys, e.sampling
    )

  tokens = rollout.tokens
  keys = jax.eval_shape(
    lambda: jax.random.split(jax.random.key(0), len(tokens.prompts))
  )
  return jax.jit(generate).lower(
    state.params,
    state.frozen,
    _sharded(tokens.prompts, e.sampling_sharding),
    _sharded(tokens.prompt_mask, e.sampling_sharding),
    _sharded(keys, e.sampling_sharding),
  )


def _lower_evaluation(e: Experiment) -> jax.stages.Lowered:
  state, batch = e.abstract, e.config.evaluation.batch
  test = e.task.test(1)
  one_problem = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, test))

  def batched(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    shape = batch, *leaf.shape[1:]  # leaf: [1, ...]
    return _sharded(leaf.update(shape=shape), e.batch_sharding)

  return evaluator.generate.lower(
    e.policy,
    types.join(state.params, state.frozen),
    jax.tree.map(batched, one_problem),
    jax.eval_shape(lambda: jax.random.key(0)),
    evaluator.sampling(e),
  )


def cache_bytes(e: Experiment) -> int:
  """Returns the bytes of all keys and values while sampling, on all devices."""
  tokens = policy_rollout(placed_rollout(e)).tokens
  rows = min(e.sampling.rows or e.sampling.samples, e.sampling.samples)

  def fill(prompts, mask, params):
    T = e.sampling.max_tokens
    _, cache = e.policy.prefill(params, prompts, mask, rows, T)
    return cache

  params = types.join(e.abstract.params, e.abstract.frozen)
  cache = jax.eval_shape(fill, tokens.prompts, tokens.prompt_mask, params)
  floats = [
    leaf
    for leaf in jax.tree.leaves(cache)
    if jnp.issubdtype(leaf.dtype, jnp.floating)
  ]
  return sum(leaf.size * leaf.dtype.itemsize for leaf in floats)
