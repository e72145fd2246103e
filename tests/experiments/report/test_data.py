"""Parts of the data of a page, on small runs."""

import dataclasses

import numpy as np
import pytest
from etils import epath
from helpers import untrained_runs

from experiments.evaluation import summary
from experiments.report import data, evaluation_curves, runs, samples, tables

NOTHING = samples.Packed("", "", False)
MEAN = ("mean", "low", "high")


def run_of(name="a", series=None, **fields):
  arrays = {
    metric: (np.array(steps), np.array(values, float))
    for metric, (steps, values) in (series or {}).items()
  }
  empty = {"config": {}, "method": "", "advantages": {}, "evaluations": {}}
  return runs.Run(
    workdir=epath.Path("/runs") / name,
    series=arrays,
    **empty | {"intermediate": []} | fields,
  )


@pytest.mark.parametrize(
  ("names", "title"),
  [
    (["a"], "a"),
    (["a", "b"], "a and b"),
    (["a", "b", "c"], "a, b and c"),
    (["a", "b", "c", "d"], "4 runs"),
  ],
)
def test_up_to_three_runs_are_named_in_the_title(names, title):
  assert data._title(names) == title


@pytest.mark.parametrize(
  ("low", "high", "sign"),
  [(0.1, 0.5, 1), (-0.5, -0.1, -1), (-0.1, 0.1, 0), (0, 0.5, 0), (-0.5, 0, 0)],
)
def test_the_headline_has_the_sign_of_an_interval_apart_from_zero(
  low, high, sign, monkeypatch
):
  """Base and trained have 5 and 9 samples: k is 1, 4 and 5 of 1, 2, 4, 5."""
  base, trained = (
    untrained_runs.evaluation(0.5, step, samples=count, problems=3)
    for step, count in ((0, 5), (10, 9))
  )
  calls = []

  def compare(*evaluations):
    calls.append(evaluations)
    estimate = summary.Estimate((low + high) / 2, low, high)
    return {f"accuracy/pass@{k}": estimate for k in range(1, 6)}

  monkeypatch.setattr(summary, "compare", compare)
  run = run_of(evaluations={"base": base, "trained": trained})
  headline = data._headline(run)
  ((first, second),) = calls
  assert first is base
  assert second is trained
  assert [row["label"] for row in headline] == ["pass@1", "pass@4", "pass@5"]
  assert [row["difference"][1] for row in headline] == [sign] * 3
  mean = base.estimates["accuracy/pass@4"].mean
  assert headline[1]["values"][0] == f"{mean:.3f}"


def test_settings_in_which_runs_differ():
  first, second, third = (
    run_of(name, config={"a": 1, "b": {"c": value}, "d": 2})
    for name, value in (("x", 3), ("y", 4), ("z", 4))
  )
  table = data._config([first, second])
  assert table["columns"] == ["x", "y"]
  assert table["rows"] == [("b.c", ["3", "4"])]
  assert table["note"].endswith("differ; 2 others are the same.")
  assert data._config([second, third])["rows"] == []
  alone = data._config([first])
  assert alone["rows"] == [("a", ["1"]), ("b.c", ["3"]), ("d", ["2"])]


@pytest.mark.parametrize(
  ("steps", "fact"), [(2, "2 steps"), (5, "2 of 5 steps")]
)
def test_facts_of_one_run_have_its_steps(steps, fact):
  config = {"task": "t", "method": "m", "steps": steps}
  run = run_of(config=config, series={"a": ([1, 2], [0, 0])})
  assert data._facts([run]) == ["t", "m", fact]
  assert data._facts([run, run]) == ["t"]


def test_a_section_is_shown_if_one_run_has_it(monkeypatch):
  """The second run has counts and a term; long curves have a note."""
  monkeypatch.setattr(data.training_curves, "MAX_POINTS", 4)
  first = run_of("x", {"a": ([1, 2], [0, 0])})
  counts = {"group/solve_count_hist": ([1], [[0.5, 0.5]])}
  second = run_of("y", counts | {"score/legal": (range(6), range(6))})
  for pair in ([first, second], [second, first]):
    result = data.collect(pair, NOTHING)
    assert result["sections"] == ["training", "groups", "terms"]
    # Each run may have two points; the longest curve has six.
    assert "up to 3 logged steps" in result["notes"]["training"]
    assert result["headline"] == []
  assert data.collect([first], NOTHING)["notes"]["training"] == ""
  evaluation = untrained_runs.evaluation(0.5, 0, samples=2, problems=3)
  evaluated = run_of("z", evaluations={"base": evaluation})
  for pair in ([evaluated, first], [first, evaluated]):
    assert "pass" in data.collect(pair, NOTHING)["sections"]
  assert len(data.collect([evaluated], NOTHING)["tables"]) == 1
  monkeypatch.setattr(data.training_curves, "MAX_POINTS", 3)
  notes = data.collect([second], NOTHING)["notes"]
  assert "up to 2 logged steps" in notes["training"]


