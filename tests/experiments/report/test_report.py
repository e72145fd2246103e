"""A report says what the files of a run say."""

import base64
import dataclasses
import io
import json
import math
import re
import shutil
import zlib

import ml_collections
import numpy as np
import pytest
import rich.console
from helpers import untrained_runs

from experiments import report
from experiments.evaluation import advantages_by_count, summary
from experiments.logging import run_logger
from experiments.report import data, page, picture, samples, training_curves
from experiments.training import workdirs
from rl import learners, methods

S = 16


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
  folder = tmp_path_factory.mktemp("runs")
  untrained_runs.make(folder / "first")
  untrained_runs.make(folder / "second", 0.5, "grpo(beta=0.0)")
  return folder


@pytest.fixture(scope="module")
def collected(runs):
  return data.collect(
    [report.read(runs / "first")], samples.Packed("", "", False)
  )


def embedded(text):
  """The data in a page."""
  result = re.search(r'id="data">(.*?)</script>', text, re.S)
  return json.loads(result[1])


def test_command_prints_every_table_and_writes_every_page(runs, capsys):
  assert report.main([str(runs / "first"), str(runs / "second")]) == 0
  text = capsys.readouterr().out
  assert text.count("pass@16") == 4  # two runs, and the rows that compare them
  for name in ("first", "second"):
    written = (runs / name / "report.html").read_text()
    (run,) = embedded(written)["runs"]
    assert run["name"] == name
    assert written.count("<tr") > 10  # its table is there without any script


@pytest.mark.parametrize("suffix", [".png", ".html"])
def test_runs_are_compared_in_a_picture_or_on_a_page(runs, tmp_path, suffix):
  out = tmp_path / "new" / f"both{suffix}"
  words = [str(runs / name) for name in ("first", "second")]
  assert report.main([*words, "--out", str(out)]) == 0
  if suffix == ".png":
    assert out.read_bytes().startswith(b"\x89PNG")
    return
  text = out.read_text()
  result = [run["name"] for run in embedded(text)["runs"]]
  assert result == ["first", "second"]
  assert "grpo(beta=0.0)" in text  # in which they differ
  assert "<code>seed</code>" not in text  # in which they do not


def test_another_kind_of_file_is_refused_before_anything_is_done(
  runs, tmp_path, capsys
):
  out = tmp_path / "both.pdf"
  assert report.main([str(runs / "first"), "--out", str(out)]) == 2
  assert ".html or .png" in capsys.readouterr().err


def test_pass_at_k_is_drawn_as_it_was_estimated(runs, collected):
  """In the picture, and by the page, which also knows what is between."""
  run = report.read(runs / "first")
  (axes,) = picture.comparison([run]).axes
  lines = {line.get_label(): line for line in axes.get_lines()}
  assert axes.get_xscale() == "log"
  shown = {one["name"]: one for one in collected["runs"][0]["evaluations"]}
  assert list(shown) == ["base", "step 60", "trained"]
  for label, name, step in (
    ("base", "base", 0),
    ("first", "trained", untrained_runs.STEPS),
  ):
    result = run.evaluations[name].estimates
    want = np.array([result[f"accuracy/pass@{k}"] for k in range(1, 17)])
    line = lines[f"{label} (step {step})"]
    np.testing.assert_array_equal(line.get_xdata(), np.arange(1, 17))
    np.testing.assert_allclose(line.get_ydata(), want[:, 0])
    curve = shown[name]["curves"]["pass"]
    for i, part in enumerate(("mean", "low", "high")):
      np.testing.assert_allclose(curve[part], want[:, i], rtol=1e-4)
    assert shown[name]["step"] == step
    assert "max" not in shown[name]["curves"]  # scores are the verdicts
  between = summary.load(runs / "first" / "evaluation_000060.json")
  np.testing.assert_allclose(
    shown["step 60"]["curves"]["pass"]["mean"],
    [between.estimates[f"accuracy/pass@{k}"].mean for k in range(1, 17)],
    rtol=1e-4,
  )


def test_the_headline_is_the_paired_difference(runs, collected):
  run = report.read(runs / "first")
  base, trained = run.evaluations["base"], run.evaluations["trained"]
  result = summary.compare(base, trained)
  assert [one["label"] for one in collected["headline"]] == [
    "pass@1",
    "pass@4",
    "pass@16",
  ]
  for one in collected["headline"]:
    difference = result[f"accuracy/{one['label']}"]
    text, sign = one["difference"]
    assert text.startswith(f"{difference.mean:+.3f} [")
    assert sign == (difference.low > 0) - (difference.high < 0)


