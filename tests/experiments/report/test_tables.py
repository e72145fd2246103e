"""Tables that compare runs: pairs, seeds, and what fits in 80 columns."""

import dataclasses
import io
import json

import numpy as np
import pytest
import rich.console
from etils import epath
from helpers import untrained_runs

from experiments import report
from experiments.evaluation import summary
from experiments.report import runs, tables


def trained(right, samples=4, ids=None):
  """An evaluation with a number of right samples for each problem."""
  correct = np.arange(samples) < np.array(right)[:, None]
  template = untrained_runs.evaluation(
    0.5, 1, samples=samples, problems=len(right)
  )
  return dataclasses.replace(
    template,
    ids=template.ids if ids is None else np.array(ids, np.int32),
    scores=correct.astype(np.float32),
    correct=correct.astype(np.int8),
    answer_ids=correct.astype(np.int32),
  )


def run_of(name, evaluation, **config):
  return runs.Run(
    workdir=epath.Path("/runs") / name,
    config=config,
    method="",
    advantages={},
    series={},
    evaluations={"trained": evaluation},
    intermediate=[],
  )


def cells(some_runs, statistic="pass@1"):
  """Returns {label: texts of the columns} of the rows of a statistic."""
  (table,) = map(tables.to_json, tables.comparison_tables(some_runs))
  return {
    row["label"].removeprefix(statistic).strip(): [
      f"{cell['mean']} {cell['interval']}".strip() for cell in row["cells"]
    ]
    for row in table["rows"]
    if row["label"].startswith(f"{statistic} ")
  }


def test_a_difference_is_paired_by_problem():
  """Each problem gains one right sample of four: every resample gains .25."""
  shown = cells(
    [
      run_of("a", trained([0, 1, 2, 3]), seed=0, method="x"),
      run_of("b", trained([1, 2, 3, 4]), seed=1, method="y"),
      # The same counts, of other problems.
      run_of("shuffled", trained([4, 2, 1, 3]), seed=0, method="z"),
    ]
  )
  assert shown["a"][0].startswith("0.375 [")
  assert shown["a"][1] == ""
  assert shown["b"][1] == "+0.250 [0.250, 0.250]"
  mean, low, high = map(
    float,
    shown["shuffled"][1].replace("[", "").strip("]").replace(",", "").split(),
  )
  assert mean == 0.25
  assert low < 0.25 < high


def test_seeds_are_one_row_with_students_interval():
  """Rates of x by seed: .125, .625; of y: .5, .75. The mean of the differences
  .375 and .125 is .25, and their standard error .25 / 2; t of one degree of
  freedom is tan(.475 pi) = 12.706.
  """
  t = np.tan(0.475 * np.pi)
  x = {0: trained([0, 1]), 1: trained([2, 3])}
  y = {0: trained([2, 2]), 1: trained([3, 3])}
  shown = cells(
    [
      run_of("x0", x[0], seed=0, method="x"),
      run_of("x1", x[1], seed=1, method="x"),
      run_of("y1", y[1], seed=1, method="y"),  # in another order
      run_of("y0", y[0], seed=0, method="y"),
    ]
  )
  assert list(shown) == ["x0, 2 seeds", "y1, 2 seeds"]
  half = 0.25 * t  # sd / sqrt(2) of .125 and .625
  assert shown["x0, 2 seeds"] == [
    f"0.375 [{0.375 - half:.3f}, {0.375 + half:.3f}]",
    "",
  ]
  half = 0.125 * t
  assert shown["y1, 2 seeds"] == [
    f"0.625 [{0.625 - half:.3f}, {0.625 + half:.3f}]",
    f"+0.250 [{0.25 - half:.3f}, {0.25 + half:.3f}]",
  ]


def test_titles_name_rows_with_their_seeds_and_intervals():
  evaluation = trained([1, 2])
  (table,) = tables.comparison_tables(
    [
      run_of("x-seed_0", evaluation, seed=0, method="x"),
      run_of("x-seed_5", evaluation, seed=5, method="x"),
      run_of("alone-and-far-from-home", evaluation, seed=0, method="y"),
      # Another method in folders of the same names.
      run_of("x-seed_1", evaluation, seed=1, method="z"),
      run_of("x-seed_2", evaluation, seed=2, method="z"),
    ]
  )
  title = str(table.title)
  assert "2 problems, 4 samples" in title
  assert "over problems (bootstrap); for several seeds, over seeds" in title
  assert title.splitlines()[-3:] == [
    "1: x, 2 seeds",
    "2: alone-and-far-from-home",
    "3: x-seed_1 and more, 2 seeds",
  ]
  # A run and two seeds form no pairs.
  assert [column.header for column in table.columns] == ["", "trained"]


