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
from typing import NamedTuple

import jax
import numpy as np

from experiments.training import (
  host_needs,
  packed_texts,
  placement,
  reward_models,
  rollout_pipeline,
  rollouts,
  text_rollouts,
)
from experiments.training.experiment import Experiment
from experiments.training.step_timer import StepTimer
from rl import fused_loop, learners, step, training_state, update_guard

Record = Callable[[training_state.State, step.Rollouts], None]


class Dispatched(NamedTuple):
  """Result of a dispatch.

  Attributes:
    state: the training state after it.
    metrics: metrics of its steps, on the device, with a step axis if the
      dispatch made several steps.
    timer: its durations and moments, measured on the host.
    rollout: the rollout that it trained on; None if it made several steps.
  """

  state: training_state.State
  metrics: step.Metrics
  timer: StepTimer
  rollout: step.Rollouts | None


Dispatch = Callable[..., Dispatched]  # `(state, record=None)`


def compile_rollout_fn(
  e: Experiment, text_extras: Mapping[str, np.ndarray] = MappingProxyType({})
) -> rollouts.HostRolloutFn:
  """Returns the function that makes the rollout of a state.

  It is one compiled program if the task is jittable; otherwise sampling is
  compiled and the score is not. The rollout is on the training mesh. It depends
  on the state alone, except with `inference.ahead`, where its parameters are
  those of an earlier state.

  Args:
    e: the experiment.
    text_extras: `{name: [N, C, T]}`, arrays of `Rollout.extras` for the N lines
      of `e.texts` (`reference_policy.log_probs`).
  """
  sample = _sample_on_sampling_mesh(e, text_extras)
  if (e.config.get("inference") or {}).get("ahead"):
    sample = rollout_pipeline.AsynchronousSampler(e, sample)
  else:
    sample = rollout_pipeline.on_sampling_mesh(e, sample)
  add_scores = jax.jit(add_model_scores(e))
  add_host_needs = host_needs.make_host_needs_fn(e)
  packs, has_host_needs = (
    packed_texts.packs(e),
    host_needs.host_needs(e.methods),
  )

  def rollout_fn(
    state: training_state.State, timer: StepTimer | None = None
  ) -> step.Rollouts:
    timer = timer or StepTimer()
    rollout = sample(state, timer)
    if packs:
      # Waits for the lengths of the completions.
      timer.wait_for(state)
      with timer.measure("time/rollout_s"):
        rollout = packed_texts.pack(rollout, e.model, e.plan, e.mesh)
    if e.reward_models:
      rollout = add_scores(state, rollout)
    if has_host_needs:
      rollout = add_host_needs(state, rollout, timer)
    return rollout

  return rollout_fn


def make_dispatch(
  e: Experiment, sample_rollout: rollouts.HostRolloutFn
) -> Dispatch:
  """Returns the function that the training loop calls for each dispatch.

  It takes the state, which is donated: the caller must use the returned one.
  Its second argument, if there is one, is a function that is called with the
  state and the rollout of the first step before the update.

  Args:
    e: the experiment.
    sample_rollout: the result of `compile_rollout_fn`. The fused program
      samples itself; the rollout to be recorded is then made once more.
  """
  if e.config.steps_per_dispatch > 1:
    steps = fused_steps(e)

    def dispatch_steps(
      state: training_state.State, record: Record | None = None
    ) -> Dispatched:
      timer = StepTimer()
      if record:
        timer.wait_for(state)
        with timer.measure("time/samples_s"):
          record(state, sample_rollout(state, timer))
      return Dispatched(*steps(state), timer, None)

    return dispatch_steps

  train_step = jax.jit(
    make_train_step(e),
    donate_argnums=0,
    out_shardings=(placement.state_shardings(e), e.replicated),
  )

  def dispatch_step(
    state: training_state.State, record: Record | None = None
  ) -> Dispatched:
    timer = StepTimer()
    rollout = sample_rollout(state, timer)
    if record:
      # Waits first, so that the record counts no time of sampling.
      timer.wait_for(state)
      jax.block_until_ready(rollout)
      with timer.measure("time/samples_s"):
        record(state, rollout)
    timer.rollout_ready = time.perf_counter()
    return Dispatched(*train_step(state, rollout), timer, rollout)

  return dispatch_step


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
) -> Callable[[training_state.State, step.Rollouts], step.Rollouts]:
  """Returns the jittable function that adds the scores of reward models."""

  def add(state: training_state.State, rollout: step.Rollouts) -> step.Rollouts:
    return reward_models.add_scores(
      e.reward_models, state, rollout, e.plan.microbatches
    )

  return add


def make_train_step(e: Experiment) -> Callable:
  """Returns the train step of a run, which is jittable and logs the padding."""
  update = make_update(e)

  def train_step(state: training_state.State, rollout: step.Rollouts):
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

  def update(state: training_state.State, rollout: step.Rollouts):
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
    return text_rollouts.make_text_fn(e.texts, prompts, sharding, text_extras)
  if e.task.jittable:
    jitted = jax.jit(_jittable_rollout_fn(e))
    return lambda state, timer: jitted(state)
  if not e.is_rl:
    return text_rollouts.make_host_demonstration_fn(e.task, prompts, sharding)
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
  return text_rollouts.make_demonstration_fn(e.task, prompts, sharding)
