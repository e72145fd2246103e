"""Writers of metrics: what they are asked to write, and what they write."""

import hashlib
import io
import sys
from types import SimpleNamespace

import numpy as np
import pytest
import rich.console
from etils import epath

from experiments.logging import json_files, writers


def test_lines_after_the_checkpoint_are_removed(tmp_path):
  """The evaluation of its step is removed too: the run logs it again."""
  path = tmp_path / writers.METRICS_FILE
  lines = [
    {"step": 1, "evaluation/x": 1},
    {"step": 2, "loss": 1},
    {"step": 2, "evaluation/x": 1},
    {"step": 3, "loss": 1},
  ]
  json_files.write(path, lines)
  sink = writers.JsonLines(epath.Path(tmp_path), 2)
  sink.write(3, {"loss": 2})
  sink.close()
  assert json_files.read(path) == [*lines[:2], {"step": 3, "loss": 2}]


def test_an_event_file_in_a_bucket_is_uploaded_whole(tmp_path):
  file = writers._BucketEventFile(str(tmp_path / "events"))
  file.write(b"ab")
  file.flush()
  file.write(b"cd")
  assert (tmp_path / "events").read_bytes() == b"ab"
  file.close()
  assert (tmp_path / "events").read_bytes() == b"abcd"


def test_an_array_is_a_histogram_of_its_indices(tmp_path):
  """A quarter of the groups solved 1, and three quarters 3."""
  calls = []
  sink = writers.TensorBoard(epath.Path(tmp_path), 0, {})
  sink.__dict__["_writer"] = SimpleNamespace(
    add_scalar=lambda *arguments: calls.append(arguments),
    add_histogram_raw=lambda *arguments, **settings: calls.append(
      (*arguments, settings)
    ),
  )
  counts = np.array([0.0, 0.25, 0.0, 0.75])
  infinite = np.array([0.0, np.inf])
  sink.write(5, {"a": 2.0, "b": np.nan, "c": counts, "d": infinite})
  assert calls == [
    ("a", 2.0, 5),
    (
      "c",
      {
        "min": 0.0,
        "max": 3.0,
        "num": 1.0,
        "sum": 0.25 * 1 + 0.75 * 3,
        "sum_squares": 0.25 * 1 + 0.75 * 9,
        "bucket_limits": [0.5, 1.5, 2.5, 3.5],
        "bucket_counts": counts.tolist(),
        "global_step": 5,
      },
    ),
  ]


@pytest.mark.parametrize("is_remote", [False, True])
def test_a_resumed_run_continues_its_run_of_weights_and_biases(
  tmp_path, monkeypatch, is_remote
):
  started, logged, metrics = [], [], []
  run = SimpleNamespace(
    define_metric=lambda *names, **settings: metrics.append((names, settings)),
    log=logged.append,
    finish=lambda: logged.append("finished"),
  )
  fake = SimpleNamespace(init=lambda **k: (started.append(k), run)[1])
  monkeypatch.setitem(sys.modules, "wandb", fake)
  monkeypatch.setattr(
    writers.storage_paths, "is_remote", lambda path: is_remote
  )
  workdir = epath.Path(tmp_path) / "name"
  sink = writers.WeightsAndBiases(workdir, 3, {"steps": 5})
  assert started == [
    {
      "project": "extremum",
      "name": "name",
      "id": hashlib.sha256(str(workdir).encode()).hexdigest()[:16],
      "resume": "allow",
      "dir": None if is_remote else str(workdir),
      "config": {"steps": 5},
    }
  ]
  assert metrics == [(("*",), {"step_metric": "step"})]
  sink.write(4, {"a": 1.0, "b": np.array([0.5, 0.25])})
  sink.close()
  assert logged == [{"step": 4, "a": 1.0, "b": [0.5, 0.25]}, "finished"]


def _lines(monkeypatch, calls, seconds=10.0, total=40, width=20):
  """Returns the lines of `calls`, each `(time, step, metrics)`."""
  clock = SimpleNamespace(now=100.0)
  clock.monotonic = lambda: clock.now
  monkeypatch.setattr(writers, "time", clock)
  console = rich.console.Console(
    file=io.StringIO(), width=width, color_system="truecolor"
  )
  sink = writers.PlainLines(console, total, seconds)
  for clock.now, step, metrics in calls:
    sink.write(step, metrics)
  sink.close()
  return console.file.getvalue().splitlines()


def test_lines_have_the_rate_since_the_first_step(monkeypatch):
  """They are not wrapped, and have no colors."""
  loss = {"loss/total": 0.5}
  calls = [
    (150, 10, loss),
    (159.75, 14, loss),
    (160, 15, loss),
    (170, 20, {"hidden": 1}),
    (171, 20, loss),
    (172, 40, loss),
  ]
  assert _lines(monkeypatch, calls) == [
    "step 10/40  loss 0.5  50 s",
    "step 15/40  loss 0.5  60 s, 50 s left",
    "step 20/40  loss 0.5  71 s, 42 s left",
    "step 40/40  loss 0.5  72 s",
  ]


@pytest.mark.parametrize(
  ("metrics", "text"),
  [
    ({"accuracy/pass@1": 0.25}, "pass@1 0.25"),
    ({"accuracy/pass@1": 0.5, "accuracy/pass@2": 1}, "pass@1 0.5  pass@2 1"),
    ({"evaluation/accuracy/pass@4": 1.0}, ""),
    ({"length/mean": 12.34567, "reward/mean": 1}, "reward 1  length 12.35"),
  ],
)
def test_a_summary_has_pass_at_1_and_at_the_largest_k(metrics, text):
  assert writers._summary(metrics) == text


def test_the_best_and_the_worst_samples_are_of_different_prompts():
  """The order is that of the samples shown, not of others of the prompts."""
  records = [
    {"prompt": p, "score": score, "completion": f"{p}{i}"}
    for p, scores in {
      "a": (5, 1),
      "b": (4, 4),
      "c": (3, 9),
      "d": (0, 2),
    }.items()
    for i, score in enumerate(scores)
  ]
  shown = writers.select_best_and_worst(records)
  assert [record["completion"] for record in shown] == [
    *("c1", "a0", "b0"),
    *("d0", "a1", "c0"),
  ]


def test_a_terminal_shows_the_latest_values_in_one_line():
  console = rich.console.Console(
    file=io.StringIO(), force_terminal=True, width=120, color_system=None
  )
  sink = writers.ProgressLine(console, 40, 20)
  assert sink._progress.tasks[0].completed == 20
  sink.write(30, {"loss/total": 0.5})
  sink.write(40, {"reward/mean": 1.0})
  sink.close()
  lines = console.file.getvalue().splitlines()
  last = [line for line in lines if "40/40" in line][-1]
  assert "loss 0.5  reward 1" in last
  assert last.count("━") == 24
