"""Metrics and times of training steps, logged without waiting for the newest.

  meter = Meter(e, logger, guard, state)
  meter.note_end()
  state, metrics, times = advance(state)
  meter.flush(times.get(collect.STATE_READY))  # logs the dispatch before
  meter.hold(done, metrics, times, state)

Metrics are fetched one dispatch late: the host reads the results of one
dispatch while the device is busy with the next. A line of `metrics.jsonl` holds
the times of its own step:

  time/step_s        from the end of the step before to the end of this one, where
                     a step ends when the host sees that its update has finished;
                     a dispatch of several steps is shared equally
  time/rollout_s     sampling, where the host waits for it (not in programs that
                     run one after the other on the device); with `sampler.ahead`
                     it overlaps with the step before
  time/score_s       scoring on the host
  time/update_s      from the finished rollout to the end of the step, logged with
                     time/rollout_s
  time/checkpoint_s  saving after the step before; time/evaluation_s and
                     time/samples_s: evaluation and the sample dump before this
                     step. None of them is part of time/step_s.

So time/step_s and the last three add up to the wall time of the loop from its
start to the end of its last step, if every step is logged. With `log_every` > 1
a line holds the time of its own step, and the last three since the line before.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from experiments.logging import run_logger
from experiments.training import nan_guard, rollouts
from experiments.training.experiment import Experiment
from rl import learners, step

# What a supervised run logs: its demonstrations have no reward and no sampler.
_SUPERVISED = ("loss/", "policy/entropy", "optim/", "length/")
Times = dict[str, float]


class _Pending(NamedTuple):
  """A dispatch whose metrics have not been fetched; see `Meter.hold`."""

  done: int
  metrics: step.Metrics
  times: Times
  updates_made: dict[str, jax.Array]


class Meter:
  """Holds the metrics of the newest dispatch while it is still running.

  Args:
    e: the experiment.
    logger: writes the metrics of a step.
    guard: checks the metrics of every step.
    state: the training state before the first step.
  """

  def __init__(
    self,
    e: Experiment,
    logger: run_logger.Logger,
    guard: nan_guard.Guard,
    state: step.State,
  ) -> None:
    self._e, self._logger, self._guard = e, logger, guard
    self._made = _counted(_updates_made(state))
    self._pending: _Pending | None = None
    self._end: float | None = None  # of the held dispatch, once it is known
    self._between: Times = {}  # seconds between steps, until a line is logged
    self._clock = time.perf_counter()  # end of the dispatch before

  @contextlib.contextmanager
  def between_steps(self, name: str) -> Iterator[None]:
    """Measures work that belongs to no step; flushes before it.

    Args:
      name: metric of its seconds, logged with the next step.
    """
    self.flush()
    yield
    now = time.perf_counter()
    self._between[name] = self._between.get(name, 0.0) + now - self._clock
    self._clock = now

  def hold(
    self, done: int, metrics: step.Metrics, times: Times, state: step.State
  ) -> None:
    """Keeps the results of a dispatch until `flush`.

    Args:
      done: steps after it.
      metrics: metrics of its steps, on the device; stacked where it made
        several.
      times: seconds that the host measured, and the moments of
        `experiments.training.rollouts`.
      state: after it; it may be donated as soon as this returns.
    """
    self._pending = _Pending(done, metrics, times, _updates_made(state))
    self._end = None

  def note_end(self) -> None:
    """Notes the end of the held dispatch if it has ended; does not wait.

    Called before the next dispatch, which may run in the host's thread (as
    short programs do on CPU) and so delay `flush`.
    """
    if self._pending is None or self._end is not None:
      return
    # All outputs of a program are ready at once, so one of them is enough.
    if next(iter(self._pending.metrics.values())).is_ready():
      self._end = time.perf_counter()

  def flush(self, state_ready: float | None = None) -> None:
    """Waits for the held dispatch, logs its steps and shows them to the guard.

    Args:
      state_ready: moment at which the next dispatch saw that the held one had
        ended, if it waited for that.

    Raises:
      Stopped: a score is not finite.
    """
    if self._pending is None:
      return
    done, metrics, times, updates_made = self._pending
    self._pending = None
    metrics, updates_made = jax.device_get(metrics), _counted(updates_made)
    # The earliest moment at which the end of this dispatch was seen.
    moments = (self._end, state_ready, time.perf_counter())
    end = min(moment for moment in moments if moment is not None)
    size = self._e.config.steps_per_dispatch
    times = self._durations(times, end, size)
    self._clock = end
    for i in range(size):
      number = done - size + 1 + i
      one = {k: v[i] for k, v in metrics.items()} if size > 1 else metrics
      if self._is_logged(number):
        self._logger.log(number, self._complete(one, times | self._between))
        self._between = {}
      for name in self._made:
        skipped = one[f"{learners.prefix(name)}optim/skipped"]
        self._made[name] += self._updates(name) - round(float(skipped))
      fault = self._guard.see(one)
      if fault:
        raise nan_guard.Stopped(number, fault)
    self._made = updates_made  # includes the updates of phases

  def _durations(self, times: Times, end: float, size: int) -> Times:
    """Seconds of each of the `size` steps of a dispatch that ended at `end`."""
    moments = (rollouts.STATE_READY, rollouts.ROLLOUT_READY)
    seconds = {k: v for k, v in times.items() if k not in moments}
    if "time/rollout_s" in times:  # else the rollout may not have been finished
      seconds["time/update_s"] = end - times[rollouts.ROLLOUT_READY]
    return {**seconds, "time/step_s": (end - self._clock) / size}

  def _is_logged(self, number: int) -> bool:
    config = self._e.config
    return number % config.log_every == 0 or number == config.steps

  def _updates(self, name: str) -> int:
    plan = self._e.plan
    return (plan if name == learners.POLICY else plan.single).updates

  def _complete(self, metrics: dict[str, Any], times: Times) -> dict[str, Any]:
    """Adds what only the host knows."""
    e = self._e
    sampled = float(metrics["cost/sampled_tokens"])
    if not e.samples_own:
      metrics = {k: v for k, v in metrics.items() if k.startswith(_SUPERVISED)}
    return {
      **metrics,
      **times,
      **{
        f"{learners.prefix(name)}optim/lr": float(
          schedule(self._made[name] // self._updates(name))
        )
        for name, schedule in e.schedules.items()
      },
      "perf/tokens_per_s": sampled / times["time/step_s"],
    }


def _updates_made(state: step.State) -> dict[str, jax.Array]:
  """Returns the updates of each learner, as its optimiser counts them.

  Skipped updates do not count. The counts are copies: the state may be donated to
  the next step.
  """
  of = {learners.POLICY: state.opt_state}
  of |= {name: held.opt_state for name, held in state.learners.items()}
  return {
    name: jnp.copy(optax.tree.get_all_with_path(opt_state, "count")[0][1])
    for name, opt_state in of.items()
  }


def _counted(made: dict[str, jax.Array]) -> dict[str, int]:
  return {name: int(count) for name, count in made.items()}