def test_the_evaluation_after_training_comes_last():
  """After one during training at the same step."""
  evaluation = untrained_runs.evaluation(0.5, 4, samples=2, problems=3)
  estimates = {
    name: dict(zip(MEAN, values, strict=True))
    for name, values in evaluation.estimates.items()
  }
  record = {"step": 4, "samples": 2, "estimates": estimates}
  run = run_of(
    evaluations={"trained": evaluation, "base": evaluation},
    intermediate=[record],
  )
  shown = [(e["name"], e["final"]) for e in evaluation_curves.collect(run)]
  assert shown == [("step 4", False), ("base", False), ("trained", True)]


def estimates_of(accuracy, reward):
  """Returns estimates of two samples; those of majority votes are pass@k."""
  return {
    f"{name}{k}": summary.Estimate(*values[k - 1])
    for name, values in (
      ("accuracy/pass@", accuracy),
      ("accuracy/maj@", accuracy),
      ("reward/max@", reward),
    )
    for k in (1, 2)
  }


@pytest.mark.parametrize(
  ("difference", "quantities"),
  [(1e-6, ["pass", "maj"]), (5e-3, ["pass", "maj", "max"])],
)
def test_rewards_that_are_verdicts_have_no_curve(difference, quantities):
  """A bound may be unknown in both."""
  accuracy = [[0, 0, 0], [0.5, 0.4, np.nan]]
  reward = [[0, 0, 0], [0.5 + difference, 0.4, np.nan]]
  shown = evaluation_curves._curves(estimates_of(accuracy, reward), 2)
  assert list(shown) == quantities
  assert shown["pass"]["mean"] == [0, 0.5]
  assert shown["pass"]["high"] == [0, None]


def test_curves_of_unknown_verdicts_are_left_out():
  unknown = [[np.nan] * 3] * 2
  shown = evaluation_curves._curves(estimates_of(unknown, [[1, 1, 1]] * 2), 2)
  assert list(shown) == ["max"]
  some = [[np.nan] * 3, [1, 1, 1]]
  assert "pass" in evaluation_curves._curves(estimates_of(some, unknown), 2)


def test_advantages_are_those_of_groups_of_the_same_size():
  """Two samples have three counts."""
  advantages = {"right": ["NaN", 1, 0.5], "wrong": [0, -1, "NaN"], "note": "n"}
  run = run_of(advantages=advantages)
  assert data._advantages(run, {"shares": [[0.2, 0.3, 0.5]]}) == {
    "right": [None, 1, 0.5],
    "wrong": [0, -1, None],
    "note": "n",
  }
  missing = data._advantages(run, {"shares": [[0.5, 0.5]]})["missing"]
  assert missing.endswith("for groups of 1 samples.")


def test_tables_compare_what_several_runs_were_evaluated_on():
  """Two runs have one task; the third has another, and one has no training."""
  first = untrained_runs.evaluation(0.5, 1, samples=2, problems=3)
  other = dataclasses.replace(first, task="other")
  shown = tables.comparison_tables(
    [
      run_of("x", evaluations={"trained": first}),
      run_of("y", evaluations={"trained": other, "base": first}),
      run_of("z", evaluations={"trained": first, "base": first}),
      run_of("w", evaluations={"base": first}),
    ]
  )
  (table,) = map(tables.to_json, shown)
  assert table["columns"] == ["trained", "difference"]
  labels = [row["label"] for row in table["rows"]]
  assert labels[:2] == ["pass@1     x", "pass@1     z"]
  assert table["title"].startswith("trained")


@pytest.mark.parametrize(
  ("style", "sign"), [("bold green", 1), ("bold red", -1), ("", 0)]
)
def test_the_color_of_a_difference_is_its_sign(style, sign):
  cell = tables.rich.text.Text.assemble(("+0.1", style), (" [0, 1]", "dim"))
  assert tables._cell_to_json(cell) == {
    "mean": "+0.1",
    "interval": "[0, 1]",
    "sign": sign,
  }


def test_a_page_shows_no_number_for_what_is_not_known():
  unknown = dataclasses.replace(
    untrained_runs.evaluation(0.5, 0, samples=4),
    scores=np.full((40, 4), np.nan, np.float32),
    correct=np.full((40, 4), -1, np.int8),
  )
  run = run_of(evaluations={"base": unknown, "trained": unknown})
  assert data._headline(run) == []
  table = tables.to_json(tables.evaluation_table(run))
  shown = {row["label"]: row["cells"] for row in table["rows"]}
  for label in ("pass@1", "maj@4", "score"):
    assert shown[label] == [{"mean": "-", "interval": "", "sign": 0}] * 3
