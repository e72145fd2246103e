"""A trace of a few steps: where a run's time goes, op by op.

It is written in the format of XProf; open the folder with TensorBoard (its
profile plugin), or the `*.trace.json.gz` in it with Perfetto.
"""

from __future__ import annotations

import jax
from etils import epath

FOLDER = "profile"
DISPATCHES = 3


class Trace:
  """Traces `DISPATCHES` dispatches, from the second on: the first compiles.

  Where there are fewer it traces those, and where there is one, nothing.

  Attributes:
    done: dispatches that are in the trace.
  """

  def __init__(self, workdir: epath.Path) -> None:
    self._folder = workdir / FOLDER
    self._number = 0
    self._running = False
    self.done = 0

  def before(self) -> None:
    """Of every dispatch; starts the trace when it is due."""
    if self._number == 1:
      jax.profiler.start_trace(str(self._folder))
      self._running = True

  def after(self, results: object) -> None:
    """Of every dispatch; waits for it while it is traced."""
    self._number += 1
    if not self._running:
      return
    jax.block_until_ready(results)
    self.done += 1
    if self.done == DISPATCHES:
      self.close()

  def close(self) -> None:
    """Ends a trace that is still going on, so that it is written."""
    if self._running:
      jax.profiler.stop_trace()
      self._running = False
