"""Tests that every logged step is read back exactly once, after any fault."""

import errno
import io
import json
import math
import sys
import types

import jax.numpy as jnp
import numpy as np
import pytest
import rich.console
from tensorboard.backend.event_processing import event_accumulator
from tensorboardX import record_writer

from experiments.configs import smoke
from experiments.logging import run_logger, writers
from experiments.training_run import validate


def _console(terminal=False):
  return rich.console.Console(
    file=io.StringIO(), force_terminal=terminal, width=160
  )


def _logger(workdir, **kwargs):
  kwargs = {"sinks": (), "console": _console(), **kwargs}
  return run_logger.Logger(workdir, 40, **kwargs)


def _steps(workdir):
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  return [json.loads(line)["step"] for line in lines]


def test_every_line_is_strict_json_and_reads_back(tmp_path):
  histogram = np.array([0.25, 0.75], np.float32)
  with _logger(tmp_path) as logger:
    logger.log(0, {"reward/mean": np.float32(0.5), "count": 3, "h": histogram})
    logger.log(1, {"reward/mean": math.nan, "up": math.inf, "down": -math.inf})

  def refuse(constant):
    raise AssertionError(f"{constant} is not JSON")

  text = (tmp_path / "metrics.jsonl").read_text()
  for line in text.splitlines():
    json.loads(line, parse_constant=refuse)
  series = run_logger.read_metrics(tmp_path)
  steps, values = series["reward/mean"]
  np.testing.assert_array_equal(steps, [0, 1])
  np.testing.assert_array_equal(values, [0.5, np.nan])
  assert series["up"][1] == [np.inf]
  assert series["down"][1] == [-np.inf]
  np.testing.assert_array_equal(series["h"][1], [[0.25, 0.75]])


def test_resuming_drops_what_lies_beyond_the_checkpoint(tmp_path):
  with _logger(tmp_path) as logger:
    for step in range(31):
      logger.log(step, {"x": step})
  with (tmp_path / "metrics.jsonl").open("a") as file:
    file.write('{"step": 31, "x"')  # killed in the middle of a line
  with _logger(tmp_path, resume_step=20) as logger:
    for step in range(21, 41):
      logger.log(step, {"x": -step})
  assert _steps(tmp_path) == list(range(41))
  steps, values = run_logger.read_metrics(tmp_path)["x"]
  np.testing.assert_array_equal(values, np.where(steps <= 20, steps, -steps))


def test_starting_again_without_a_checkpoint_starts_the_file_again(tmp_path):
  for _ in range(2):
    with _logger(tmp_path) as logger:
      logger.log(1, {"x": 1})
      logger.log(2, {"x": 2})
  assert _steps(tmp_path) == [1, 2]


def test_each_step_is_on_disk_before_the_next(tmp_path):
  with _logger(tmp_path) as logger:
    for step in range(3):
      logger.log(step, {"x": 0})
      assert _steps(tmp_path) == list(range(step + 1))


def test_tensorboard_holds_scalars_and_counts_and_skips_nan(tmp_path):
  with _logger(tmp_path, sinks=("tensorboard",)) as logger:
    for step in range(5):
      counts = np.array([0.5, 0.0, 0.5])
      logger.log(step, {"reward/mean": step / 4, "nan": math.nan, "h": counts})
  with _logger(tmp_path, sinks=("tensorboard",), resume_step=2) as logger:
    logger.log(3, {"reward/mean": 10.0})
  events = event_accumulator.EventAccumulator(
    str(tmp_path / "tensorboard"), size_guidance={"histograms": 0}
  )
  events.Reload()
  result = [(e.step, e.value) for e in events.Scalars("reward/mean")]
  assert result == [(0, 0.0), (1, 0.25), (2, 0.5), (3, 10.0)]
  assert events.Tags()["scalars"] == ["reward/mean"]
  assert "custom_scalars__config__" in events.Tags()["tensors"]
  histogram = events.Histograms("h")[0].histogram_value
  assert histogram.sum == 1.0  # the mean number solved
  assert list(histogram.bucket) == [0.5, 0.0, 0.5]