def test_the_table_of_the_page_is_that_of_the_terminal(runs, collected):
  run = report.read(runs / "first")
  console = rich.console.Console(file=io.StringIO(), width=160)
  console.print(summary.table(run.evaluations))
  printed = console.file.getvalue()
  (table,) = collected["tables"]
  assert table["columns"] == ["base", "trained", "difference"]
  for row in table["rows"]:
    texts = [f"{cell['mean']} {cell['interval']}" for cell in row["cells"]]
    line = next(x for x in printed.splitlines() if row["label"] in x)
    assert " ".join(line.split()).endswith(" ".join(texts))
  signs = {cell["sign"] for row in table["rows"] for cell in row["cells"]}
  assert signs == {0, 1}


def test_curves_are_what_was_logged_and_nothing_stands_for_unknown(
  runs, collected
):
  series = run_logger.read_metrics(runs / "first")
  (shown,) = collected["runs"][0]["series"]
  assert shown["steps"] == list(range(1, untrained_runs.STEPS + 1))
  assert "group/solve_count_hist" not in shown["values"]
  _, rewards = series["reward/mean"]
  np.testing.assert_allclose(shown["values"]["reward/mean"], rewards, rtol=1e-4)
  assert shown["values"]["accuracy/pass@1"][0] is None
  _, counts = series["group/solve_count_hist"]
  shares = collected["runs"][0]["counts"]["shares"]
  np.testing.assert_allclose(shares, counts, atol=1e-4)


def test_long_curves_are_averaged(runs, monkeypatch):
  monkeypatch.setattr(training_curves, "MAX_POINTS", 50)
  run = report.read(runs / "first")
  result = data.collect([run], samples.Packed("", "", False))
  (shown,) = result["runs"][0]["series"]
  assert shown["steps"] == list(range(3, untrained_runs.STEPS + 1, 3))
  _, rewards = run.series["reward/mean"]
  np.testing.assert_allclose(
    shown["values"]["reward/mean"], rewards.reshape(-1, 3).mean(1), rtol=1e-4
  )
  assert "3 logged steps" in result["notes"]["training"]
  accuracies = shown["values"]["accuracy/pass@1"]  # the first is unknown
  labelled = run.series["accuracy/pass@1"][1][1:3]
  np.testing.assert_allclose(accuracies[0], labelled.mean(), rtol=1e-4)


def test_runs_of_one_name_are_called_by_their_paths(runs, tmp_path):
  one, other = tmp_path / "a" / "run", tmp_path / "b" / "run"
  for workdir in (one, other):
    shutil.copytree(runs / "first", workdir)
  read = [report.read(workdir) for workdir in (one, other)]
  result = data.collect(read, samples.Packed("", "", False))
  called = [str(one), str(other)]
  assert [run["name"] for run in result["runs"]] == called
  assert result["tables"][0]["title"].splitlines()[-2:] == [
    f"1: {one}",
    f"2: {other}",
  ]
  (axes,) = picture.comparison(read).axes
  labels = [line.get_label() for line in axes.get_lines()]
  assert [f"{name} (step 120)" in labels for name in called] == [True, True]


def test_without_verdicts_the_headline_is_the_best_of_k(runs):
  run = report.read(runs / "first")
  blind = {
    name: dataclasses.replace(
      evaluation, correct=np.full_like(evaluation.correct, -1)
    )
    for name, evaluation in run.evaluations.items()
  }
  unjudged = dataclasses.replace(run, evaluations=blind, intermediate=[])
  result = data.collect([unjudged], samples.Packed("", "", False))
  labels = [one["label"] for one in result["headline"]]
  assert labels == ["max@1", "max@4", "max@16"]
  for one in result["runs"][0]["evaluations"]:
    assert list(one["curves"]) == ["max"]


def test_a_supervised_run_has_curves_and_no_method(tmp_path):
  workdir = tmp_path / "base"
  config = ml_collections.ConfigDict({"kind": "supervised", "steps": 2})
  workdirs.write_config(workdir, config)
  console = rich.console.Console(file=io.StringIO())
  with run_logger.Logger(workdir, 2, sinks=(), console=console) as logger:
    logger.log(1, {"loss/total": 2.0})
    logger.log(2, {"loss/total": 1.0})
  result = data.collect([report.read(workdir)], samples.Packed("", "", False))
  assert result["sections"] == ["training"]
  assert result["methods"] == []
  page.page(result)


