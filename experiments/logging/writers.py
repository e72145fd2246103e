"""The places a run's numbers go to; `experiments.logging.run_logger` feeds them.

A sink takes `write(step, metrics)` with host numbers (floats, or arrays) and
`close()`. Those in `SINKS` are chosen by name; they also take `samples(step,
records)`, completions for a person to read.
"""

from __future__ import annotations

import hashlib
import importlib
import json
import math
import re
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import rich.console
import rich.progress
from etils import epath

from experiments.logging import json_files
from models import storage_paths
from rl import choices

METRICS_FILE = "metrics.jsonl"
# What a person watches, and what it is called on a line.
SHOWN = {
  "loss/total": "loss",
  "reward/mean": "reward",
  "accuracy/pass@1": "pass@1",
  "policy/entropy": "entropy",
  "length/mean": "length",
  "perf/tokens_per_s": "tok/s",
}

# TensorBoard's first page: what belongs into one chart.
LAYOUT = {
  "result": {
    "pass@k of samples": ["Multiline", [r"^accuracy/pass@\d+$"]],
    "reward": ["Multiline", [r"^reward/(mean|std)$", r"^reward/max@\d+$"]],
    "held out": ["Multiline", [r"^evaluation/accuracy/pass@\d+$"]],
  },
  "is it healthy": {
    "entropy": ["Multiline", [r"^policy/entropy$"]],
    "gradient, skipped": [
      "Multiline",
      [r"^optim/grad_norm$", r"^optim/skipped$"],
    ],
    "sampler against trainer": ["Multiline", [r"^policy/(sampler|ratio)"]],
    "KL": ["Multiline", [r"^policy/kl", r"^kl"]],
    "length": ["Multiline", [r"^length/(mean|max)$"]],
    "cut off": ["Multiline", [r"^length/truncated_frac$"]],
  },
  "does it learn": {
    "groups without signal": ["Multiline", [r"^group/zero_variance_frac$"]],
    "advantages": ["Multiline", [r"^advantage/(mean|std|abs_mean)$"]],
    "parts of the score": ["Multiline", [r"^score/.*/mean$"]],
  },
  "speed": {
    "tokens a second": ["Multiline", [r"^perf/tokens_per_s$"]],
    "seconds": ["Multiline", [r"^time/"]],
  },
}
_PASS = re.compile(r"accuracy/pass@\d+$")
READ = 3  # samples of the best and of the worst that are shown

Value = float | np.ndarray


class Sink(Protocol):
  """A place that takes numbers."""

  def write(self, step: int, metrics: Mapping[str, Value]) -> None: ...

  def close(self) -> None: ...


class JsonLines:
  """`metrics.jsonl`; a resumed run goes on where its checkpoint was taken."""

  def __init__(self, workdir: epath.Path, resume_step: int) -> None:
    path = workdir / METRICS_FILE
    # What is evaluated at a checkpoint is logged after it, again when resumed.
    kept = [
      record
      for record in json_files.read(path)
      if record["step"] < resume_step
      or (
        record["step"] == resume_step
        and not any(name.startswith("evaluation/") for name in record)
      )
    ]
    self._file = json_files.grow(path, kept)

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    self._file.add({"step": step, **metrics})

  def flush(self) -> None:
    self._file.flush()

  def close(self) -> None:
    self._file.close()


class _EventObject:
  """An event file in a bucket, where tensorboardX's own way needs more packages.

  It is written anew at every flush, which tensorboardX asks for every two
  minutes and at the end.
  """

  def __init__(self, path: str) -> None:
    self._path, self._events = epath.Path(path), bytearray()

  def write(self, events: bytes) -> None:
    self._events += events

  def flush(self) -> None:
    json_files.replace(self._path, bytes(self._events))

  def close(self) -> None:
    self.flush()


class _EventObjects:
  """How tensorboardX makes them: it asks whoever is registered for a scheme."""

  open = _EventObject

  @staticmethod
  def directory_check(path: str) -> None:
    """Buckets have no folders to make."""


class TensorBoard:
  """`tensorboard/`; what was written beyond the resumed step is purged."""

  def __init__(
    self, workdir: epath.Path, resume_step: int, config: dict[str, Any]
  ) -> None:
    import tensorboardX  # and torch, where there is one
    from tensorboardX import record_writer

    if storage_paths.is_remote(workdir):
      scheme = str(workdir).partition(":")[0]
      record_writer.register_writer_factory(scheme, _EventObjects())
    self._writer = tensorboardX.SummaryWriter(
      str(workdir / "tensorboard"),
      purge_step=resume_step + 1,
      # Files are named by the second: two runs within one stay apart.
      filename_suffix=f".from_{resume_step:06d}",
    )
    if config:
      text = json.dumps(config, indent=2, default=str)
      self._writer.add_text("config", f"```\n{text}\n```", resume_step)

    self._writer.add_custom_scalars(LAYOUT)

  def samples(self, step: int, records: Sequence[Mapping[str, Any]]) -> None:
    text = "\n\n".join(
      f"**{record['score']:.3g}** `{record['prompt']}`\n\n"
      f"```\n{record['completion']}\n```"
      for record in telling(records)
    )
    self._writer.add_text("samples", text, step)

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    for name, value in metrics.items():
      if not np.isfinite(value).all():
        continue
      if np.ndim(value) == 0:
        self._writer.add_scalar(name, value, step)
      else:
        self._add_counts(name, np.ravel(value), step)

  def _add_counts(self, name: str, counts: np.ndarray, step: int) -> None:
    """An array is the share of each value 0, 1, 2, ..."""
    at = np.arange(len(counts))
    self._writer.add_histogram_raw(
      name,
      min=0.0,
      max=float(at[-1]),
      num=float(counts.sum()),
      sum=float((at * counts).sum()),
      sum_squares=float((at**2 * counts).sum()),
      bucket_limits=(at + 0.5).tolist(),
      bucket_counts=counts.tolist(),
      global_step=step,
    )

  def close(self) -> None:
    self._writer.close()


