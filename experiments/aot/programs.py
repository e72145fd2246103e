"""Lowers the programs of an experiment from shapes alone.

- rollout: sampling, and scoring if the task scores on the device.
- score: the teacher-forced log-probabilities of a rollout under the policy and
  every parameter set (such as a reference policy), without an update.
- train_step: one train step with the forward passes that its method needs; the
  training state is donated.
- evaluation: sampling of held-out problems.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax.sharding import NamedSharding

from experiments.evaluation import evaluator
from experiments.training import (
  drawing,
  iteration,
  placement,
  rollout_extras,
  rollouts,
)
from experiments.training.experiment import Experiment
from rl import learners, scoring, step, training_state, types

Lower = Callable[[], jax.stages.Lowered]  # traces and lowers a program


def lower_functions(e: Experiment) -> Mapping[str, Lower]:
  """Returns a function that lowers each program, by the program's name.

  Args:
    e: experiment whose mesh may consist of devices that are not present. A
      supervised experiment has no rollout and no evaluation.
  """
  rollout = e.placed_rollout
  state = placement.abstract_state(e)

  def score(
    state: training_state.State, rollout: types.Rollout
  ) -> dict[str, jax.Array]:
    # There is one pass under each parameter set, and one under the policy's own
    # parameters, which are called "old".
    needs = [
      scoring.Need(source, scoring.log_probs)
      for source in ("old", *state.parameters)
      if source != learners.POLICY
    ]
    scored = rollout_extras.with_passes(e, state, rollout, needs)
    return {str(need): scored.extras[need] for need in needs}

  functions = {
    "score": lambda: jax.jit(score).lower(state, policy_rollout(rollout)),
    "train_step": lambda: _train_step(e).lower(state, rollout),
  }
  if e.is_rl:
    functions = {
      "rollout": lambda: _lower_sampler(e, policy_rollout(rollout)),
      **functions,
      "evaluation": lambda: _lower_evaluation(e),
    }
  return functions


def state_arguments(e: Experiment, name: str) -> types.PyTree:
  """Returns the part of the training state that a program takes as arguments.

  They are shapes and shardings. All other parts of the state take memory on the
  devices while the program runs, too.
  """
  state = placement.abstract_state(e)
  if name == "train_step":
    return state
  if name == "score":
    return state.parameters, state.carried.frozen
  if name == "evaluation" and placement.evaluation_mesh(e) == e.mesh:
    return state.params, state.carried.frozen
  if e.sampling_mesh == e.mesh:
    return placement.abstract_sampler_state(e)
  sampling_devices = set(e.sampling_mesh.devices.flat)
  if not sampling_devices & set(e.mesh.devices.flat):
    return state  # no part of the state is on the sampling devices
  # The program takes a copy of the parameters in another layout, so no part of
  # the state itself is an argument.
  return ()


def policy_rollout(rollout: step.Rollouts) -> types.Rollout:
  """Returns the policy's rollout, also if each learner has its own."""
  return learners.by_learner(rollout)[learners.POLICY]


def _sharded(leaf: Any, sharding: NamedSharding) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=sharding)


def lower_train_step(e: Experiment, room: int) -> jax.stages.Lowered:
  """Lowers the train step of a rollout whose text has this `Tokens.room`."""
  rollout = policy_rollout(e.placed_rollout)  # without views
  # A room of 0 is the padded form.
  rollout = rollout.replace(tokens=rollout.tokens.replace(room=room))
  return _train_step(e).lower(placement.abstract_state(e), rollout)


def _train_step(e: Experiment) -> Any:
  """Returns the jitted function `(state, rollout) -> (state, metrics)`."""
  return jax.jit(
    iteration.make_update(e),
    donate_argnums=0,
    out_shardings=(placement.state_shardings(e), e.replicated),
  )


def _lower_sampler(e: Experiment, rollout: types.Rollout) -> jax.stages.Lowered:
  """Lowers sampling, with the scores if the task is jittable."""
  state = placement.abstract_sampler_state(e)
  if e.task.jittable:
    collect = rollouts.make_rollout_fn(
      e.task,
      e.sampling_policy,
      e.sampling,
      e.config.rollout.prompts,
      e.sampling_sharding,
      e.method,
    )
    return jax.jit(collect).lower(state)

  tokens = rollout.tokens
  keys = jax.eval_shape(
    lambda: jax.random.split(jax.random.key(0), len(tokens.prompts))
  )
  return drawing.generate.lower(
    e.sampling_policy,
    types.join(state.params, state.carried.frozen),
    _sharded(tokens.prompts, e.sampling_sharding),
    _sharded(tokens.prompt_mask, e.sampling_sharding),
    _sharded(keys, e.sampling_sharding),
    e.sampling,
  )


def _lower_evaluation(e: Experiment) -> jax.stages.Lowered:
  """Lowers the sampling of one batch of problems of the test split."""
  batch = e.config.evaluation.batch
  problem = e.task.test(1)  # arrays [1, ...]
  problem_shapes = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, problem))

  def batched(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    shape = batch, *leaf.shape[1:]
    return _sharded(leaf.update(shape=shape), placement.evaluation_sharding(e))

  problems = jax.tree.map(batched, problem_shapes)
  keys = jax.eval_shape(lambda: jax.random.split(jax.random.key(0), batch))
  game = (0, None, e.task.environment, problems.facts)
  return drawing.generate.lower(
    placement.evaluation_policy(e),
    placement.abstract_evaluation_params(e),
    problems.prompts,
    problems.prompt_mask,
    _sharded(keys, placement.evaluation_sharding(e)),
    evaluator.sampling_settings(e),
    *(game if e.task.environment else ()),
  )


def cache_bytes(e: Experiment) -> int:
  """Returns the bytes of the key-value cache of sampling, on all devices."""
  tokens = policy_rollout(e.placed_rollout).tokens
  rows = min(e.sampling.rows or e.sampling.samples, e.sampling.samples)

  def make_cache(prompts, mask, params):
    capacity = e.sampling.max_tokens
    _, cache = e.sampling_policy.prefill(params, prompts, mask, rows, capacity)
    return cache

  state = placement.abstract_sampler_state(e)
  params = types.join(state.params, state.carried.frozen)
  cache = jax.eval_shape(make_cache, tokens.prompts, tokens.prompt_mask, params)
  keys_and_values = [
    leaf
    for leaf in jax.tree.leaves(cache)
    if jnp.issubdtype(leaf.dtype, jnp.floating)
  ]
  return sum(leaf.size * leaf.dtype.itemsize for leaf in keys_and_values)
