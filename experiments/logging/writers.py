"""Writers of metrics: a file, TensorBoard, Weights & Biases, the terminal.

`experiments.logging.run_logger` calls them. A writer has the methods
`write(step, metrics)` and `close()`. `step` is the number of finished training
steps. The writers in `SINKS`, which `config.sinks` chooses, also have
`write_samples(step, records)`, where a record is one sample of the sample dump.
"""

from __future__ import annotations

import functools
import hashlib
import importlib
import json
import math
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

import numpy as np
import rich.console
import rich.progress
from etils import epath

from experiments.logging import json_files
from models import storage_paths
from rl import UsageError, registry

METRICS_FILE = "metrics.jsonl"
# Metrics that the terminal shows, with the short names that it shows.
TERMINAL_METRICS = {
  "loss/total": "loss",
  "reward/mean": "reward",
  "accuracy/pass@1": "pass@1",
  "policy/entropy": "entropy",
  "length/mean": "length",
  "perf/tokens_per_s": "tok/s",
  "perf/mfu": "MFU",
}

# Page "Custom Scalars" of TensorBoard: section -> chart -> its metrics.
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
    "KL": ["Multiline", [r"^policy/(ppo_)?kl", r"^kl"]],
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
_PASS_AT_K = re.compile(r"accuracy/pass@(\d+)$")
# Shortest time between two flushes of TensorBoard's event file.
SECONDS_BETWEEN_FLUSHES = 120.0
# Number of samples with the highest scores, and of samples with the lowest
# scores, that a writer shows.
SAMPLES_EACH = 3

Value = float | np.ndarray  # of a metric, on the host


class Sink(Protocol):
  """A writer of metrics."""

  def write(self, step: int, metrics: Mapping[str, Value]) -> None: ...

  def close(self) -> None: ...


class JsonLines:
  """Writes `metrics.jsonl`.

  Lines of steps after `resume_step`, which an interrupted run logged after its
  last checkpoint, are removed.
  """

  def __init__(self, workdir: epath.Path, resume_step: int) -> None:
    path = workdir / METRICS_FILE
    # An evaluation at `resume_step` itself is removed too: it is logged after
    # the checkpoint is saved, so the resumed run logs it again.
    records = [
      record
      for record in json_files.read(path)
      if record["step"] < resume_step
      or (
        record["step"] == resume_step
        and not any(name.startswith("evaluation/") for name in record)
      )
    ]
    is_remote = storage_paths.is_remote(path)
    kind = json_files.BucketFile if is_remote else json_files.LocalFile
    self._file = kind(path, records)

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    self._file.add({"step": step, **metrics})

  def flush(self) -> None:
    self._file.flush()

  def close(self) -> None:
    self._file.close()


class _BucketEventFile:
  """An event file of TensorBoard in a bucket.

  It replaces the one of tensorboardX, which needs more packages. Every flush
  uploads the whole file, because nothing can be appended in a bucket.
  """

  def __init__(self, path: str) -> None:
    self._path, self._events = epath.Path(path), bytearray()

  def write(self, events: bytes) -> None:
    self._events += events

  def flush(self) -> None:
    json_files.replace(self._path, bytes(self._events))

  def close(self) -> None:
    self.flush()


class _BucketEventFiles:
  """Factory of event files in buckets, with the interface of tensorboardX."""

  open = _BucketEventFile

  @staticmethod
  def directory_check(path: str) -> None:
    """Does nothing, because a bucket has no folders to create."""


def _write_in_calling_thread(event_writer: Any) -> None:
  """Makes an `EventFileWriter` of tensorboardX write in the calling thread."""
  # By default the writer has a thread of its own, which ends with an exception
  # when the disk is full; the run would then wait forever for that thread, and
  # not end with the error.
  # Ends that thread, after it has written the events that the constructor
  # queued.
  event_writer._worker.stop()
  next_flush = 0.0

  def add_event(event: Any) -> None:
    nonlocal next_flush
    event_writer._ev_writer.write_event(event)
    if time.monotonic() >= next_flush:
      event_writer.flush()
      next_flush = time.monotonic() + SECONDS_BETWEEN_FLUSHES

  event_writer.add_event = add_event


class TensorBoard:
  """Writes `tensorboard/`.

  TensorBoard then hides the events of steps after `resume_step` that an
  interrupted run wrote.
  """

  def __init__(
    self, workdir: epath.Path, resume_step: int, config: dict[str, Any]
  ) -> None:
    self._workdir, self._resume_step = workdir, resume_step
    self._config = config

  @functools.cached_property
  def _writer(self) -> Any:
    """The `SummaryWriter`, made at the first write and not before."""
    # To import tensorboardX takes seconds if PyTorch is installed. At the first
    # write the device is already computing the next step.
    import tensorboardX
    from tensorboardX import record_writer

    if storage_paths.is_remote(self._workdir):
      scheme = str(self._workdir).partition(":")[0]
      record_writer.register_writer_factory(scheme, _BucketEventFiles())
    writer = tensorboardX.SummaryWriter(
      str(self._workdir / "tensorboard"),
      purge_step=self._resume_step + 1,
      # tensorboardX puts the time in seconds into the file's name. The suffix
      # keeps a resumed run that starts within the same second apart.
      filename_suffix=f".from_{self._resume_step:06d}",
    )
    _write_in_calling_thread(writer.file_writer.event_writer)
    if self._config:
      text = json.dumps(self._config, indent=2, default=str)
      writer.add_text("config", f"```\n{text}\n```", self._resume_step)
    writer.add_custom_scalars(LAYOUT)
    return writer

  def write_samples(
    self, step: int, records: Sequence[Mapping[str, Any]]
  ) -> None:
    text = "\n\n".join(
      f"**{record['score']:.3g}** `{record['prompt']}`\n\n"
      f"```\n{record['completion']}\n```"
      for record in select_best_and_worst(records)
    )
    self._writer.add_text("samples", text, step)

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    for name, value in metrics.items():
      if not np.isfinite(value).all():
        continue  # TensorBoard cannot draw it; `metrics.jsonl` has the value
      if np.ndim(value) == 0:
        self._writer.add_scalar(name, value, step)
      else:
        self._add_histogram(name, np.ravel(value), step)

  def _add_histogram(self, name: str, counts: np.ndarray, step: int) -> None:
    """Adds an array as a histogram; entry i is the share of the value i."""
    values = np.arange(len(counts))
    self._writer.add_histogram_raw(
      name,
      min=0.0,
      max=float(values[-1]),
      num=float(counts.sum()),
      sum=float((values * counts).sum()),
      sum_squares=float((values**2 * counts).sum()),
      bucket_limits=(values + 0.5).tolist(),
      bucket_counts=counts.tolist(),
      global_step=step,
    )

  def close(self) -> None:
    self._writer.close()


