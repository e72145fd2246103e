"""The programs of an experiment, traced from shapes alone.

- rollout: sampling; of a jittable task the score too.
- score: the teacher-forced log-probabilities of a rollout, under the policy and
  every slot: what a method's passes cost.
- train_step: the whole of it, passes included, with the state donated.
- evaluation: sampling of held-out problems, on the devices that train.
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

Lower = Callable[[], jax.stages.Lowered]


def of(e: Experiment) -> Mapping[str, Lower]:
  """How each program is lowered, by name.

  Args:
    e: of `validate.check_and_build`, its mesh on devices that need not be there. One that
      imitates has no rollout and no evaluation.
  """
  rollout = placed_rollout(e)
  state = e.abstract
  found = {
    "score": lambda: jax.jit(_scorer(e)).lower(state, own(rollout)),
    "train_step": lambda: _train_step(e).lower(state, rollout),
  }
  if e.is_rl:
    first = {"rollout": lambda: _sampler(e, own(rollout))}
    found = first | found | {"evaluation": lambda: _evaluation(e)}
  return found


def read(e: Experiment, name: str) -> types.PyTree:
  """What a program is given of the state that lies on its devices.

  Args:
    e: the experiment.
    name: of one of its programs.

  Returns:
    Shapes and shardings; the rest of `e.abstract` lies there beside it.
  """
  state = e.abstract
  if name == "train_step":
    return state
  if name == "score":
    return state.params, state.frozen, state.parameter_sets
  if name == "evaluation":
    return state.params, state.frozen
  if e.sampling_mesh == e.mesh:
    return e.abstract_sampler_state
  own_devices = not set(e.sampling_mesh.devices.flat) & set(e.mesh.devices.flat)
  return state if own_devices else ()  # a copy in another layout is no part


def own(rollout: step.Rollouts) -> types.Rollout:
  """The policy's, where learners have rollouts of their own."""
  return learners.by_learner(rollout)[learners.POLICY]


def placed_rollout(e: Experiment) -> step.Rollouts:
  """Shapes of what is learned from, prompts over the data axes."""
  rollout = e.abstract_rollout
  return jax.tree.map(_at, rollout, e.rollout_shardings(rollout))


def _at(leaf: Any, place: NamedSharding) -> jax.ShapeDtypeStruct:
  return jax.ShapeDtypeStruct(leaf.shape, leaf.dtype, sharding=place)


def _train_step(e: Experiment) -> Any:
  return jax.jit(
    step.make(e.methods, e.policy, e.txs, e.plan),
    donate_argnums=0,
    out_shardings=(e.shardings, e.replicated),
  )


def _scorer(e: Experiment) -> Callable:
  """`(state, rollout) -> log-probabilities` of the policy and every slot."""

  def score(state: step.State, rollout: types.Rollout) -> dict[str, jax.Array]:
    needs = [
      scoring.Need(source, scoring.log_probs)
      for source in ("old", *state.parameter_sets)
    ]
    scored = e.with_scores(state, rollout, needs)
    return {str(need): scored.extras[need] for need in needs}

  return score


def _sampler(e: Experiment, rollout: types.Rollout) -> jax.stages.Lowered:
  state = e.abstract_sampler_state
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
    _at(tokens.prompts, e.sampling_sharding),
    _at(tokens.prompt_mask, e.sampling_sharding),
    _at(keys, e.sampling_sharding),
  )


def _evaluation(e: Experiment) -> jax.stages.Lowered:
  state, batch = e.abstract, e.config.evaluation.batch
  test = e.task.test(1)
  one = jax.eval_shape(lambda: jax.tree.map(jnp.asarray, test))

  def many(leaf: jax.ShapeDtypeStruct) -> jax.ShapeDtypeStruct:
    shape = batch, *leaf.shape[1:]
    return _at(leaf.update(shape=shape), e.batch_sharding)

  return evaluator.generate.lower(
    e.policy,
    types.join(state.params, state.frozen),
    jax.tree.map(many, one),
    jax.eval_shape(lambda: jax.random.key(0)),
    evaluator.sampling_settings(e),
  )


def cache_bytes(e: Experiment) -> int:
  """Of all keys and values while sampling, over all devices."""
  tokens = own(placed_rollout(e)).tokens
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
