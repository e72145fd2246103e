"""Measures on the host where the time of one dispatch goes."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from typing import Any

import jax


class StepTimer:
  """Durations and moments of one dispatch of the training loop.

  Attributes:
    metrics: metrics that are measured on the host, by name: durations in
      seconds, such as "time/score_s", and "rollout/staleness".
    state_ready: moment (`time.perf_counter`) at which the host saw that the
      update of the previous step had ended; None if it did not wait for that.
    rollout_ready: moment at which the update was dispatched; None before.
  """

  def __init__(self) -> None:
    self.metrics: dict[str, float] = {}
    self.state_ready: float | None = None
    self.rollout_ready: float | None = None
    self._current: str | None = None  # metric of the innermost `measure`
    self._since = 0.0  # moment from which its time is not counted yet

  def wait_for(self, state: Any) -> None:
    """Waits until a state is computed, so that no duration includes the wait.

    Args:
      state: the training state before the step.
    """
    if self.state_ready is None:
      jax.block_until_ready(state)
      self.state_ready = time.perf_counter()

  @contextlib.contextmanager
  def measure(self, name: str) -> Iterator[None]:
    """Adds the time of a block to a metric.

    The time of a block inside of another one counts for the inner one alone.
    """
    outer, self._current = self._switch(), name
    try:
      yield
    finally:
      self._switch()
      self._current = outer

  def _switch(self) -> str | None:
    """Counts the time until now for the present metric; returns its name."""
    now = time.perf_counter()
    if self._current is not None:
      seconds = self.metrics.get(self._current, 0.0) + now - self._since
      self.metrics[self._current] = seconds
    self._since = now
    return self._current