class WeightsAndBiases:
  """Writes to a run of Weights & Biases (W&B).

  The id of the W&B run is a hash of the workdir's path, so that a resumed run
  continues the W&B run that it began.
  """

  def __init__(
    self, workdir: epath.Path, resume_step: int, config: dict[str, Any]
  ) -> None:
    # W&B cannot remove later steps. All points have a value "step", which is
    # the x axis of all charts, so repeated steps lie on top of each other.
    del resume_step
    path = str(storage_paths.absolute(workdir))
    self._run = importlib.import_module("wandb").init(
      project="extremum",
      name=workdir.name,
      id=hashlib.sha256(path.encode()).hexdigest()[:16],
      resume="allow",
      # W&B writes local files. For a workdir in a bucket it chooses a folder.
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

  def write_samples(
    self, step: int, records: Sequence[Mapping[str, Any]]
  ) -> None:
    columns = ["score", "prompt", "completion"]
    rows = [
      [record[name] for name in columns]
      for record in select_best_and_worst(records)
    ]
    table = importlib.import_module("wandb").Table(columns=columns, data=rows)
    self._run.log({"step": step, "samples": table})

  def close(self) -> None:
    self._run.finish()


class ProgressLine:
  """Shows one line on a terminal and updates it.

  The line has a progress bar, the step, the elapsed and the remaining time, and
  the latest value of each metric in `TERMINAL_METRICS`.
  """

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
  """Prints lines with the step, metrics and the remaining time, for log files.

  `seconds` is the shortest time between two lines. The last step always gets a
  line.
  """

  def __init__(
    self, console: rich.console.Console, total_steps: int, seconds: float
  ) -> None:
    self._console = console
    self._total = total_steps
    self._seconds = seconds
    self._start = time.monotonic()
    self._last_line_time = -math.inf
    # Step and time of the first call of `write`.
    self._first_write: tuple[int, float] | None = None

  def write(self, step: int, metrics: Mapping[str, Value]) -> None:
    summary = _summary(metrics)
    now = time.monotonic()
    if self._first_write is None:
      self._first_write = step, now
    is_due = now - self._last_line_time >= self._seconds or step >= self._total
    if not summary or not is_due:
      return
    self._last_line_time = now
    first_step, first_time = self._first_write
    remaining = ""
    if step > first_step and step < self._total:
      seconds_each = (now - first_time) / (step - first_step)
      remaining = f", {seconds_each * (self._total - step):.0f} s left"
    self._console.print(
      f"step {step}/{self._total}  {summary}  {now - self._start:.0f} "
      f"s{remaining}",
      soft_wrap=True,
      highlight=False,
    )

  def close(self) -> None:
    pass


SINKS = {"tensorboard": TensorBoard, "wandb": WeightsAndBiases}


def get(name: str) -> Callable[..., Sink]:
  """Returns the class of a writer in `SINKS`.

  Raises:
    UsageError: `SINKS` has no such name; or the package that the writer needs
      is not installed.
  """
  registry.check_known("sink", name, sorted(SINKS))
  if name == "wandb":
    try:
      importlib.import_module("wandb")
    except ImportError as error:
      raise UsageError(
        "sink 'wandb' needs a package that is not installed: pip install wandb"
      ) from error
  return SINKS[name]


def select_best_and_worst(
  records: Sequence[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
  """Returns up to `SAMPLES_EACH` best and as many worst samples by score.

  The best samples are of different prompts, and so are the worst.
  """
  descending = sorted(records, key=lambda record: -record["score"])
  best = _first_of_each_prompt(descending)
  worst = _first_of_each_prompt(reversed(descending))
  return best[:SAMPLES_EACH] + worst[:SAMPLES_EACH]


def _first_of_each_prompt(
  records: Iterable[Mapping[str, Any]],
) -> list[Mapping[str, Any]]:
  first: dict[str, Mapping[str, Any]] = {}
  for record in records:
    first.setdefault(record["prompt"], record)
  return list(first.values())


def _summary(metrics: Mapping[str, Value]) -> str:
  """Returns the text of the metrics that the terminal shows."""
  short_names = dict(TERMINAL_METRICS)
  # `match` anchors at the start, so held-out "evaluation/..." does not match.
  matches = (_PASS_AT_K.match(name) for name in metrics)
  # Of pass@k, only the largest logged k is shown.
  if ks := [int(match[1]) for match in matches if match]:
    short_names[f"accuracy/pass@{max(ks)}"] = f"pass@{max(ks)}"
  return "  ".join(
    f"{short_name} {metrics[name]:.4g}"
    for name, short_name in short_names.items()
    if name in metrics
  )