class WeightsAndBiases:
  """A W&B run whose identity is the workdir, so that resuming continues it."""

  def __init__(
    self, workdir: epath.Path, resume_step: int, config: dict[str, Any]
  ) -> None:
    del resume_step  # every point carries its step, the axis of all charts
    identity = str(storage_paths.absolute(workdir))
    self._run = importlib.import_module("wandb").init(
      project="extremum",
      name=workdir.name,
      id=hashlib.sha256(identity.encode()).hexdigest()[:16],
      resume="allow",
      # Its own files have to be local: of a bucket's run, where it likes.
      dir=None if storage_paths.is_remote(workdir) else str(workdir),
      config=config,
    )
    self._run.define_metric("*", step_metric="step")

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    values = {
      name: value if np.ndim(value) == 0 else value.tolist()
      for name, value in metrics.items()
    }
    self._run.log({"step": step, **values})

  def samples(self, step: int, records: Sequence[Mapping[str, Any]]) -> None:
    columns = ["score", "prompt", "completion"]
    rows = [[record[name] for name in columns] for record in telling(records)]
    table = importlib.import_module("wandb").Table(columns=columns, data=rows)
    self._run.log({"step": step, "samples": table})

  def close(self) -> None:
    self._run.finish()


class ProgressLine:
  """One live line: bar, step, time left, the latest numbers."""

  def __init__(
    self, console: rich.console.Console, total_steps: int, resume_step: int
  ) -> None:
    self._latest: dict[str, Value] = {}
    self._progress = rich.progress.Progress(
      rich.progress.BarColumn(bar_width=24),
      rich.progress.MofNCompleteColumn(),
      rich.progress.TimeElapsedColumn(),
      rich.progress.TimeRemainingColumn(),
      rich.progress.TextColumn("{task.description}"),
      console=console,
    )
    self._task = self._progress.add_task(
      "", total=total_steps, completed=resume_step
    )
    self._progress.start()

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    self._latest.update(metrics)
    self._progress.update(
      self._task, completed=step, description=_summary(self._latest)
    )

  def close(self) -> None:
    self._progress.stop()


class PlainLines:
  """A line now and then, for logs that are read later."""

  def __init__(
    self, console: rich.console.Console, total_steps: int, seconds: float
  ) -> None:
    self._console = console
    self._total = total_steps
    self._seconds = seconds
    self._start = time.monotonic()
    self._last = -math.inf
    self._first: tuple[int, float] | None = None  # step and clock

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    summary = _summary(metrics)
    now = time.monotonic()
    if self._first is None:
      self._first = step, now
    due = now - self._last >= self._seconds or step >= self._total
    if not summary or not due:
      return
    self._last = now
    begun, clock = self._first
    left = ""
    if step > begun and step < self._total:
      pace = (now - clock) / (step - begun)
      left = f", {pace * (self._total - step):.0f} s left"
    self._console.print(
      f"step {step}/{self._total}  {summary}  {now - self._start:.0f} s{left}",
      soft_wrap=True,
      highlight=False,
    )

  def close(self) -> None:
    pass


SINKS = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def get(name: str) -> Callable[..., Sink]:
  """What makes the sink of a name in `SINKS`.

  Raises:
    ValueError: there is none.
    ImportError: its package is not installed.
  """
  if name not in SINKS:
    raise ValueError(choices.unknown("sink", name, sorted(SINKS)))
  if name == "wandb":
    try:
      importlib.import_module("wandb")
    except ImportError as error:
      raise ImportError(
        "sink 'wandb' needs a package that is not installed: pip install wandb"
      ) from error
  return SINKS[name]


def telling(
  records: Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
  """The best and the worst paid samples, one of a prompt each."""
  ordered = sorted(records, key=lambda record: -record["score"])
  best = list({r["prompt"]: r for r in reversed(ordered)}.values())[::-1]
  worst = list({r["prompt"]: r for r in ordered}.values())[::-1]
  return best[:READ] + worst[:READ]


def _summary(metrics: Mapping[str, Value]) -> str:
  shown = dict(SHOWN)
  k = max((int(n[14:]) for n in metrics if _PASS.match(n)), default=1)
  if k > 1:
    shown[f"accuracy/pass@{k}"] = f"pass@{k}"
  return "  ".join(
    f"{short} {metrics[name]:.4g}"
    for name, short in shown.items()
    if name in metrics
  )
