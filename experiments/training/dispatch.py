"""Builds what one dispatch of the training loop runs: sample, score, update.

A dispatch is `steps_per_dispatch` training steps. With one step per dispatch it
is two programs, sampling and update; between them the host computes scores, if
the task is scored on the host. With several steps per dispatch, all of them are
one fused program.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from types import MappingProxyType

import jax
import numpy as np

from experiments.training import (
  host_needs,
  packed_texts,
  placement,
  reward_models,
  rollout_pipeline,
  rollouts,
)
from experiments.training.experiment import Experiment
from rl import fused_loop, learners, step, update_guard

# state -> (state, metrics of the steps, times measured on the host)
Dispatch = Callable[
  [step.State], tuple[step.State, step.Metrics, dict[str, float]]
]


def compile_rollout_fn(
  e: Experiment, text_extras: Mapping[str, np.ndarray] = MappingProxyType({})
) -> rollouts.HostRolloutFn:
  """Returns the function that makes the rollout of a state.

  It is one compiled program if the task is jittable; otherwise sampling is
  compiled and the score is not. The rollout is on the training mesh. It depends
  on the state alone, except with `sampling.ahead`, where its parameters are
  those of an earlier state.

  Args:
    e: the experiment.
    text_extras: `{name: [N, C, T]}`, arrays of `Rollout.extras` for the N lines
      of `e.texts` (`reference_policy.log_probs`).
  """
  sample = _sample_on_sampling_mesh(e, text_extras)
  if (e.config.get("sampling") or {}).get("ahead"):
    sample = rollout_pipeline.AsynchronousSampler(e, sample)
  else:
    sample = rollout_pipeline.on_sampling_mesh(e, sample)
  sample = packed_texts.with_room(e, sample)
  sample = _with_model_scores(e, sample)
  return host_needs.with_host_needs(e, sample)


def make_dispatch(
  e: Experiment, sample_rollout: rollouts.HostRolloutFn
) -> Dispatch:
  """Returns the function that the training loop calls for each dispatch.

  The state is donated: the caller must use the returned one.

  Args:
    e: the experiment.
    sample_rollout: the result of `compile_rollout_fn`. The fused program does
      not call it, because it samples itself.
  """
  if e.config.steps_per_dispatch > 1:
    steps = fused_steps(e)
    return lambda state: (*steps(state), {})
  train_step = jax.jit(
    make_train_step(e),
    donate_argnums=0,
    out_shardings=(placement.state_shardings(e), e.replicated),
  )

  def sample_and_train(state):
    rollout, times = sample_rollout(state)
    times = {**times, rollouts.ROLLOUT_READY: time.perf_counter()}
    return (*train_step(state, rollout), times)

  return sample_and_train


def fused_steps(e: Experiment) -> jax.stages.Wrapped:
  """Returns the jitted function `state -> (state, metrics)` of a dispatch."""
  sample, add = _jittable_rollout_fn(e), add_model_scores(e)
  body = fused_loop.iteration(
    lambda state: add(state, sample(state)), make_train_step(e)
  )
  return jax.jit(
    fused_loop.scan(body, e.config.steps_per_dispatch),
    donate_argnums=0,
    out_shardings=(placement.state_shardings(e), e.replicated),
  )


def add_model_scores(
  e: Experiment,
) -> Callable[[step.State, step.Rollouts], step.Rollouts]:
  """Returns the jittable function that adds the scores of reward models."""

  def add(state: step.State, rollout: step.Rollouts) -> step.Rollouts:
    return reward_models.add_scores(
      e.reward_models, state, rollout, e.plan.microbatches
    )

  return add


def _with_model_scores(
  e: Experiment, rollout_fn: rollouts.HostRolloutFn
) -> rollouts.HostRolloutFn:
  """Returns a rollout function whose rollouts have scores of reward models."""
  if not e.reward_models:
    return rollout_fn
  score = jax.jit(add_model_scores(e))

  def with_scores(state: step.State):
    rollout, times = rollout_fn(state)
    return score(state, rollout), times

  return with_scores


def make_train_step(e: Experiment) -> Callable:
  """Returns the train step of a run, which is jittable and logs the padding."""
  update = make_update(e)

  def train_step(state: step.State, rollout: step.Rollouts):
    padding = packed_texts.padding_metrics(e, rollout)
    new_state, metrics = update(state, rollout)
    return new_state, metrics | padding

  return train_step


def make_update(e: Experiment) -> Callable:
  """Returns a jittable function `(state, rollout) -> (state, metrics)`.

  It updates the learners and, on the same rollout, the reward models that are
  not frozen. A step in which all updates of the policy are skipped changes no
  model. It does not depend on how samples are drawn.
  """
  train_step = step.make(e.methods, e.policy, e.txs, e.plan)

  def update(state: step.State, rollout: step.Rollouts):
    trained, model_metrics = reward_models.update(
      e.reward_models,
      state,
      learners.by_learner(rollout)[learners.POLICY],
      e.plan.microbatches,
    )
    new_state, metrics = train_step(state, rollout)
    is_made = metrics["optim/skipped"] < e.plan.updates
    old = {name: state.learners[name] for name in trained}
    trained = update_guard.select(is_made, trained, old)
    new_learners = {**new_state.learners, **trained}
    return new_state.replace(learners=new_learners), metrics | model_metrics

  return update


def _sample_on_sampling_mesh(
  e: Experiment, text_extras: Mapping[str, np.ndarray]
) -> rollouts.HostRolloutFn:
  """Returns a rollout function, of samples, demonstrations or preferences."""
  prompts, sharding = e.config.rollout.prompts, e.sampling_sharding
  if e.texts is not None:
    return rollouts.make_text_fn(e.texts, prompts, sharding, text_extras)
  if e.task.jittable:
    jitted = jax.jit(_jittable_rollout_fn(e))
    return lambda state: (jitted(state), {})
  if not e.is_rl:
    return rollouts.make_host_demonstration_fn(e.task, prompts, sharding)
  return rollouts.make_host_rollout_fn(
    e.task, e.sampling_policy, e.sampling, prompts, sharding, e.method
  )


def _jittable_rollout_fn(e: Experiment) -> rollouts.RolloutFn:
  """Returns the rollout function of a jittable task."""
  prompts, sharding = e.config.rollout.prompts, e.sampling_sharding
  if e.is_rl:
    return rollouts.make_rollout_fn(
      e.task, e.sampling_policy, e.sampling, prompts, sharding, e.method
    )
  return rollouts.make_demonstration_fn(e.task, prompts, sharding)