def test_tensorboard_is_flushed_at_the_first_event_and_every_two_minutes(
  monkeypatch,
):
  flushes = []
  clock = types.SimpleNamespace(monotonic=lambda: clock.now)
  monkeypatch.setattr(writers, "time", clock)
  event_writer = types.SimpleNamespace(
    _worker=types.SimpleNamespace(stop=lambda: None),
    _ev_writer=types.SimpleNamespace(write_event=lambda event: None),
    flush=lambda: flushes.append(clock.now),
  )
  writers._write_in_calling_thread(event_writer)
  for clock.now in (0.0, 1.0, 119.0, 120.0, 121.0, 239.0, 241.0):
    event_writer.add_event("event")
  assert flushes == [0.0, 120.0, 241.0]


def test_plain_lines_are_rare_but_the_first_and_the_last_are_there(tmp_path):
  console = _console()
  with _logger(tmp_path, console=console, seconds_between_lines=1e9) as logger:
    for step in range(41):
      logger.log(step, {"reward/mean": step / 40, "hidden": 1.0})
  lines = console.file.getvalue().splitlines()
  assert [line.split()[:4] for line in lines] == [
    ["step", "0/40", "reward", "0"],
    ["step", "40/40", "reward", "1"],
  ]


def test_a_terminal_gets_one_live_line_with_the_latest_numbers(tmp_path):
  console = _console(terminal=True)
  with _logger(tmp_path, console=console) as logger:
    logger.log(20, {"reward/mean": 0.25})
    logger.log(40, {"accuracy/pass@1": 0.5})
    logger.print("a note")
  text = console.file.getvalue()
  assert "a note" in text
  assert "reward 0.25  pass@1 0.5" in text
  assert "40/40" in text


def test_lines_say_the_largest_k_and_the_time_that_is_left(tmp_path):
  console = _console()
  with _logger(tmp_path, console=console, seconds_between_lines=0.0) as logger:
    for step in (10, 20, 40):
      ks = {f"accuracy/pass@{k}": k / 100 for k in (1, 8, 16)}
      logger.log(step, ks)
  first, second, last = console.file.getvalue().splitlines()
  assert "pass@1 0.01  pass@16 0.16" in first
  assert "pass@8" not in first
  assert second.endswith(" left")
  assert not first.endswith(" left")
  assert not last.endswith(" left")


def test_samples_are_shown_too_the_best_and_the_worst(tmp_path, monkeypatch):
  tables = []
  run = types.SimpleNamespace(
    define_metric=lambda *a, **k: None, log=tables.append, finish=lambda: None
  )
  fake = types.SimpleNamespace(
    init=lambda **k: run, Table=lambda columns, data: data
  )
  monkeypatch.setitem(sys.modules, "wandb", fake)
  records = [
    {"prompt": f"p{i // 2}", "completion": f"c{i}", "score": i / 20}
    for i in range(20)
  ]
  with _logger(tmp_path, sinks=("tensorboard", "wandb")) as logger:
    logger.write_samples(5, records)
  assert len((tmp_path / "rollouts/step_000005.jsonl").read_text().split()) > 0
  (shown,) = tables
  assert shown["step"] == 5
  output = [row[2] for row in shown["samples"]]
  assert output == ["c19", "c17", "c15", "c0", "c2", "c4"]
  events = event_accumulator.EventAccumulator(str(tmp_path / "tensorboard"))
  events.Reload()
  (text,) = events.Tensors("samples/text_summary")
  assert b"c19" in text.tensor_proto.string_val[0]
  assert text.step == 5


def test_a_printed_line_is_plain_text_that_is_not_wrapped(tmp_path):
  console = rich.console.Console(
    file=io.StringIO(), width=20, color_system="truecolor", force_terminal=False
  )
  line = "[bold]/a/b/c.json[/bold] of 5 and of 'six'"
  with _logger(tmp_path / "new" / "run", console=console) as logger:
    logger.print(line)
  assert console.file.getvalue() == f"{line}\n"


def test_without_settings_lines_are_ten_seconds_apart(tmp_path, monkeypatch):
  clock = types.SimpleNamespace(now=100.0)
  clock.monotonic = lambda: clock.now
  monkeypatch.setattr(writers, "time", clock)
  console = _console()
  with run_logger.Logger(tmp_path, 40, sinks=(), console=console) as logger:
    for clock.now, step in ((100, 1), (109.75, 2), (110, 3)):
      logger.log(step, {"reward/mean": 0})
  lines = console.file.getvalue().splitlines()
  assert [line.split()[1] for line in lines] == ["1/40", "3/40"]


def test_only_process_0_writes(tmp_path, monkeypatch):
  monkeypatch.setattr(run_logger.jax, "process_index", lambda: 1)
  with _logger(tmp_path / "run", sinks=("tensorboard",)) as logger:
    logger.log(0, {"x": 1.0})
    run_logger.write_rollouts(tmp_path / "run", 0, [])
  assert not (tmp_path / "run").exists()


