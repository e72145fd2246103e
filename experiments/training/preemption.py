"""A machine that is taken away: SIGTERM, a state that is saved, status 143.

One process notes the signal and asks between two dispatches, or two batches of
an evaluation. Of several JAX tells all of them the same step, whichever was
told, so that all save the same.
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
  """The run was told to end; what it had done is saved."""


class Watch(contextlib.AbstractContextManager):
  """Notes SIGTERM while it is open."""

  # JAX's own count is of the process, so a second watch counts on.
  _asked = itertools.count(1)

  def __init__(self) -> None:
    self._told = False
    self._before = signal.SIG_DFL

  def __enter__(self) -> Watch:
    if _alone():
      self._before = signal.signal(signal.SIGTERM, self._note)
    return self

  def __exit__(self, *_: object) -> None:
    if _alone():
      signal.signal(signal.SIGTERM, self._before)

  def _note(self, number: int, frame: FrameType | None) -> None:
    del number, frame
    self._told = True

  def check(self) -> None:
    """To be called where the state is whole, as often in every process.

    Raises:
      Preempted: a signal has come.
    """
    told = self._told
    if jax.process_count() > 1:
      asked = next(self._asked)
      told = multihost_utils.reached_preemption_sync_point(asked)
    if told:
      raise Preempted


def _alone() -> bool:
  """Whether Python may take the signal: JAX has it where it coordinates."""
  main = threading.current_thread() is threading.main_thread()
  return main and jax.process_count() == 1
