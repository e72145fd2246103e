"""The study of process reward models: its rows, tables and picture."""

import dataclasses
import json
import pathlib

import numpy as np
import pytest

from experiments.cli import spec
from experiments.configs import fitted_reward
from experiments.studies import units
from experiments.studies.process_rewards import __main__ as command
from experiments.studies.process_rewards import rows, tables, unit
from rewards.process import label_sources, step_data, step_losses


@pytest.fixture
def results(tmp_path, monkeypatch):
  """Returns an empty folder of results."""
  study = dataclasses.replace(unit.STUDY, results=tmp_path)
  monkeypatch.setattr(unit, "STUDY", study)
  return tmp_path


def write_run(row, seed, accuracy):
  series = {key: [0.0, *([accuracy] * 10)] for key in unit.SERIES}
  record = {
    "row": row,
    "seed": seed,
    "series": series,
    "evaluation": {"before": {"1": 0.5}, "after": {"1": accuracy}},
  }
  unit.STUDY.file(row, seed).write_text(json.dumps(record))


def write_model(row, seed, f1):
  keys = ("accuracy/worst@16", "accuracy/mean@16", "accuracy/maj@16")
  keys += ("first_error/f1", "accuracy/pass@1", "accuracy/maj@4", "auc")
  metrics = {key: {"mean": f1} for key in (*keys, "accuracy/step_beam")}
  record = {
    "row": row,
    "seed": seed,
    "metrics": {**metrics, "label_tokens": 2_000_000},
  }
  unit.STUDY.file(row, seed).write_text(json.dumps(record))


def test_every_source_loss_and_config_exists():
  assert rows.PAID_BY in rows.ROWS
  sources, losses = set(), set()
  for row in rows.ROWS.values():
    name, settings = spec.parse(row.source, "source")
    label_sources.get(name, **settings)
    loss, loss_settings = spec.parse(row.loss, "loss")
    step_losses.get(loss, **loss_settings)
    if row.kind == "run":
      fitted_reward.get_config(row.config)
    sources.add(name if row.kind == "labels" else "")
    losses.add(loss if row.kind == "loss" else "")
  assert set(step_losses.names()) <= losses
  assert set(label_sources.names()) - sources == {
    *("judge", "consensus", "mixture", "mutation"),
  }


def test_cells_are_means_over_seeds_of_the_right_row(results):
  write_model("implicit", 0, 0.5)
  write_model("implicit_dpo", 0, 0.9)  # its name begins like the other one
  write_run("paid_min_form", 0, 0.75)
  write_run("paid_min_form", 1, 0.25)
  text = tables.all_tables()
  lines = {
    line.split("|")[1].strip(): line for line in text.splitlines() if line
  }
  assert "| 1 | 0.500 | 0.500" in lines["implicit"]
  assert lines["implicit"].endswith("| 2.00 |")
  assert "| 1 | 0.900" in lines["implicit_dpo"]
  # Student's interval of .25 and .75: .5 -+ 12.706 * .25.
  assert (
    "| 2 | 0.500 [0.500, 0.500] | 0.500 [-2.677, 3.677]"
    in (lines["paid_min_form"])
  )
  assert "paid_sum_form" not in lines
  write_model("text_maths", 0, 0.25)
  last = tables.all_tables().splitlines()[-1]
  assert last == "| text_maths | 1 |" + " 0.250 |" * 5


def test_models_of_texts_have_the_same_labels_and_a_search(
  tmp_path, monkeypatch
):
  """The rows differ in what the model reads, and in nothing else."""
  calls, bases = [], []
  metrics = {"first_error/f1": {"mean": 0.5}}

  def call(words):
    calls.append(words)
    if words[0] == "label":
      folder = pathlib.Path(words[words.index("--workdir") + 1])
      folder.mkdir(parents=True, exist_ok=True)
      (folder / "label.json").write_text('{"tokens": 7}')
    if words[0] == "evaluate":
      folder = pathlib.Path(words[words.index("--workdir") + 1])
      folder.mkdir(parents=True)
      (folder / "metrics.json").write_text(json.dumps(metrics))
    return 0

  monkeypatch.setattr(unit.prm, "main", call)
  monkeypatch.setattr(
    unit, "_train_base", lambda task, seed, folder: bases.append((task, folder))
  )
  for name in ("text_all", "text_maths"):
    unit.run(name, 3, tmp_path)
  folder = tmp_path / "seed_3" / "narrated"
  assert bases == [("narrated_chain(operations=3)", folder)] * 2
  (label, fit, evaluate), (label_2, fit_2, evaluate_2) = calls[:3], calls[3:]
  assert label == label_2
  assert label[label.index("--source") + 1] == "best_first"
  assert fit[fit.index("--text") + 1] == "all"
  assert fit_2[fit_2.index("--text") + 1] == "maths"
  assert fit[fit.index("--loss") + 1] == fit_2[fit_2.index("--loss") + 1]
  for words in (evaluate, evaluate_2):
    assert words[words.index("--search") + 1] == rows.SEARCH
    task = words[words.index("--task") + 1]
    assert task == "narrated_chain(operations=3, prm='filler')"


def test_the_best_f1_is_that_of_the_exact_labels():
  """Four samples: two agree, one error is hidden, and one is added."""
  shape = (4, 1, 3)
  exact = np.ones(shape), np.ones(shape)
  exact[0][0, 0, 1] = exact[0][2, 0, 1] = 0
  exact[1][0, 0, 2] = exact[1][2, 0, 2] = 0
  noisy = np.ones(shape), np.ones(shape)
  noisy[0][0, 0, 1] = noisy[0][3, 0, 0] = 0
  noisy[1][0, 0, 2] = 0
  noisy[1][3, 0, 1:] = 0
  tokens = np.zeros((4, 1, 3), np.int32)
  data = [
    step_data.unlabelled(None, tokens, 3, None, np.arange(4)).replace(
      values=values, weights=weights
    )
    for values, weights in (exact, noisy)
  ]
  # Of two noisy errors one is found; of two samples without one, one is not
  # called wrong.
  assert unit.best_f1(*data) == pytest.approx(0.5)


def test_the_picture_is_drawn(results, tmp_path):
  write_run("paid_min_form", 0, 0.75)
  file = tmp_path / "runs.png"
  tables.draw_runs(file)
  assert file.read_bytes()[:4] == b"\x89PNG"


def test_a_unit_with_a_result_is_skipped(results, monkeypatch, capsys):
  write_run("paid_min_form", 0, 0.75)
  started = []

  def start(words, check):
    started.append(words[-5:])
    return type("Completed", (), {"returncode": 0})

  monkeypatch.setattr(units.subprocess, "run", start)
  words = ["run", "paid_min_form", "bce", "--seeds", "0", "--workdir", "w"]
  assert command.main(words) == 0
  assert started == [["unit", "bce", "0", "--workdir", "w"]]
  assert "already has a result" in capsys.readouterr().out


def test_an_unknown_row_is_one_line(capsys):
  assert command.main(["run", "paid_min_from"]) == 2
  assert "did you mean 'paid_min_form'" in capsys.readouterr().err
