"""A report says what the files of a run say."""

import io

import ml_collections
import numpy as np
import pytest
import rich.console

from experiments import checkpoint, estimates, logging, report


def _evaluation(rate, step, samples=16, problems=40):
  rng = np.random.default_rng(step)
  skill = rng.beta(2 * rate, 2 * (1 - rate), size=(problems, 1))
  correct = rng.random((problems, samples)) < skill
  return estimates.Evaluation(
    task="countdown(count=4)",
    step=step,
    temperature=1.0,
    ids=np.arange(problems, dtype=np.int32),
    scores=correct.astype(np.float32),
    correct=correct.astype(np.int8),
    answer_ids=np.where(correct, 1, 0).astype(np.int32),
    lengths=np.full((problems, samples), 8, np.int32),
    finished=np.ones((problems, samples), bool),
  )


def _make_run(workdir, rate=0.6):
  config = ml_collections.ConfigDict({"steps": 120, "seed": 0})
  checkpoint.write_config(workdir, config)
  console = rich.console.Console(file=io.StringIO())
  rng = np.random.default_rng(0)
  with logging.Logger(workdir, 120, sinks=(), console=console) as logger:
    for step in range(1, 121):
      reward = 0.3 + rate * step / 240 + 0.04 * rng.normal()
      logger.log(
        step,
        {
          "reward/mean": reward,
          "accuracy/pass@1": reward,
          "policy/entropy": 0.6 - step / 400 + 0.01 * rng.normal(),
        },
      )
  estimates.save(_evaluation(0.3, 0), workdir / "evaluation_base.json")
  estimates.save(_evaluation(rate, 120), workdir / "evaluation.json")


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  for name, rate in (("first", 0.6), ("second", 0.5)):
    _make_run(folder / name, rate)
  return folder


def test_command_prints_every_table_and_writes_every_picture(runs, capsys):
  assert report.main([str(runs / "first"), str(runs / "second")]) == 0
  text = capsys.readouterr().out
  assert text.count("pass@16") == 3  # two runs, and the runs side by side
  for name in ("first", "second"):
    picture = (runs / name / "report.png").read_bytes()
    assert picture.startswith(b"\x89PNG")


def test_pass_at_k_is_drawn_as_it_was_estimated(runs):
  run = report.read(runs / "first")
  axes = next(
    a for a in report.figure(run).axes if "pass@k" in a.get_title("left")
  )
  lines = {line.get_label(): line for line in axes.get_lines()}
  for name, step in (("base", 0), ("trained", 120)):
    line = lines[f"{name} (step {step})"]
    found = run.evaluations[name].estimates
    want = [found[f"accuracy/pass@{k}"].mean for k in range(1, 17)]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 17))
    np.testing.assert_allclose(line.get_ydata(), want)
  assert axes.get_xscale() == "log"


def test_smoothing_keeps_lines_straight_and_skips_unknown_values():
  line = np.linspace(2.0, 5.0, 97)
  np.testing.assert_allclose(report._smooth(line), line)
  np.testing.assert_allclose(report._smooth(np.ones(1)), 1.0)
  holes = np.where(np.arange(97) % 3 == 0, np.nan, 4.0)
  np.testing.assert_allclose(report._smooth(holes), 4.0)


def test_a_run_that_is_not_finished_shows_what_it_has(tmp_path, capsys):
  estimates.save(_evaluation(0.3, 0), tmp_path / "a" / "evaluation_base.json")
  checkpoint.write_config(tmp_path / "b", ml_collections.ConfigDict({"x": 1}))
  assert report.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
  text = capsys.readouterr().out
  assert "pass@1" in text
  assert "difference" not in text
  assert "not evaluated yet, 0 steps logged" in text
  assert (tmp_path / "a" / "report.png").exists()


def test_a_folder_without_a_run_is_one_line_and_status_2(tmp_path, capsys):
  assert report.main([str(tmp_path)]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert "holds no run" in error
  assert list(tmp_path.iterdir()) == []
