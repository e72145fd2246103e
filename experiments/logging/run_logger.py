"""Where a run's numbers go: a file, TensorBoard, a line on the terminal.

  with Logger(workdir, total_steps, resume_step=20) as logger:
    logger.log(step, jax.device_get(metrics))

`step` counts finished updates: 0 is the base policy. `metrics.jsonl` is always
written, one JSON object a line: "step" and flat names whose values are numbers,
or lists for arrays (see `experiments.logging.json_files`); in a bucket it may lag behind
until `flush`. Only process 0 writes.
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
  """Sends host numbers to every sink of a run.

  Args:
    workdir: of the run, local or in a bucket.
    total_steps: at which the run ends.
    sinks: names in `sinks.SINKS`, beside the file and the line on the terminal.
    resume_step: updates already done; what the files say of later ones is of an
      interrupted run and is dropped.
    config: JSON values that describe the run, for the sinks that keep them.
    console: where lines go; a terminal gets one live progress line.
    seconds_between_lines: elsewhere, the least time from one line to the next.

  Raises:
    ValueError: unknown sink.
    ImportError: a sink's package is not installed.
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
    makers = [writers.get(name) for name in sinks]
    self._workdir = epath.Path(workdir)
    self._console = console or rich.console.Console()
    self._sinks: list[writers.Sink] = []
    self._file: writers.JsonLines | None = None
    if jax.process_index() != 0:
      return
    workdir = epath.Path(workdir)
    workdir.mkdir(parents=True, exist_ok=True)
    self._file = writers.JsonLines(workdir, resume_step)
    self._sinks.append(self._file)
    for make in makers:
      self._sinks.append(make(workdir, resume_step, dict(config or {})))
    if self._console.is_terminal:
      line = writers.ProgressLine(self._console, total_steps, resume_step)
    else:
      line = writers.PlainLines(
        self._console, total_steps, seconds_between_lines
      )
    self._sinks.append(line)

  def log(self, step: int, metrics: Mapping[str, Any]) -> None:
    """Writes the metrics of one step.

    Args:
      step: finished updates.
      metrics: `{name: number or array}` on the host; a step may be logged in
        several parts.

    Raises:
      TypeError: a value is still on the device (reading it here would stall the
        next step), or is no number.
    """
    values = {name: _host(name, value) for name, value in metrics.items()}
    for sink in self._sinks:
      sink.write(int(step), values)

  def samples(self, step: int, records: Sequence[Mapping[str, Any]]) -> None:
    """Writes the samples of a step: all to a file, some to every sink.

    Args:
      step: finished updates when they were sampled.
      records: as of `write_rollouts`.
    """
    write_rollouts(self._workdir, step, records)
    for sink in self._sinks:
      if hasattr(sink, "samples"):
        sink.samples(int(step), records)

  def say(self, *renderables: Any) -> None:
    """Prints lines or tables, above the progress line where there is one."""
    if self._sinks:
      self._console.print(
        *renderables, markup=False, highlight=False, soft_wrap=True
      )

  def flush(self) -> None:
    """Returns when all that was logged is in `metrics.jsonl`.

    Before a checkpoint: the run that goes on from it must find what led there.
    """
    if self._file:
      self._file.flush()

  def close(self) -> None:
    """Flushes and closes every sink."""
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
  """Reads `metrics.jsonl` as one series per metric.

  Args:
    workdir: of a run; one that logged nothing has no series.

  Returns:
    `{name: (steps [n] int64, values [n] or [n, ...] float64)}`.
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
  """Writes samples for a person to read: `rollouts/step_000020.jsonl`.

  Args:
    workdir: of the run.
    step: finished updates when they were sampled.
    records: one per sample, with "prompt" and "completion" (text), "score",
      "correct" (1, 0 or -1 unknown) and "advantages" (one per token).
  """
  if jax.process_index() != 0:
    return
  path = epath.Path(workdir) / "rollouts" / f"step_{step:06d}.jsonl"
  json_files.write(path, records)


def _host(name: str, value: Any) -> writers.Value:
  if isinstance(value, jax.Array):
    raise TypeError(
      f"metric {name!r} is still on the device; fetch it one step late with "
      "jax.device_get"
    )
  array = np.asarray(value)
  if array.dtype.kind not in "fiub" and array.dtype.name != "bfloat16":
    raise TypeError(f"metric {name!r} is no number: {value!r}")
  array = array.astype(np.float64)
  return float(array) if array.ndim == 0 else array
