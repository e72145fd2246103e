"""Logs the metrics and times of training steps, one dispatch late.

  buffer = MetricBuffer(e, logger, guard, state)
  while ...:
    buffer.note_end()
    state, metrics, times = run_dispatch(state)
    buffer.flush(times.get(rollouts.STATE_READY))  # logs the previous dispatch
    buffer.add(done, metrics, times, state)

The host fetches the results of one dispatch while the device runs the next one,
so that the device never waits for it. A line of `metrics.jsonl` holds the times
of its own step:

  time/step_s        from the end of the previous step to the end of this one. A
                     step ends when the host sees that its update has finished.
                     A dispatch of several steps is divided equally.
  time/rollout_s     sampling, if the host waits for it (it does not wait
                     between programs that run one after the other on the
                     device). With `sampler.ahead` it overlaps with the previous
                     step.
  time/score_s       scoring on the host
  time/update_s      from the finished rollout to the end of the step; logged
                     if time/rollout_s is
  time/checkpoint_s  saving after the previous step
  time/evaluation_s  evaluation before this step
  time/samples_s     the sample dump before this step

The last three are not part of time/step_s. Together with it they add up to the
wall time of the loop from its start to the end of its last step, if every step
is logged. With `log_every` > 1 a line holds the time of its own step, and the
last three since the previous line.
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

# Prefixes of the metrics that a supervised run logs. Its demonstrations have no
# reward and no sampler.
_SUPERVISED_METRICS = ("loss/", "policy/entropy", "optim/", "length/")
Times = dict[str, float]


class _Dispatch(NamedTuple):
  """A dispatch whose metrics have not been fetched; see `MetricBuffer.add`."""

  done: int
  metrics: step.Metrics
  times: Times
  update_counts: dict[str, jax.Array]


class MetricBuffer:
  """Keeps the metrics of the newest dispatch while the device computes them.

  Args:
    e: the experiment.
    logger: logger that gets the metrics of a step.
    guard: NaN guard that checks the metrics of every step.
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
    # Updates of each learner that were not skipped, up to the latest log line.
    self._update_counts = _to_ints(_copy_update_counts(state))
    self._newest: _Dispatch | None = None
    self._newest_end: float | None = None  # when it was seen to have ended
    self._previous_end = time.perf_counter()
    # Seconds of work between steps, until the next line is logged.
    self._between: Times = {}

  @contextlib.contextmanager
  def between_steps(self, name: str) -> Iterator[None]:
    """Measures work that belongs to no step; flushes before it.

    Args:
      name: metric of the seconds, logged with the next step.
    """
    self.flush()
    yield
    now = time.perf_counter()
    seconds = now - self._previous_end
    self._between[name] = self._between.get(name, 0.0) + seconds
    self._previous_end = now

  def add(
    self, done: int, metrics: step.Metrics, times: Times, state: step.State
  ) -> None:
    """Adds the results of a dispatch, which stay here until `flush`.

    Args:
      done: finished steps, those of the dispatch included.
      metrics: metrics of its steps, on the device. If the dispatch made several
        steps, the metrics have a step axis.
      times: seconds measured on the host, and the moments that
        `experiments.training.rollouts` defines.
      state: the state after it; it may be donated as soon as this returns.
    """
    self._newest = _Dispatch(done, metrics, times, _copy_update_counts(state))
    self._newest_end = None

  def note_end(self) -> None:
    """Notes the time if the newest dispatch has ended; does not wait.

    Called before the next dispatch, which may run in the host's thread (as
    short programs do on CPU) and so delay `flush`.
    """
    if self._newest is None or self._newest_end is not None:
      return
    # All outputs of a program are ready at once, so one of them is enough.
    if next(iter(self._newest.metrics.values())).is_ready():
      self._newest_end = time.perf_counter()

  def flush(self, state_ready: float | None = None) -> None:
    """Waits for the newest dispatch, and logs and checks its steps.

    Args:
      state_ready: moment at which the next dispatch saw that this one had
        ended, if it waited for that.

    Raises:
      Stopped: a score is not finite.
    """
    if self._newest is None:
      return
    done, metrics, times, update_counts = self._newest
    self._newest = None
    metrics, update_counts = jax.device_get(metrics), _to_ints(update_counts)
    # The earliest moment at which the end of this dispatch was seen.
    moments = (self._newest_end, state_ready, time.perf_counter())
    end = min(moment for moment in moments if moment is not None)
    size = self._e.config.steps_per_dispatch
    times = self._to_seconds(times, end, size)
    self._previous_end = end
    for i in range(size):
      number = done - size + 1 + i
      row = {k: v[i] for k, v in metrics.items()} if size > 1 else metrics
      if self._is_logged(number):
        self._logger.log(number, self._to_log_line(row, times | self._between))
        self._between = {}
      for name in self._update_counts:
        skipped = row[f"{learners.prefix(name)}optim/skipped"]
        updates = self._updates_per_step(name)
        self._update_counts[name] += updates - round(float(skipped))
      fault = self._guard.check(row)
      if fault:
        raise nan_guard.Stopped(number, fault)
    # The optimizers' own counts also have the updates that follow the loss in
    # some methods.
    self._update_counts = update_counts

  def _to_seconds(self, times: Times, end: float, size: int) -> Times:
    """Seconds of each of the `size` steps of a dispatch that ended at `end`."""
    moments = (rollouts.STATE_READY, rollouts.ROLLOUT_READY)
    seconds = {k: v for k, v in times.items() if k not in moments}
    # Otherwise the rollout may not have been finished at ROLLOUT_READY.
    if "time/rollout_s" in times:
      seconds["time/update_s"] = end - times[rollouts.ROLLOUT_READY]
    return {**seconds, "time/step_s": (end - self._previous_end) / size}

  def _is_logged(self, number: int) -> bool:
    config = self._e.config
    return number % config.log_every == 0 or number == config.steps

  def _updates_per_step(self, name: str) -> int:
    plan = self._e.plan
    return (plan if name == learners.POLICY else plan.single).updates

  def _to_log_line(
    self, metrics: dict[str, Any], times: Times
  ) -> dict[str, Any]:
    """Adds times and learning rates, which only the host knows."""
    e = self._e
    sampled_tokens = float(metrics["cost/sampled_tokens"])
    if not e.is_rl:
      metrics = {
        k: v for k, v in metrics.items() if k.startswith(_SUPERVISED_METRICS)
      }
    learning_rates = {}
    for name, schedule in e.schedules.items():
      steps = self._update_counts[name] // self._updates_per_step(name)
      learning_rates[f"{learners.prefix(name)}optim/lr"] = float(
        schedule(steps)
      )
    return {
      **metrics,
      **times,
      **learning_rates,
      "perf/tokens_per_s": sampled_tokens / times["time/step_s"],
    }


def _copy_update_counts(state: step.State) -> dict[str, jax.Array]:
  """Copies the number of updates of each learner from its optimizer's state.

  Skipped updates do not count. These are copies because the state may be
  donated to the next dispatch.
  """
  opt_states = {learners.POLICY: state.opt_state}
  for name, learner in state.learners.items():
    opt_states[name] = learner.opt_state
  return {
    name: jnp.copy(optax.tree.get_all_with_path(opt_state, "count")[0][1])
    for name, opt_state in opt_states.items()
  }


def _to_ints(counts: dict[str, jax.Array]) -> dict[str, int]:
  return {name: int(count) for name, count in counts.items()}
