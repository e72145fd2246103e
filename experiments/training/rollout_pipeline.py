"""Sampling on a mesh of its own, and one step ahead of training.

`config.sampler` may lay the sampler's parameters out in its own way (whole on
each device, say, where training splits them), or give it devices of its own.
There, with `ahead` = 1, it samples for the next step while this one is trained,
from parameters that are one update old: `rollout/staleness` is logged, and
`sampler.truncation` weighs tokens to make up for it (`rl.losses.importance`).
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


def moved(e: Experiment, gather: HostRolloutFn) -> HostRolloutFn:
  """`gather` of the training state, where it samples on another mesh.

  Parameters go there before and the rollout comes back after, from device to
  device.

  Args:
    e: the experiment.
    gather: samples on `e.sampling_mesh`.
  """
  if e.sampling_mesh == e.mesh:
    return gather
  send = _sender(e)

  def collect(state: step.State) -> tuple[step.Rollouts, Times]:
    rollout, times = gather(send(state))
    return jax.device_put(rollout, e.rollout_shardings(rollout)), times

  return collect


def _sender(e: Experiment) -> Callable[[step.State], step.State]:
  """What sampling reads of a state, to where it is read; the frozen part once."""
  frozen = []

  def send(state: step.State) -> step.State:
    places = e.sampler_shardings
    if not frozen:
      frozen.append(jax.device_put(state.frozen, places.frozen))
    read = e.sampler_state(state).replace(frozen={})
    sent = jax.device_put(read, places.replace(frozen={}))
    return sent.replace(frozen=frozen[0])

  return send


class Ahead:
  """Rollouts that were sampled while the step before was trained.

  The first after a checkpoint is sampled from the parameters that were saved,
  with nothing to train beside it: a run that resumes there does the same. One
  that SIGTERM ended elsewhere does not: there too the first is sampled anew.

  Args:
    e: the experiment; its sampler has devices of its own.
    gather: samples on `e.sampling_mesh`.
  """

  def __init__(self, e: Experiment, gather: HostRolloutFn) -> None:
    self._e, self._gather, self._send = e, gather, _sender(e)
    self._thread = concurrent.futures.ThreadPoolExecutor(1)
    self._begun: dict[int, concurrent.futures.Future] = {}
    self._found: dict[int, tuple[step.Rollouts, Times]] = {}

  def __call__(self, state: step.State) -> tuple[step.Rollouts, Times]:
    """The rollout of this state's step; asked again, the same."""
    done = int(state.step)  # waits for the update of the step before
    ready = time.perf_counter()
    if done not in self._found:
      self._found = {done: self._next(state, done)}
    rollout, times = self._found[done]
    # The sampler's thread may have measured the same for the state before.
    return rollout, {**times, STATE_READY: ready}

  def _next(self, state: step.State, done: int) -> tuple[step.Rollouts, Times]:
    sent = self._send(state)
    begun = self._begun.pop(done, None)
    rollout, times = begun.result() if begun else self._gather(sent)
    if not self._pauses(done + 1):
      memory = learners.by_learner(rollout)[learners.POLICY].memory
      following = sent.replace(step=sent.step + 1, memory=memory)
      self._begun[done + 1] = self._thread.submit(self._gather, following)
    rollout = jax.device_put(rollout, self._e.rollout_shardings(rollout))
    return rollout, {**times, "rollout/staleness": float(begun is not None)}

  def _pauses(self, done: int) -> bool:
    """Whether nothing is sampled ahead for the step after `done` steps."""
    config = self._e.config
    saved = config.checkpoint_every and done % config.checkpoint_every == 0
    return done >= config.steps or bool(saved)
