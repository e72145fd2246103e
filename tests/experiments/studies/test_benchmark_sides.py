"""Tests of the sides of a comparison: answers, failures, and ratios."""

import dataclasses
import statistics
import sys

import pytest

from experiments.cli import errors
from experiments.studies.benchmark import (
  comparison,
  machine,
  outcome,
  sides,
  sizes,
)
from models import flop_counts

SIDE = """
import os, sys, time
from experiments.studies.benchmark.peers import protocol

def prepare(job):
  if job.get("start") == "hangs":
    time.sleep(600)
  if job.get("start") == "dies":
    sys.exit("no such weights")

  def call(number):
    print("a library says hello")
    os.write(1, b"so does C\\n")
    if job.get("call") == "dies":
      print("out of memory", file=sys.stderr)
      os._exit(9)
    tokens = job.get("worth", 1) * job.get("speed", 1)
    return {"tokens": tokens, "number": number}

  def train(requests):
    for iteration in range(job["iterations"]):
      number = requests.begin()
      requests.end({"tokens": 10 * number, "iteration": iteration})
    if job.get("train") == "fails":
      raise ValueError("out of data")

  asks = {"echo": lambda **x: x, "job": lambda: job}
  if "iterations" in job:
    return protocol.Served(asks, train=train)
  return protocol.Served(asks, call)

protocol.serve(prepare)
"""


@pytest.fixture
def launch(tmp_path, monkeypatch):
  """Returns a function from a job to the launch of the side above."""
  (tmp_path / "pretended_side.py").write_text(SIDE)
  monkeypatch.setenv("PYTHONPATH", str(tmp_path))
  return lambda **job: sides.Launch("pretended", "pretended_side", job)


def test_a_side_answers_whatever_its_libraries_print(launch):
  with sides.Side(launch(worth=7)) as side:
    assert side.ask("job") == {"worth": 7}
    for number in (0, 5):
      call = side.run(number)
      assert call.tokens == 7
      assert call.counts["number"] == number
      assert call.peak_bytes > 2**20
      assert call.seconds > 0
      assert call.cpu_seconds >= 0
    assert side.ask("echo", folder="x") == {"folder": "x"}


def test_a_trainer_runs_one_iteration_per_request(launch):
  with sides.Side(launch(iterations=9)) as side:
    for iteration, number in enumerate((3, 1)):
      call = side.run(number)
      assert call.tokens == 10 * number
      assert call.counts["iteration"] == iteration, "none is run ahead"
      assert side.ask("echo", folder="x") == {"folder": "x"}


@pytest.mark.parametrize(
  ("job", "reason"),
  [({}, "ended without being stopped"), ({"train": "fails"}, "out of data")],
)
def test_a_trainer_that_ends_raises_at_every_request(launch, job, reason):
  with sides.Side(launch(iterations=1, **job)) as side:
    assert side.run(5).tokens == 50
    for number in range(2):
      with pytest.raises(sides.SideError, match=reason):
        side.run(number)


def test_the_error_of_a_dead_side_has_its_last_output(launch):
  with (
    sides.Side(launch(call="dies")) as side,
    pytest.raises(sides.SideError, match=r"status 9.*out of memory"),
  ):
    side.run(0)
  with pytest.raises(errors.UsageError, match="no such weights") as raised:
    sides.Side(launch(start="dies"))
  assert "\n" not in str(raised.value)


def test_a_side_that_hangs_raises_an_error(launch):
  with pytest.raises(sides.SideError, match=r"no answer in 0\.2 s"):
    sides.Side(launch(start="hangs"), timeout_s=0.2)


def test_the_fastest_setting_is_started(launch):
  reports = []
  fastest = sides.start_fastest(
    launch(),
    # A token counts for so much that no delay of the machine decides.
    {"speed": (10**12, 1), "worth": (1, 10**12)},
    reports.append,
    trials=1,
  )
  with fastest as side:
    assert side.launch.chosen == {"speed": 10**12, "worth": 10**12}
    assert side.launch.setting == f"speed {10**12}, worth {10**12}"
    assert side.run(1).tokens == 10**24
  tried = [text for text in reports if text.startswith("trying")]
  assert len(tried) == 3, "one option after the other, not the product"


def test_the_job_of_a_trial_is_used_for_trials_only(launch):
  reports = []
  fastest = sides.start_fastest(
    launch(worth=1),
    {"speed": (1, 10**12)},
    reports.append,
    trials=1,
    # The first candidate is the faster one in its trial only.
    trial=lambda job: {"worth": 10**24 if job["speed"] == 1 else 1},
  )
  with fastest as side:
    assert side.ask("job") == {"worth": 1, "speed": 1}
    assert side.launch.setting == "speed 1"
  assert not any("worth" in text for text in reports)


def test_the_fastest_in_a_trial_is_started_with_its_whole_job(launch):
  reports = []
  fastest = sides.start_fastest(
    launch(worth=1),
    {"speed": (1, 10**12)},
    reports.append,
    trials=1,
    trial=lambda job: {"worth": 7},
  )
  with fastest as side:
    assert side.ask("job") == {"worth": 1, "speed": 10**12}
    assert side.launch.setting == f"speed {10**12}"
  assert not any("worth" in text for text in reports)


def test_a_setting_that_fails_is_not_chosen(launch):
  options = {"call": ("dies", "runs")}
  reports = []
  with sides.start_fastest(launch(), options, reports.append, trials=1) as side:
    assert side.launch.chosen == {"call": "runs"}
  assert any("out of memory" in text for text in reports)
  limited = dataclasses.replace(launch(), max_bytes=1)
  with pytest.raises(sides.SideError, match=r"of memory|limit is") as raised:
    sides.start_fastest(limited, options, reports.append, trials=1)
  assert "out of memory" in str(raised.value)
  assert "limit is 0.0 GiB" in str(raised.value)


