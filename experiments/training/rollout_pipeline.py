"""Asynchronous rollouts: sampling on other devices, one step ahead of training.

`config.sampler` may give the sampler another mesh than training has (parameters
that training splits, but that every sampling device holds completely, say), or
devices of its own. On its own devices, with `ahead` = 1, it samples the rollout
of the next step while this step is trained. That rollout is sampled from
parameters that are one update old: `rollout/staleness` is logged, and
`sampler.truncation` weighs tokens to correct for it (`rl.losses.importance`).
"""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable

import jax

from experiments.training.experiment import Experiment
from experiments.training.rollouts import STATE_READY, HostRolloutFn
from rl import learners, step

Times = dict[str, float]


def on_sampling_mesh(
  e: Experiment, sample_rollout: HostRolloutFn
) -> HostRolloutFn:
  """Makes a rollout function of training states from one of sampler states.

  It sends the parameters to the sampling mesh and the rollout back, from device
  to device.

  Args:
    e: the experiment.
    sample_rollout: rollout function on `e.sampling_mesh`.

  Returns:
    `sample_rollout` itself if both meshes are the same.
  """
  if e.sampling_mesh == e.mesh:
    return sample_rollout
  send = _make_send(e)

  def rollout_fn(state: step.State) -> tuple[step.Rollouts, Times]:
    rollout, times = sample_rollout(send(state))
    return jax.device_put(rollout, e.rollout_shardings(rollout)), times

  return rollout_fn


def _make_send(e: Experiment) -> Callable[[step.State], step.State]:
  """Returns a function that copies the sampler's state to the sampling mesh.

  Frozen parameters are copied only once.
  """
  frozen = []

  def send(state: step.State) -> step.State:
    shardings = e.sampler_shardings
    if not frozen:
      frozen.append(jax.device_put(state.frozen, shardings.frozen))
    sampler_state = jax.device_put(
      e.sampler_state(state).replace(frozen={}), shardings.replace(frozen={})
    )
    return sampler_state.replace(frozen=frozen[0])

  return send


class AsynchronousSampler:
  """A rollout function that samples one step ahead, in a thread of its own.

  Nothing is sampled ahead across a checkpoint: the first rollout after it is
  sampled from the parameters that were saved, so a run that resumes from the
  checkpoint samples the same. A run that SIGTERM ended at another step does
  not, because its first rollout after the restart is not sampled ahead either.

  Args:
    e: the experiment; its sampler has devices of its own.
    sample_rollout: rollout function on `e.sampling_mesh`.
  """

  def __init__(self, e: Experiment, sample_rollout: HostRolloutFn) -> None:
    self._e, self._sample_rollout = e, sample_rollout
    self._send = _make_send(e)
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    # Both by the number of steps that are finished before the rollout's step.
    self._futures: dict[int, concurrent.futures.Future] = {}
    self._latest: dict[int, tuple[step.Rollouts, Times]] = {}

  def __call__(self, state: step.State) -> tuple[step.Rollouts, Times]:
    """Returns the rollout of this state's step, also if called again."""
    done = int(state.step)  # waits for the update of the previous step
    state_ready = time.perf_counter()
    if done not in self._latest:
      self._latest = {done: self._next_rollout(state, done)}
    rollout, times = self._latest[done]
    # The thread may have noted when the previous state was ready.
    return rollout, {**times, STATE_READY: state_ready}

  def _next_rollout(
    self, state: step.State, done: int
  ) -> tuple[step.Rollouts, Times]:
    sampler_state = self._send(state)
    future = self._futures.pop(done, None)
    if future is None:
      rollout, times = self._sample_rollout(sampler_state)
    else:
      rollout, times = future.result()
    if not self._stops_before(done + 1):
      # Samples for the next step with the present parameters.
      memory = learners.by_learner(rollout)[learners.POLICY].memory
      next_state = sampler_state.replace(
        step=sampler_state.step + 1, memory=memory
      )
      self._futures[done + 1] = self._thread.submit(
        self._sample_rollout, next_state
      )
    rollout = jax.device_put(rollout, self._e.rollout_shardings(rollout))
    staleness = float(future is not None)  # in updates
    return rollout, {**times, "rollout/staleness": staleness}

  def _stops_before(self, done: int) -> bool:
    """Returns whether the rollout after `done` steps is not sampled ahead."""
    config = self._e.config
    is_saved = config.checkpoint_every and done % config.checkpoint_every == 0
    return done >= config.steps or bool(is_saved)
