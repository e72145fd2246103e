"""Asynchronous rollouts: sampling on other devices, one step ahead of training.

`config.inference` may set another mesh for the sampler than for training (for
example to split parameters in training and to copy them to every device for
sampling), or devices that only sample. On such devices, with `ahead` = 1, the
sampler makes the rollout of the next training step while the present one is
trained. The parameters of that rollout are one training step old. The metric
`rollout/staleness` is 1 for such a rollout, and `inference.importance_cap`
multiplies advantages by importance weights to correct for it
(`rl.losses.importance`).
"""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable

import jax

from experiments.training import placement
from experiments.training.experiment import Experiment
from experiments.training.rollouts import HostRolloutFn
from experiments.training.step_timer import StepTimer
from rl import learners, step, training_state


def on_sampling_mesh(
  e: Experiment, sample_rollout: HostRolloutFn
) -> HostRolloutFn:
  """Returns a rollout function that samples on the sampling mesh.

  It takes a state on the training mesh, copies the parameters to the sampling
  mesh in the dtype of sampling, and copies the rollout back to the training
  mesh.

  Args:
    e: the experiment.
    sample_rollout: rollout function whose state is on `e.sampling_mesh`.

  Returns:
    A rollout function; `sample_rollout` itself if both meshes are the same.
  """
  if e.sampling_mesh == e.mesh:
    return sample_rollout
  send = _make_send(e)

  def rollout_fn(
    state: training_state.State, timer: StepTimer
  ) -> step.Rollouts:
    rollout = sample_rollout(send(state), timer)
    return jax.device_put(rollout, e.rollout_shardings(rollout))

  return rollout_fn


def _make_send(
  e: Experiment,
) -> Callable[[training_state.State], training_state.State]:
  """Returns a function that copies the sampler's state to the sampling mesh."""
  frozen = []  # the frozen parameters, after the first call
  shardings = placement.sampler_shardings(e)

  @jax.jit
  def sampler_state(state: training_state.State) -> training_state.State:
    return placement.sampler_state(e, state)

  def send(state: training_state.State) -> training_state.State:
    # Frozen parameters are copied only once.
    if not frozen:
      sent = placement.sampling_params(e, state.carried.frozen)
      frozen.append(jax.device_put(sent, shardings.carried.frozen))
    sent = sampler_state(state.with_carried(frozen={}))
    sent = jax.device_put(sent, shardings.with_carried(frozen={}))
    return sent.with_carried(frozen=frozen[0])

  return send


class AsynchronousSampler:
  """A rollout function that samples one training step ahead, in a thread.

  The first rollout after a checkpoint at a multiple of `checkpoint_every` is
  not sampled ahead, but from the parameters that were saved, so a run that
  resumes from this checkpoint draws the same samples. A run that SIGTERM ended
  at another step draws other samples after its restart: its first rollout would
  have been sampled ahead without the interruption.

  Args:
    e: the experiment; its sampler has devices of its own.
    sample_rollout: rollout function on `e.sampling_mesh`.
  """

  def __init__(self, e: Experiment, sample_rollout: HostRolloutFn) -> None:
    self._e, self._sample_rollout = e, sample_rollout
    self._send = _make_send(e)
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    # The rollouts being sampled ahead, with the timers of their threads. The
    # key is the number of steps that are finished before the rollout's step.
    self._futures: dict[int, tuple[concurrent.futures.Future, StepTimer]] = {}

  def __call__(
    self, state: training_state.State, timer: StepTimer
  ) -> step.Rollouts:
    """Returns the rollout of this state's step, and starts the next one."""
    timer.wait_for(state)
    done = int(state.step)
    sampler_state = self._send(state)
    is_stale = done in self._futures
    if is_stale:
      future, thread_timer = self._futures.pop(done)
      rollout = future.result()
      timer.metrics.update(thread_timer.metrics)
    else:
      rollout = self._sample_rollout(sampler_state, timer)
    if not self._samples_anew(done + 1):
      # Samples the rollout of the next step from the present parameters.
      memory = learners.by_learner(rollout)[learners.POLICY].memory
      next_state = sampler_state.replace(
        step=sampler_state.step + 1,
        carried=sampler_state.carried.replace(memory=memory),
      )
      next_timer = StepTimer()
      future = self._thread.submit(self._sample_rollout, next_state, next_timer)
      self._futures[done + 1] = future, next_timer
    timer.metrics["rollout/staleness"] = float(is_stale)  # in training steps
    return jax.device_put(rollout, self._e.rollout_shardings(rollout))

  def _samples_anew(self, done: int) -> bool:
    """Returns whether the rollout after `done` steps is not sampled ahead."""
    config = self._e.config
    is_saved = config.checkpoint_every and done % config.checkpoint_every == 0
    # This is so after a checkpoint, and at the end of the run.
    return done >= config.steps or bool(is_saved)
