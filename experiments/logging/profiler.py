"""A profiler trace of a few dispatches: time by operation.

The trace is in the format of XProf. Open the folder with TensorBoard (its
profile plugin), or the file `*.trace.json.gz` in it with Perfetto.
"""

from __future__ import annotations

import jax
from etils import epath

FOLDER = "profile"
DISPATCHES = 3


class Trace:
  """Traces `DISPATCHES` dispatches, from the second on: the first one compiles.

  A shorter run traces what it has from the second dispatch on.

  Args:
    workdir: folder of the run.

  Attributes:
    num_traced: dispatches in the trace.
  """

  def __init__(self, workdir: epath.Path) -> None:
    self._folder = workdir / FOLDER
    self._num_dispatches = 0
    self._is_running = False
    self.num_traced = 0

  def start_dispatch(self) -> None:
    """Starts the trace if it is due; called before every dispatch."""
    if self._num_dispatches == 1:
      jax.profiler.start_trace(str(self._folder))
      self._is_running = True

  def end_dispatch(self, results: object) -> None:
    """Waits for a traced dispatch; called after every dispatch.

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
    """Ends and writes a trace that is still running."""
    if self._is_running:
      jax.profiler.stop_trace()
      self._is_running = False