def test_device_values_and_words_are_refused_by_name(tmp_path):
  with _logger(tmp_path) as logger:
    with pytest.raises(TypeError, match=r"'x' is an array on a device"):
      logger.log(0, {"x": jnp.array(1.0)})
    with pytest.raises(TypeError, match=r"'name' is not a number: 'grpo'"):
      logger.log(0, {"name": "grpo"})
  assert _steps(tmp_path) == []


def test_an_unknown_sink_names_the_nearest_and_writes_nothing(tmp_path):
  message = r"unknown sink 'tensorbord'; did you mean 'tensorboard'"
  with pytest.raises(ValueError, match=message):
    _logger(tmp_path / "run", sinks=("tensorbord",))
  assert not (tmp_path / "run").exists()


def test_a_missing_package_says_how_to_get_it(tmp_path, monkeypatch):
  monkeypatch.setitem(sys.modules, "wandb", None)
  with pytest.raises(ValueError, match="pip install wandb"):
    _logger(tmp_path / "run", sinks=("wandb",))
  assert not (tmp_path / "run").exists()


def test_a_missing_package_is_said_before_anything_is_trained(
  tmp_path, monkeypatch
):
  monkeypatch.setitem(sys.modules, "wandb", None)
  config = smoke.get_config()
  config.sinks = ("wandb",)
  with pytest.raises(ValueError, match="pip install wandb"):
    validate.check_and_build(config, tmp_path / "run")
  assert not (tmp_path / "run").exists()


def test_weights_and_biases_is_one_run_per_workdir(tmp_path, monkeypatch):
  runs, logged = [], []
  run = types.SimpleNamespace(
    define_metric=lambda *a, **k: None, log=logged.append, finish=lambda: None
  )
  fake = types.SimpleNamespace(init=lambda **k: runs.append(k) or run)
  monkeypatch.setitem(sys.modules, "wandb", fake)
  for name, resume_step in (("a", 0), ("a", 5), ("b", 0)):
    workdir = tmp_path / name
    config = {"seed": 0}
    kwargs = {"sinks": ("wandb",), "resume_step": resume_step, "config": config}
    with _logger(workdir, **kwargs) as logger:
      logger.log(resume_step + 1, {"x": 1.0})
  assert runs[0]["id"] == runs[1]["id"] != runs[2]["id"]
  assert runs[0]["config"] == {"seed": 0}
  assert [point["step"] for point in logged] == [1, 6, 1]


def test_a_full_disk_ends_tensorboard_and_not_in_a_wait(tmp_path, monkeypatch):
  """tensorboardX's own thread would end, and its queue never be read again."""
  logger = _logger(tmp_path, sinks=("tensorboard",))
  logger.log(0, {"x": 0})

  def refuse(self, *_):
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(record_writer.RecordWriter, "flush", refuse)
  monkeypatch.setattr(record_writer.RecordWriter, "write", refuse)
  for step in range(1, 30):  # more than the queue holds
    with pytest.raises(OSError, match="No space left"):
      logger.log(step, {"x": step})
  with pytest.raises(OSError, match="No space left"):
    logger.close()


def test_rollouts_are_one_readable_file_a_step(tmp_path):
  record = {
    "prompt": "1 2 =",
    "completion": "1 + 2",
    "score": np.float32(1.0),
    "correct": np.int8(1),
    "advantages": np.array([0.5, math.nan]),
  }
  run_logger.write_rollouts(tmp_path, 20, [record, record])
  lines = (tmp_path / "rollouts" / "step_000020.jsonl").read_text().splitlines()
  assert [json.loads(line) for line in lines] == 2 * [
    {**record, "score": 1.0, "correct": 1, "advantages": [0.5, "NaN"]}
  ]
  assert len(list((tmp_path / "rollouts").iterdir())) == 1


def test_a_line_is_printed_once_for_its_first_place_also_after_the_end(
  tmp_path,
):
  console = _console()
  with _logger(tmp_path, console=console) as logger:
    logger.print_once("step 2", "cut")
    logger.print_once("step 3", "cut")
  logger.print_once("evaluation", "cut")
  logger.print_once("evaluation", "not judged")
  lines = console.file.getvalue().splitlines()
  assert lines == ["step 2: cut", "evaluation: not judged"]
