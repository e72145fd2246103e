"""Tests of the benchmark command, the list of objectives, and the ratios."""

import inspect
import json

import numpy as np
import pytest

from experiments.studies.benchmark import __main__ as command
from experiments.studies.benchmark import objective_costs, timing
from rl import advantages, best_of_k, credit

NAMES = list(objective_costs.functions(64))
WEIGHTS = "max_at_k_weights(k=8, none)"


@pytest.mark.parametrize("power", [0.5, 1.0, 2.0])
def test_the_exponent_of_a_power_is_the_power(power):
  sizes = np.array([64, 256, 1024, 4096])
  assert timing.exponent(sizes, 3e-6 * sizes**power) == pytest.approx(power)


def test_the_exponent_is_that_of_the_last_three_sizes():
  sizes = [4, 16, 64, 256, 1024]
  constant_below = [max(n, 64) ** 2 for n in sizes]
  assert timing.exponent(sizes, constant_below) == pytest.approx(2)
  assert timing.exponent(sizes[:2], sizes[:2]) == pytest.approx(1)
  assert timing.exponent(sizes[:1], sizes[:1]) is None


class Machine:
  """A fake clock: calls take time, and other work slows them now and then."""

  def __init__(self):
    self.now, self.calls = 0.0, []

  def work(self, name, seconds):
    def call():
      slowness = 1 + len(self.calls) // 2 % 5  # changes from pair to pair
      self.calls.append(name)
      self.now += slowness * seconds

    return call


def test_ratios_are_those_of_a_quiet_machine():
  machine = Machine()
  costs = {"twice": 2.0, "half": 0.5, "same": 1.0}
  calls = {name: machine.work(name, cost) for name, cost in costs.items()}
  timings = timing.compare(
    calls, machine.work("reference", 1.0), budget=1e9, clock=lambda: machine.now
  )
  for name, cost in costs.items():
    assert timings[name].ratio == pytest.approx(cost), name
  timed = machine.calls[len(costs) + 1 :]
  pairs = list(zip(timed[::2], timed[1::2], strict=True))
  assert all("reference" in pair for pair in pairs)
  assert {pair.index("reference") for pair in pairs} == {0, 1}, "in both places"
  leaders = {name for pair in pairs[:: len(costs)] for name in pair}
  assert leaders == {*costs, "reference"}, "each starts some round"


def test_a_function_that_spent_its_budget_is_not_called_again():
  machine = Machine()
  calls = {"slow": machine.work("slow", 10), "fast": machine.work("fast", 0.01)}
  timing.compare(
    calls,
    machine.work("reference", 1),
    rounds=9,
    budget=1.0,
    clock=lambda: machine.now,
  )
  assert machine.calls.count("slow") == 2  # the one before, and one
  assert machine.calls.count("fast") == 10


@pytest.mark.parametrize("module", [best_of_k, advantages, credit])
def test_every_array_function_is_listed(module):
  for name, fn in inspect.getmembers(module, inspect.isfunction):
    if fn.__module__ == module.__name__ and not name.startswith("_"):
      listed = [n for n in NAMES if n.partition("(")[0] == name]
      assert listed, f"{name} needs an entry in {objective_costs.__name__}"
      settings = inspect.signature(fn).parameters
      if "k" in settings:
        assert any("k=8" in n for n in listed)
        assert any("k=n/2" in n for n in listed)


@pytest.fixture
def measured(monkeypatch):
  """Returns a function that fakes the timings of the max@k weights.

  Its arguments are the ratio to a sort and the power of n. It returns the list
  of functions that were timed, one entry for each size.
  """

  def fake(ratio, power=1.0):
    sizes = iter(objective_costs.SIZES)
    timed_names = []

    def compare(calls, reference, budget):
      n = next(sizes)
      timed_names.append(sorted(calls))
      groups = objective_costs.ELEMENTS / n
      return {
        name: timing.Timing(
          1e-8 * groups * n ** (power if name == WEIGHTS else 1.0),
          ratio if name == WEIGHTS else 1.0,
        )
        for name in calls
      }

    monkeypatch.setattr(timing, "compare", compare)
    one = {WEIGHTS: lambda x: x.scores}
    monkeypatch.setattr(objective_costs, "functions", lambda n: one)
    return timed_names

  return fake


@pytest.mark.parametrize(
  ("ratio", "status", "word"), [(4.0, 0, "PASS"), (4.1, 1, "FAIL")]
)
def test_the_limit_decides_the_exit_status(
  ratio, status, word, measured, tmp_path, capsys
):
  measured(ratio)
  path = tmp_path / "found.json"
  assert command.main(["objectives", "--json", str(path)]) == status
  assert f"{word}: " in capsys.readouterr().out
  results = json.loads(path.read_text())
  sizes = dict.fromkeys(map(str, objective_costs.SIZES), ratio)
  assert results[WEIGHTS] == sizes | {"exponent": pytest.approx(1)}


def test_json_without_a_file_prints_only_the_results(measured, capsys):
  measured(1.0)
  assert command.main(["objectives", "--json"]) == 0
  out, err = capsys.readouterr()
  assert WEIGHTS in json.loads(out)
  assert "PASS" in err


def test_a_call_that_would_take_over_a_second_is_skipped(measured, capsys):
  # .08 s and .67 s, so that n^1.5 foretells 5.4 s.
  timed_names = measured(1.0, power=2.5)
  assert command.main(["objectives"]) == 1, "nobody knows whether it passes"
  was_timed = [WEIGHTS in names for names in timed_names]
  assert was_timed == [True, True, False, False, False]
  out = capsys.readouterr().out
  assert "(5 s)" in out
  assert f"not measured: {WEIGHTS}" in out


def test_the_list_says_what_each_one_measures(capsys):
  assert command.main(["--list"]) == 0
  lines = capsys.readouterr().out.splitlines()
  assert [line.partition(":")[0] for line in lines] == list(command.BENCHMARKS)
  assert all(line.partition(": ")[2] for line in lines)


@pytest.mark.parametrize(
  ("words", "parts"),
  [
    (["objectivs"], ["'objectivs'", "did you mean 'objectives'?"]),
    ([], ["unknown benchmark", "available: objectives"]),
    (["objectives(larges=64)"], ["'larges'", "did you mean 'largest'?"]),
    (["objectives(largest=8)"], ["largest = 8", "at least 64"]),
    (["objectives(8)"], ["cannot read", "settings"]),
  ],
)
def test_a_mistake_is_one_line_and_status_2(words, parts, capsys):
  assert command.main(words) == 2
  out, err = capsys.readouterr()
  assert not out
  assert err.startswith("error: ")
  assert err.count("\n") == 1
  for part in parts:
    assert part in err, err