def test_the_method_is_the_one_that_the_run_wrote(runs, tmp_path):
  """Not what today's code would make of the config."""
  workdir = shutil.copytree(runs / "first", tmp_path / "other")
  path = workdir / workdirs.CONFIG_FILE
  path.write_text(path.read_text().replace("rloo", "somebodys_own"))
  (workdir / workdirs.METHOD_FILE).write_text("their method\n")
  (workdir / workdirs.ADVANTAGES_FILE).write_text('{"missing": "No way."}')
  result = data.collect([report.read(workdir)], samples.Packed("", "", False))
  assert result["methods"] == [("somebodys_own", "their method")]
  assert result["runs"][0]["advantage"] == {"missing": "No way."}


def test_a_run_without_the_files_of_its_method_says_so(runs, tmp_path):
  workdir = shutil.copytree(runs / "first", tmp_path / "old")
  (workdir / workdirs.METHOD_FILE).unlink()
  (workdir / workdirs.ADVANTAGES_FILE).unlink()
  result = data.collect([report.read(workdir)], samples.Packed("", "", False))
  assert result["methods"] == [("rloo", "This run has no method.txt.")]
  missing = result["runs"][0]["advantage"]["missing"]
  assert (
    missing == f"This run has no advantages.json for groups of {S} samples."
  )


def test_a_run_that_is_not_finished_shows_what_it_has(tmp_path, capsys):
  summary.save(
    untrained_runs.evaluation(0.3, 0), tmp_path / "a" / "evaluation_base.json"
  )
  workdirs.write_config(tmp_path / "b", ml_collections.ConfigDict({"x": 1}))
  assert report.main([str(tmp_path / "a"), str(tmp_path / "b")]) == 0
  text = capsys.readouterr().out
  assert "pass@1" in text
  assert "difference" not in text
  assert "not evaluated yet, 0 steps logged" in text
  assert '<section id="training"' not in (
    tmp_path / "a" / "report.html"
  ).read_text().replace("'", '"')
  assert not (tmp_path / "b" / "report.html").exists()


def test_the_speed_of_a_run_is_a_line_of_the_terminal(tmp_path, capsys):
  lines = [
    {
      "step": i + 1,
      "time/step_s": seconds,
      "perf/tokens_per_s": tokens,
      "perf/mfu": i / 10,
    }
    for i, (seconds, tokens) in enumerate(
      [(90.0, 10.0), (2.0, 4e3), (1.5, 5e3), (2.5, 3e3)]  # the first compiles
    )
  ]
  (tmp_path / "a").mkdir()
  (tmp_path / "a" / "metrics.jsonl").write_text(
    "".join(json.dumps(line) + "\n" for line in lines)
  )
  assert report.main([str(tmp_path / "a")]) == 0
  text = capsys.readouterr().out
  assert "a: 2 s a step, 4,000 tokens a second, 20.0% MFU (medians)\n" in text


def test_a_folder_without_a_run_is_one_line_and_status_2(tmp_path, capsys):
  assert report.main([str(tmp_path)]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert "holds no run" in error
  assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
  ("file", "content"),
  [
    ("evaluation.npz", b"PK\x03\x04 cut"),
    ("evaluation.npz", b"no archive"),
    ("evaluation.json", b"{"),
    ("evaluation_000060.json", b"[1]"),
    ("config.json", b"{"),
    ("advantages.json", b"[]"),
  ],
)
def test_a_damaged_file_is_named_in_one_line(
  runs, tmp_path, capsys, file, content
):
  workdir = shutil.copytree(runs / "first", tmp_path / "damaged")
  (workdir / file).write_bytes(content)
  assert report.main([str(workdir)]) == 2
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert str(workdir / file) in error
  assert "pickle" not in error


# The advantages of a right and a wrong sample where c of S are right.


def test_leave_one_out_is_worth_what_the_others_lack():
  result = advantages_by_count.compute(methods.get("rloo"), S)
  c = np.arange(S + 1)
  right = 1 - (c - 1) / (S - 1)
  np.testing.assert_allclose(result.right[1:], right[1:], atol=1e-6)
  np.testing.assert_allclose(result.wrong[:-1], -c[:-1] / (S - 1), atol=1e-6)
  assert np.isnan(result.right[0])
  assert np.isnan(result.wrong[-1])
  assert "batch" not in result.note


def test_the_weights_of_max_at_k_are_its_closed_form():
  """Without a baseline a right one of c weighs (1 - miss) / c of the value.

  The sum of s_i over the group is k times the expected best of k, and right
  ones share all of it.
  """
  k = 4
  result = advantages_by_count.compute(
    methods.get("max_at_k", k=k, baseline="none"), S
  )
  for c in range(1, S + 1):
    value = 1 - math.comb(S - c, k) / math.comb(S, k)
    wrong = result.wrong[c] if c < S else 0.0
    total = c * result.right[c] + (S - c) * wrong
    np.testing.assert_allclose(total, k * value, rtol=1e-4)
  assert result.wrong[0] == 0


