"""Writes a profiler trace of a few dispatches: the time of each operation.

A dispatch is one call of the compiled training loop, which makes one or more
training steps. The trace is in the format of XProf. Open the folder with
TensorBoard and its profile plugin, or the file `*.trace.json.gz` in the folder
with Perfetto.
"""

from __future__ import annotations

import jax
from etils import epath

FOLDER = "profile"  # in the workdir
DISPATCHES = 3  # largest number of dispatches in a trace


class Trace:
  """Traces the second dispatch and those after it, up to `DISPATCHES`.

  The first dispatch is left out because it includes compilation.

  Args:
    workdir: folder of the run.

  Attributes:
    num_traced: number of dispatches in the trace.
  """

  def __init__(self, workdir: epath.Path) -> None:
    self._folder = workdir / FOLDER
    self._num_dispatches = 0
    self._is_running = False
    self.num_traced = 0

  def start_dispatch(self) -> None:
    """Starts the trace before the second dispatch; call before each one."""
    if self._num_dispatches == 1:
      jax.profiler.start_trace(str(self._folder))
      self._is_running = True

  def end_dispatch(self, results: object) -> None:
    """Waits for the results of a traced dispatch; call after each dispatch.

    The last traced dispatch ends the trace.

    Args:
      results: arrays that the dispatch returned.
    """
    self._num_dispatches += 1
    if not self._is_running:
      return
    jax.block_until_ready(results)
    self.num_traced += 1
    if self.num_traced == DISPATCHES:
      self.close()

  def close(self) -> None:
    """Ends the trace and writes it, unless it has ended or never started."""
    if self._is_running:
      jax.profiler.stop_trace()
      self._is_running = False
