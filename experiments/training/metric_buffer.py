"""Logs the metrics and times of training steps, one dispatch late.

A dispatch is `config.steps_per_dispatch` training steps. Use in the training
loop:

  buffer = MetricBuffer(e, logger, guard, state)
  while ...:
    buffer.note_end()
    state, metrics, timer, _ = run_dispatch(state)
    buffer.flush(timer.state_ready)  # logs the previous dispatch
    buffer.add(done, metrics, timer, state)

The host fetches the results of one dispatch while the device runs the next one,
so that the device does not wait for the host. A line of `metrics.jsonl` has the
times of its own step, in seconds:

  time/step_s        from the end of the previous step to the end of this one. A
                     step ends when the host sees that its update has finished.
                     A dispatch of several steps is divided equally.
  time/rollout_s     sampling, if the host waits for it (it does not wait
                     between programs that run one after the other on the
                     device). With `inference.ahead` it overlaps with the
                     previous step.
  time/score_s       scoring on the host
  time/update_s      from the finished rollout to the end of the step; logged
                     if time/rollout_s is
  time/checkpoint_s  saving after the previous step
  time/evaluation_s  evaluation before this step
  time/samples_s     the sample dump, before the update of this step
  time/start_s       from the start of the command to the end of the first step
                     that it makes; in one line per command

The three before time/start_s are not part of time/step_s. If every step is
logged, the sum of time/step_s and those three, over all lines, is the wall time
from the start of the loop to the end of its last step. With `log_every` > 1,
they are sums since the previous line.

`perf/mfu` is the model FLOPs utilisation of a step (Chowdhery et al. 2022): the
operations that sampling and the updates need at least (`models.flop_counts`),
divided by time/step_s and by the peak of the training devices, where the peak
is known.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import optax

from experiments.logging import run_logger
from experiments.training import nan_guard
from experiments.training.experiment import Experiment
from experiments.training.step_timer import StepTimer
from models import flop_counts
from rl import learners, step, training_state

# Prefixes of the metrics that a run logs which does not learn from samples. The
# texts of a file or a task have no reward and no sampler.
_METRICS_OF_TEXTS = (
  "loss/",
  "pairs/",
  "policy/entropy",
  "optim/",
  "length/",
  "perf/padding_frac/",
)
_COMMANDS = "experiments.run --debug or experiments.replay finds the operation"
Times = dict[str, float]


class _Dispatch(NamedTuple):
  """A dispatch whose metrics have not been fetched."""

  # These three are the arguments of `MetricBuffer.add`.
  done: int
  metrics: step.Metrics
  timer: StepTimer
  # Updates of each learner since step 0 that were not skipped.
  update_counts: dict[str, jax.Array]


class MetricBuffer:
  """Keeps the metrics of the newest dispatch while the device computes them.

  Args:
    e: the experiment.
    logger: logger to which the metrics of a step are written.
    guard: NaN guard that checks the metrics of every step.
    state: the training state before the first step.
    started: moment at which the command was started
      (`time.perf_counter`); None logs no time/start_s.
  """

  def __init__(
    self,
    e: Experiment,
    logger: run_logger.Logger,
    guard: nan_guard.Guard,
    state: training_state.State,
    started: float | None = None,
  ) -> None:
    self._started = started
    self._e, self._logger, self._guard = e, logger, guard
    self._schedules = {
      name: jax.jit(schedule) for name, schedule in e.schedules.items()
    }
    # Updates of each learner that were not skipped, up to the latest flush.
    self._update_counts = _to_ints(self._copy_update_counts(state))
    self._has_gradient = False  # in any step since this one
    # The dispatch that is not flushed, and the moment of its end if it is known
    # to have ended.
    self._newest: _Dispatch | None = None
    self._newest_end: float | None = None
    # End of the previous step, or of the work after it.
    self._previous_end = time.perf_counter()
    # Seconds of work between steps that no line has yet, by metric.
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
    self._add_between(name, now - self._previous_end)
    self._previous_end = now

  def _add_between(self, name: str, seconds: float) -> None:
    """Adds seconds that belong to no step to the next line of the log."""
    self._between[name] = self._between.get(name, 0.0) + seconds

  def add(
    self,
    done: int,
    metrics: step.Metrics,
    timer: StepTimer,
    state: training_state.State,
  ) -> None:
    """Adds the results of a dispatch, which stay here until `flush`.

    Args:
      done: finished steps, those of the dispatch included.
      metrics: metrics of its steps, on the device. If the dispatch made several
        steps, the metrics have a step axis.
      timer: its durations and moments, measured on the host.
      state: the state after the dispatch; it may be donated as soon as this
        function returns.
    """
    self._newest = _Dispatch(
      done, metrics, timer, self._copy_update_counts(state)
    )
    self._newest_end = None

  def note_end(self) -> None:
    """Stores the present moment if the newest dispatch has ended.

    It does not wait. Call it before the next dispatch, which may run in the
    host's thread (as short programs do on CPU) and so delay `flush`.
    """
    if self._newest is None or self._newest_end is not None:
      return
    # All outputs of a program are ready at once, so one of them is enough.
    if next(iter(self._newest.metrics.values())).is_ready():
      self._newest_end = time.perf_counter()

  def flush(self, state_ready: float | None = None) -> None:
    """Waits for the newest dispatch, and logs and checks its steps.

    Args:
      state_ready: moment at which the host saw, while it ran the next dispatch,
        that the newest one had ended; None if it did not wait for that.

    Raises:
      Stopped: a score of one of the steps is not finite.
    """
    if self._newest is None:
      return
    done, metrics, timer, update_counts = self._newest
    self._newest = None
    metrics, update_counts = jax.device_get(metrics), _to_ints(update_counts)
    # The earliest moment at which the end of this dispatch was seen.
    moments = (self._newest_end, state_ready, time.perf_counter())
    end = min(moment for moment in moments if moment is not None)
    num_steps = self._e.config.steps_per_dispatch
    times = self._to_durations(timer, end, num_steps)
    self._previous_end = end
    if self._started is not None:
      self._between["time/start_s"] = end - self._started
      self._logger.print(f"first step after {end - self._started:.1f} s")
      self._started = None
    for i in range(num_steps):
      step_number = done - num_steps + 1 + i  # counted from 1
      step_metrics = metrics
      if num_steps > 1:  # the metrics have a step axis
        step_metrics = {name: value[i] for name, value in metrics.items()}
      if self._is_logged(step_number):
        line = self._to_log_line(step_metrics, times | self._between)
        self._logger.log(step_number, line)
        self._between = {}
      for name in self._update_counts:
        skipped = step_metrics[f"{learners.prefix(name)}optim/skipped"]
        updates = self._updates_per_step(name)
        self._update_counts[name] += updates - round(float(skipped))
      self._print_notices(step_number, step_metrics)
      self._has_gradient |= bool(step_metrics["optim/grad_norm"] != 0)
      fault = self._guard.check(step_metrics)
      if fault:
        raise nan_guard.Stopped(step_number, fault)
    # The counts in the optimizers' states are exact: in some methods they
    # include further updates, made after those of the loss.
    self._update_counts = update_counts
    if done >= self._e.config.steps and not update_counts[learners.POLICY]:
      reason = nan_guard.skip_reason(step_metrics, self._e.plan)
      reason = reason or "no token was in the loss"
      self._logger.print(f"no step made an update; in the last one, {reason}")
    elif done >= self._e.config.steps and not self._has_gradient:
      self._logger.print(
        "no step changed the policy: the gradient was 0 in all of them. Where "
        "group/zero_variance_frac is 1, the scores of each group were equal"
      )

  def _print_notices(self, step: int, metrics: Mapping[str, Any]) -> None:
    """Prints once what is not finite, and that most samples are cut."""
    if reason := nan_guard.first_non_finite(metrics):
      self._logger.print_once(f"step {step}: {reason}", _COMMANDS)
    if metrics.get("verifier/unscored_frac", 0.0) > 0.5:
      line = "more than half of the samples have no score; see the warnings"
      self._logger.print_once(f"step {step}", line)
    has_score = 1 - metrics.get("verifier/unscored_frac", 0.0)
    if self._e.is_rl and metrics["length/truncated_frac"] * has_score > 0.5:
      self._logger.print_once(f"step {step}", self._e.task.advice_if_cut)

  def _to_durations(
    self, timer: StepTimer, end: float, num_steps: int
  ) -> Times:
    """Returns the metrics that were measured on the host, for one step."""
    # `timer` has the durations and moments of a dispatch of `num_steps` steps;
    # `end` is the moment at which the dispatch ended.
    durations = dict(timer.metrics)
    samples_seconds = durations.pop("time/samples_s", 0.0)
    if samples_seconds:
      self._add_between("time/samples_s", samples_seconds)
    # Without time/rollout_s the host did not wait for the rollout, which may
    # not have been finished when the update was dispatched.
    if "time/rollout_s" in durations:
      durations["time/update_s"] = end - timer.rollout_ready
    seconds = end - self._previous_end - samples_seconds
    durations["time/step_s"] = seconds / num_steps
    return durations

  def _is_logged(self, step_number: int) -> bool:
    config = self._e.config
    return step_number % config.log_every == 0 or step_number == config.steps

  def _updates_per_step(self, name: str) -> int:
    plan = self._e.plan
    return (plan if name == learners.POLICY else plan.single).updates

  def _to_log_line(
    self, metrics: dict[str, Any], times: Times
  ) -> dict[str, Any]:
    """Returns the metrics of a step, with times and learning rates."""
    # `metrics` are on the host; `times` are in seconds.
    sampled_tokens = float(metrics["cost/sampled_tokens"])
    if not self._e.is_rl:
      metrics = {
        metric: value
        for metric, value in metrics.items()
        if metric.startswith(_METRICS_OF_TEXTS)
      }
    if metrics.get("verifier/unscored_frac") == 1:  # no sample has a score
      parts = ("score/", "reward/mean", "reward/std", "reward/task")
      unknown = [name for name in metrics if name.startswith(parts)]
      metrics = metrics | dict.fromkeys(unknown, float("nan"))
    updates_per_step = {
      name: self._updates_per_step(name) for name in self._schedules
    }
    return {
      **metrics,
      **times,
      **learning_rates(self._schedules, self._update_counts, updates_per_step),
      "perf/tokens_per_s": sampled_tokens / times["time/step_s"],
      **self._utilisation(metrics, times),
    }

  def _utilisation(
    self, metrics: Mapping[str, Any], times: Times
  ) -> dict[str, float]:
    """Returns `perf/mfu`; {} for devices whose peak is not known."""
    devices, e = self._e.mesh.devices.ravel(), self._e
    peak = flop_counts.peak(devices[0].device_kind) * len(devices)
    if not peak or not e.is_rl:
      return {}
    # All completions count as if they had the mean length.
    shape = e.config.rollout.prompts, e.sampling.samples
    lengths = np.full(shape, float(metrics["length/mean"]))
    sizes = e.model, e.task.prompt_length, lengths
    flops = flop_counts.decode_cost(*sizes).flops
    flops += e.plan.epochs * flop_counts.update_cost(*sizes).flops
    return {"perf/mfu": flops / times["time/step_s"] / peak}

  def _copy_update_counts(
    self, state: training_state.State
  ) -> dict[str, jax.Array]:
    """Copies each learner's number of updates from its optimizer's state."""
    # Skipped updates do not count. The counts are copied because the state may
    # be donated to the next dispatch.
    return {
      name: jnp.copy(
        optax.tree.get_all_with_path(state.learners[name].opt_state, "count")[
          0
        ][1]
      )
      for name in self._schedules
    }


def learning_rates(
  schedules: Mapping[str, optax.Schedule],
  update_counts: Mapping[str, int],
  updates_per_step: Mapping[str, int],
) -> dict[str, float]:
  """Returns the learning rate of each learner after its updates, by metric.

  Args:
    schedules: functions of the number of training steps, by learner.
    update_counts: numbers of updates that each has made.
    updates_per_step: numbers of updates of a training step.
  """
  return {
    f"{learners.prefix(name)}optim/lr": float(
      schedule(update_counts[name] // updates_per_step[name])
    )
    for name, schedule in schedules.items()
  }


def _to_ints(counts: dict[str, jax.Array]) -> dict[str, int]:
  return {name: int(count) for name, count in counts.items()}