def test_what_depends_on_the_batch_says_so():
  note = advantages_by_count.compute(
    methods.get("reinforce_pp_baseline"), S
  ).note
  assert "in a batch with one group of every count" in note


@pytest.mark.parametrize(
  ("name", "learner", "why"),
  [
    ("canon", "policy", "reads old/entropy"),
    ("min_form", "policy", "no step scores"),
    ("oprl", "prm", "reads an advantage of samples"),
  ],
)
def test_what_counts_alone_do_not_determine_is_not_drawn(name, learner, why):
  method = learners.by_learner(methods.get(name))[learner]
  with pytest.raises(ValueError, match=why):
    advantages_by_count.compute(method, 4)


# Samples.


def unpacked(packed):
  return json.loads(zlib.decompress(base64.b64decode(packed.text)))


def test_samples_are_packed_newest_first_and_as_they_were(tmp_path):
  untrained_runs.write(
    tmp_path,
    0,
    [
      untrained_runs.record(0),
      untrained_runs.record(0, "π 😀 y"),
      untrained_runs.record(1),
    ],
  )
  untrained_runs.write(
    tmp_path, 200, [untrained_runs.record(5, score=math.nan, correct=-1)]
  )
  packed = samples.pack([tmp_path])
  assert packed.note == ""
  assert packed.has_steps
  new, old = unpacked(packed)
  assert (new["step"], old["step"]) == (200, 0)
  assert new["score"] == [None]
  assert new["correct"] == [-1]
  assert old["prompts"] == [[0, "prompt 0"], [1, "prompt 1"]]
  assert old["group"] == [0, 0, 1]
  assert old["completion"] == ["1 + 2", "π 😀 y", "1 + 2"]
  # As JavaScript counts: a letter outside the first plane is two.
  assert old["cuts"] == [[1, 2, 2], [1, 3, 2], [1, 2, 2]]
  assert old["advantages"][0] == 0.25  # the same at all tokens
  assert old["log_probs"][0] == [-0.5, None, None]
  assert old["step_scores"][0] == [0.5, -0.25]
  assert old["terms"] == [["legal", [0.5] * 3]]


def test_files_of_before_are_shown_without_colours(tmp_path):
  record = untrained_runs.record()
  new = ("pieces", "log_probs", "entropies", "step_ids", "step_scores")
  old = {key: value for key, value in record.items() if key not in new}
  untrained_runs.write(tmp_path, 0, [old])
  packed = samples.pack([tmp_path])
  (file,) = unpacked(packed)
  assert file["completion"] == ["1 + 2"]
  assert file["cuts"] is None
  assert file["advantages"] == [0.25]
  assert not packed.has_steps


@pytest.mark.parametrize(
  ("capacity", "shown"), [({"max_samples": 10}, 10), ({"max_bytes": 700}, None)]
)
def test_what_has_no_room_is_left_out_in_whole_groups_and_told(
  tmp_path, capacity, shown
):
  rng = np.random.default_rng(0)
  for step in (0, 100, 200):
    untrained_runs.write(
      tmp_path,
      step,
      [
        untrained_runs.record(p, " ".join(map(str, rng.integers(0, 9, 40))))
        for p in range(8)
        for _ in range(2)
      ],
    )
  packed = samples.pack([tmp_path], **capacity)
  files = unpacked(packed)
  assert files[0]["step"] == 200
  assert len(files) == 1
  count = len(files[0]["group"])
  assert 0 < count < 16
  assert count % 2 == 0
  assert shown in (None, count)
  if "max_bytes" in capacity:
    assert len(packed.text) < 700 * 4 / 3 + 200
  assert f"of step 200, {count} of 16 samples are shown" in packed.note
  assert "none of 2 older files" in packed.note


def test_nothing_in_the_data_ends_the_script_that_holds_it(collected):
  bad = "</script><script>alert(1)</script><!--"
  hostile = {**collected, "title": bad, "facts": [bad], "sections": []}
  hostile["runs"] = [{**collected["runs"][0], "name": bad}]
  hostile["methods"], hostile["headline"] = [(bad, bad)], []
  hostile["config"] = {
    "columns": [bad],
    "rows": [(bad, [bad])],
    "folded": False,
    "note": bad,
  }
  text = page.page(hostile)
  assert "alert(1)</script>" not in text
  assert embedded(text)["runs"][0]["name"] == bad
