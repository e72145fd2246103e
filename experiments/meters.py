"""What a training loop logs of its steps, without waiting for the newest one.

  meter = Meter(e, logger, guard, state)
  state, metrics, times = advance(state)
  meter.flush()                             # of the dispatch before
  meter.hold(done, metrics, times, state)

Metrics are fetched one dispatch late: the host reads what one dispatch made
while the device is busy with the next.
"""

from __future__ import annotations

import time
from typing import Any

import jax
import jax.numpy as jnp
import optax

from experiments import guards, logging
from experiments.experiment import Experiment
from rl import learners, step

# What a supervised run logs: its demonstrations have no reward and no sampler.
_SUPERVISED = ("loss/", "policy/entropy", "optim/", "length/")
Times = dict[str, float]


class Meter:
  """Holds the metrics of the newest dispatch while it is still running.

  Args:
    e: the experiment.
    logger: takes what is due.
    guard: is shown every step.
    state: before the first of them.
  """

  def __init__(
    self,
    e: Experiment,
    logger: logging.Logger,
    guard: guards.Guard,
    state: step.State,
  ) -> None:
    self._e, self._logger, self._guard = e, logger, guard
    self._made = _counted(_updates_made(state))
    self._held: tuple[int, step.Metrics, Times, dict[str, Any]] | None = None
    self.restart()

  def restart(self) -> None:
    """Starts the clock anew: what went before was no training."""
    self._clock = time.perf_counter()

  def hold(
    self, done: int, metrics: step.Metrics, times: Times, state: step.State
  ) -> None:
    """Keeps what a dispatch will have found, until `flush`.

    Args:
      done: steps after it.
      metrics: of its steps, on the device; stacked where it made several.
      times: seconds of what the host did for it.
      state: after it; it may be donated as soon as this returns.
    """
    self._held = done, metrics, times, _updates_made(state)

  def flush(self) -> None:
    """Waits for the held dispatch, logs its steps and shows them the guard.

    Raises:
      Stopped: a score is not finite.
    """
    if self._held is None:
      return
    done, metrics, times, made = self._held
    self._held = None
    metrics, made = jax.device_get(metrics), _counted(made)
    now = time.perf_counter()
    size = self._e.config.steps_per_dispatch
    times = {**times, "time/step_s": (now - self._clock) / size}
    self._clock = now
    for i in range(size):
      number = done - size + 1 + i
      one = {k: v[i] for k, v in metrics.items()} if size > 1 else metrics
      if self._is_logged(number):
        self._logger.log(number, self._complete(one, times))
      for name in self._made:
        skipped = one[f"{learners.prefix(name)}optim/skipped"]
        self._made[name] += self._updates(name) - round(float(skipped))
      fault = self._guard.see(one)
      if fault:
        raise guards.Stopped(number, fault)
    self._made = made  # those of phases are among them

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
  """Of each learner, as its optimiser counts them: skipped ones are none.

  Copies: the state may be donated to the next step.
  """
  of = {learners.POLICY: state.opt_state}
  of |= {name: held.opt_state for name, held in state.learners.items()}
  return {
    name: jnp.copy(optax.tree.get_all_with_path(opt_state, "count")[0][1])
    for name, opt_state in of.items()
  }


def _counted(made: dict[str, jax.Array]) -> dict[str, int]:
  return {name: int(count) for name, count in made.items()}