def test_a_single_setting_is_not_tried(launch):
  reports = []
  options = {"worth": (3,)}
  with sides.start_fastest(
    launch(), options, reports.append, trials=99
  ) as side:
    assert side.launch.chosen == {"worth": 3}
  assert reports == []


class Stub:
  """A side without a process, on a machine where every other pair is slow."""

  def __init__(self, name, seconds, log):
    self.launch = sides.Launch(name, "", {}).with_settings(threads=1)
    self.seconds, self.log = seconds, log

  def run(self, number, **_):
    self.log.append((self.launch.name, number))
    slowness = 1 + 4 * (number % 2)
    seconds = slowness * self.seconds
    return sides.Call(seconds, seconds, 1, 100, {"lengths": [[100]]})


def measure_row(ours, peer, calls=5, **limits):
  """Measures a row on a machine on which every call needs a quarter second."""
  return comparison.measure_row(
    comparison.Rival("decode", **limits),
    sizes.Shape(sizes.decoder(1, 128, 64), 1, 1, 4, 100),
    ours,
    peer,
    calls,
    [lambda model, length, lengths: flop_counts.Cost(0.25, 0.0)],
    machine.Machine(flops=1.0, bandwidth=1.0),
    lambda _: None,
  )


def test_calls_alternate_and_ratios_are_medians_over_rounds():
  log = []
  ours, peer = Stub("ours", 1.0, log), Stub("peer", 3.0, log)
  compared = measure_row(ours, peer)
  assert log[:2] == [("ours", 0), ("peer", 0)], "warm first"
  first = [log[2 + 2 * i][0] for i in range(5)]
  assert first == ["ours", "peer", "ours", "peer", "ours"]
  assert [number for _, number in log[2::2]] == [1, 2, 3, 4, 5]
  assert compared.ratio == pytest.approx(3)
  assert compared.cpu_ratio == pytest.approx(3)
  seconds = statistics.median([5, 1, 5, 1, 5])
  assert compared.ours == pytest.approx(3 * compared.peer)
  assert compared.ours == pytest.approx(ours.run(0).tokens / seconds)


def test_a_row_compares_its_ratio_with_the_limit():
  ours, peer = Stub("ours", 1.0, []), Stub("peer", 3.0, [])
  measured = {
    limit: measure_row(ours, peer, limit=limit, bound_limit=0.04)
    for limit in (2.9, 3.1)
  }
  assert measured[2.9].ours == pytest.approx(3 * measured[2.9].peer)
  good, bad = (outcome.from_rows([row]) for row in measured.values())
  assert good.limits_met
  assert not bad.limits_met
  assert "ratio 3.00 of 3.10" in bad.verdict
  (json_row,) = bad.results["rows"]
  assert json_row["settings"] == {"ours": "threads 1", "peer": "threads 1"}
  # The median call takes 5 seconds.
  assert json_row["bound_fraction"] == pytest.approx(0.25 / 5)
  assert json_row["work"]["mfu"] == pytest.approx(0.25 / 5)
  names = {"name", "shape", "ours", "peer", "ratio", "bound_fraction"}
  assert names <= json_row.keys()


def test_a_share_of_the_bound_can_be_missed_too():
  row = outcome.Row("u", "s", "tokens/s", 1.0, bound_fraction=0.5)
  assert outcome.from_rows([row]).limits_met
  limited = outcome.Row(
    "u", "s", "tokens/s", 1.0, bound_fraction=0.5, bound_limit=0.55
  )
  assert not outcome.from_rows([limited]).limits_met


def test_missing_packages_are_one_line():
  get = "pip install it"
  sides.check_installed("hf", sys.executable, ["json", "math"], get)
  with pytest.raises(errors.UsageError, match="no_such_thing: pip") as raised:
    sides.check_installed("hf", sys.executable, ["json", "no_such_thing"], get)
  assert "--python hf=PATH" in str(raised.value)
  with pytest.raises(errors.UsageError, match="interpreter of hf"):
    sides.check_installed("hf", "no/such/python", ["json"], get)


class Greedy:
  """A side whose greedy tokens are fixed."""

  def __init__(self, tokens):
    self.tokens = tokens
    self.launch = sides.Launch("it", "", {"plain": "folder"})

  def ask(self, question, **_):
    assert question == "greedy"
    return {"tokens": self.tokens}


def test_greedy_tokens_must_be_equal_and_change():
  our_tokens = [list(range(32)), list(range(32, 64))]
  peer_tokens = [our_tokens[0], [*our_tokens[1][:-1], 7]]
  reports = []
  comparison.check_same_greedy_tokens(
    Greedy(our_tokens), Greedy(our_tokens), reports.append
  )
  assert "64 different" in reports[0]
  with pytest.raises(errors.UsageError, match="token 31 of prompt 1 is 7"):
    comparison.check_same_greedy_tokens(
      Greedy(our_tokens), Greedy(peer_tokens), reports.append
    )
  same = Greedy([[5] * 32] * 2)
  with pytest.raises(errors.UsageError, match="prove nothing"):
    comparison.check_same_greedy_tokens(same, same, reports.append)


def test_an_unknown_peer_is_refused():
  with pytest.raises(errors.UsageError, match="did you mean 'hf'"):
    comparison.find_peer("hff", ("hf", "none"), {})
  assert comparison.find_peer("none", ("hf", "none"), {}) is None
