"""Writes the metrics of a run to a file, to TensorBoard and to the terminal.

  with Logger(workdir, total_steps, resume_step=20) as logger:
    logger.log(step, jax.device_get(metrics))

`step` is the number of finished training steps; 0 is the policy before
training. `metrics.jsonl` is always written. Each line of it is a JSON object
with "step" and metric names such as "loss/total", whose values are numbers, or
lists for arrays. A file in a bucket may lack the latest lines until `flush` is
called. Only process 0 writes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import rich.console
from etils import epath

from experiments.logging import json_files, writers


class Logger:
  """Sends the metrics of a run to its writers.

  The writers are `metrics.jsonl`, the console, and the chosen sinks.

  Args:
    workdir: folder of the run, local or in a bucket.
    total_steps: number of training steps of the run.
    sinks: names in `writers.SINKS` of further writers.
    resume_step: number of finished training steps of a resumed run, else 0.
      Later steps, which an interrupted run logged after its last checkpoint,
      are removed from the files.
    config: JSON values that describe the run, stored by the sinks.
    console: console to print to. A terminal shows one line that is updated;
      another console gets new lines.
    seconds_between_lines: shortest time between two lines on a console that is
      no terminal.

  Raises:
    UsageError: a name in `sinks` is unknown; or the package that a sink needs
      is not installed.
  """

  def __init__(
    self,
    workdir: epath.PathLike,
    total_steps: int,
    *,
    sinks: Sequence[str] = ("tensorboard",),
    resume_step: int = 0,
    config: Mapping[str, Any] | None = None,
    console: rich.console.Console | None = None,
    seconds_between_lines: float = 10.0,
  ) -> None:
    sink_classes = [writers.get(name) for name in sinks]
    self._workdir = epath.Path(workdir)
    self._console = console or rich.console.Console()
    self._sinks: list[writers.Sink] = []
    self._printed: set[str] = set()  # lines of `print_once`
    self._file: writers.JsonLines | None = None
    if jax.process_index() != 0:
      return
    workdir = epath.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    self._file = writers.JsonLines(workdir, resume_step)
    self._sinks.append(self._file)
    for sink_class in sink_classes:
      sink = sink_class(workdir, resume_step, dict(config or {}))
      self._sinks.append(sink)
    if self._console.is_terminal:
      line = writers.ProgressLine(self._console, total_steps, resume_step)
    else:
      line = writers.PlainLines(
        self._console, total_steps, seconds_between_lines
      )
    self._sinks.append(line)

  def log(self, step: int, metrics: Mapping[str, Any]) -> None:
    """Writes metrics of one step.

    Args:
      step: number of finished training steps.
      metrics: `{name: number or numpy array}`. Several calls may log different
        metrics of one step.

    Raises:
      TypeError: a value is a `jax.Array`, or is not numeric. Arrays on a device
        are refused because reading them would wait for the current step.
    """
    values = {name: _to_float64(name, value) for name, value in metrics.items()}
    for sink in self._sinks:
      sink.write(int(step), values)

  def write_samples(
    self, step: int, records: Sequence[Mapping[str, Any]]
  ) -> None:
    """Writes all samples of a step to a file, and a few of them to the sinks.

    Args:
      step: number of finished training steps when the samples were drawn.
      records: same as in `write_rollouts`.
    """
    write_rollouts(self._workdir, step, records)
    for sink in self._sinks:
      if hasattr(sink, "write_samples"):
        sink.write_samples(int(step), records)

  def print(self, *renderables: Any) -> None:
    """Prints lines or tables, above the progress line if there is one."""
    if jax.process_index() == 0:
      self._console.print(
        *renderables, markup=False, highlight=False, soft_wrap=True
      )

  def print_once(self, where: str, line: str) -> None:
    """Prints "WHERE: LINE", unless the line was printed for another place."""
    if line not in self._printed:
      self.print(f"{where}: {line}")
    self._printed.add(line)

  def flush(self) -> None:
    """Writes all metrics that were logged so far to `metrics.jsonl`.

    The training loop calls it before it saves a checkpoint, so that a run that
    resumes from the checkpoint has the metrics of all steps up to it.
    """
    if self._file:
      self._file.flush()

  def close(self) -> None:
    """Flushes and closes every writer."""
    for sink in reversed(self._sinks):
      sink.close()
    self._sinks, self._file = [], None

  def __enter__(self) -> Logger:
    return self

  def __exit__(self, *_: object) -> None:
    self.close()


def read_metrics(
  workdir: epath.PathLike,
) -> dict[str, tuple[np.ndarray, np.ndarray]]:
  """Reads `metrics.jsonl`.

  Args:
    workdir: folder of a run. The result is {} if the run has logged nothing.

  Returns:
    `{name: (steps [n] int64, values [n, ...] float64)}` for each metric, where
    n is the number of steps at which it was logged.
  """
  series: dict[str, tuple[list[int], list[Any]]] = {}
  for record in json_files.read(epath.Path(workdir) / writers.METRICS_FILE):
    step = record.pop("step")
    for name, value in record.items():
      steps, values = series.setdefault(name, ([], []))
      steps.append(step)
      values.append(np.asarray(value, np.float64))
  return {
    name: (np.asarray(steps), np.stack(values))
    for name, (steps, values) in series.items()
  }


def write_rollouts(
  workdir: epath.PathLike, step: int, records: Iterable[Mapping[str, Any]]
) -> None:
  """Writes the sample dump of a step: `rollouts/step_000020.jsonl`.

  Args:
    workdir: folder of the run.
    step: number of finished training steps when the samples were drawn.
    records: one record per sample, with the keys that are described in
      `sample_dump.make_recorder`.
  """
  if jax.process_index() != 0:
    return
  path = epath.Path(workdir) / "rollouts" / f"step_{step:06d}.jsonl"
  json_files.write(path, records)


def _to_float64(name: str, value: Any) -> writers.Value:
  """Converts a metric to a float or a float64 array; `name` is for errors."""
  if isinstance(value, jax.Array):
    raise TypeError(
      f"metric {name!r} is an array on a device; call jax.device_get on it "
      "after the next step has been dispatched"
    )
  array = np.asarray(value)
  # Kinds: float, signed integer, unsigned integer, bool.
  if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
    raise TypeError(f"metric {name!r} is not a number: {value!r}")
  array = array.astype(np.float64)
  return float(array) if array.ndim == 0 else array