def test_seeds_are_paired_where_both_have_them():
  """Only the seeds 1 and 2 are in both; one common seed is no pair."""
  first = [run_of(f"x{i}", trained([i, 1]), seed=i, m="x") for i in (0, 1, 2)]
  second = [run_of(f"y{i}", trained([i, 2]), seed=i, m="y") for i in (1, 2, 3)]
  shown = cells([*first, *second])
  # Every seed gains one sample of eight.
  assert shown["y1, 3 seeds"][1] == "+0.125 [0.125, 0.125]"
  shown = cells([*first, *second[1:]])
  assert [len(row) for row in shown.values()] == [1, 1]


def test_runs_that_repeat_a_seed_are_rows_of_their_own():
  again = [run_of(name, trained([1, 2]), seed=3, m="x") for name in "ab"]
  assert list(cells(again)) == ["a", "b"]
  without = [run_of(name, trained([1, 2])) for name in "ab"]
  assert list(cells(without)) == ["a", "b"]


@pytest.mark.parametrize(
  "other", [trained([1, 2], samples=2), trained([1, 2], ids=[0, 7])]
)
def test_only_what_was_evaluated_alike_is_compared(other):
  evaluation = trained([1, 2])
  some = [run_of("a", evaluation), run_of("b", evaluation), run_of("c", other)]
  assert list(cells(some)) == ["a", "b"]
  assert not tables.comparison_tables(some[1:])


def test_runs_from_bases_that_differ_in_the_seed_are_a_group(tmp_path):
  """Runs of a sweep share bases; another run trained its base itself."""
  base = {key: 1 for key in ("kind", "task", "policy", "model", "rollout")}
  base |= {"cpu_devices": 1}
  for seed in (0, 1):
    folder = tmp_path / f"base_{seed}"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(base | {"seed": seed}))
  other = tmp_path / "other"
  other.mkdir()
  (other / "config.json").write_text(json.dumps(base | {"seed": 0, "task": 2}))

  def make(seed, init_from=""):
    config = {"seed": seed, "init_from": str(init_from)}
    config["base"] = base | {"seed": seed}
    return run_of(f"run_{seed}", trained([1, 2]), **config)

  group = [make(seed, tmp_path / f"base_{seed}") for seed in (0, 1)]
  assert list(cells([*group, make(2)])) == ["run_0, 3 seeds"]
  assert list(cells([group[0], make(1, other)])) == ["run_0", "run_1"]
  unread = make(1, tmp_path / "missing")
  assert list(cells([group[0], unread])) == ["run_0", "run_1"]


def test_nothing_is_cut_off_in_80_columns(tmp_path, monkeypatch, capsys):
  """Four runs with long names, in the terminal and on the page."""
  names = [
    f"method_max_at_k_k_{i}_baseline_none-learning_rate_3e-4" for i in "abcd"
  ]
  for i, name in enumerate(names):
    (tmp_path / name).mkdir()
    evaluation = trained([i, 1, 0, 1])
    summary.save(evaluation, tmp_path / name / "evaluation.json")
  monkeypatch.setenv("COLUMNS", "80")
  out = tmp_path / "all.html"
  words = [str(tmp_path / name) for name in names]
  assert report.main([*words, "--out", str(out)]) == 0
  shown = capsys.readouterr().out
  compared = shown[shown.index("trained  ·") :].splitlines()
  assert max(map(len, compared[:-1])) <= 80
  assert "…" not in shown
  for number, name in enumerate(names, 1):
    assert f"{number}: {name}" in [line.strip() for line in compared]
    assert f"{number}: {name}" in out.read_text()
  rows = [line for line in compared if line.startswith("pass@1 ")]
  assert [line.split()[1] for line in rows] == ["1", "2", "3", "4"]
  assert [line.count("]") for line in rows] == [1, 2, 2, 2]
  assert compared[7].split() == ["trained", "difference"]


def test_a_table_of_one_run_says_what_its_intervals_are():
  table = tables.evaluation_table(run_of("a", trained([1, 2])))
  console = rich.console.Console(file=io.StringIO(), width=80)
  console.print(table)
  lines = [line.strip() for line in console.file.getvalue().splitlines()]
  assert lines[:3] == [
    "a",
    "countdown(count=4)",
    "95 % intervals over problems",
  ]
