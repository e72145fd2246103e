"""Handles SIGTERM: the run saves its state and ends with exit status 143.

When SIGTERM arrives, the process stores that fact. The run checks it between
two dispatches, and between two batches of an evaluation. In a multihost run JAX
reports the signal to all processes at the same check, whichever process
received it, so that all of them save the same state.
"""

from __future__ import annotations

import contextlib
import itertools
import signal
import threading
from types import FrameType

import jax
from jax.experimental import multihost_utils

STATUS = 128 + signal.SIGTERM


class Preempted(Exception):
  """SIGTERM ended the run; its finished steps are saved."""


class Watch(contextlib.AbstractContextManager):
  """A context manager that handles SIGTERM while it is open."""

  # JAX needs an increasing number at each check of a process, so all watches
  # share one counter.
  _sync_points = itertools.count(1)

  def __init__(self) -> None:
    self._has_signal = False
    self._previous_handler = signal.SIG_DFL

  def __enter__(self) -> Watch:
    if _may_set_handler():
      self._previous_handler = signal.signal(signal.SIGTERM, self._handle)
    return self

  def __exit__(self, *_: object) -> None:
    if _may_set_handler():
      signal.signal(signal.SIGTERM, self._previous_handler)

  def _handle(self, number: int, frame: FrameType | None) -> None:
    del number, frame
    self._has_signal = True

  def check(self) -> None:
    """Raises an exception if SIGTERM has arrived.

    Call it where the state can be saved, equally often in every process.

    Raises:
      Preempted: SIGTERM has arrived.
    """
    has_signal = self._has_signal
    if jax.process_count() > 1:
      sync_point = next(self._sync_points)
      has_signal = multihost_utils.reached_preemption_sync_point(sync_point)
    if has_signal:
      raise Preempted


def _may_set_handler() -> bool:
  """Returns whether Python handles SIGTERM; in a multihost run JAX does."""
  is_main = threading.current_thread() is threading.main_thread()
  return is_main and jax.process_count() == 1
