"""Tests of the sides of a comparison: answers, failures, and ratios."""

import statistics
import sys

import pytest

from experiments.cli import errors
from experiments.studies.benchmark import (
  outcome,
  peer_comparison,
  rounds,
  sides,
)

SIDE = """
import os, sys, time
from experiments.studies.benchmark.peers import protocol

def prepare(job):
  if job.get("start") == "hangs":
    time.sleep(600)
  if job.get("start") == "dies":
    sys.exit("no such weights")

  def call(number, prompts=1):
    print("a library says hello")
    os.write(1, b"so does C\\n")
    if job.get("call") == "dies":
      print("out of memory", file=sys.stderr)
      os._exit(9)
    tokens = prompts * job.get("worth", 1) * job.get("speed", 1)
    return {"tokens": tokens, "number": number}

  return protocol.Served({"built": job}, call, {"echo": lambda **x: x})

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
    assert side.facts == {"built": {"worth": 7}}
    for number in (0, 5):
      call = side.run(number, prompts=3)
      assert call.tokens == 21
      assert call.counts["number"] == number
      assert call.peak_bytes > 2**20
      assert call.seconds > 0
      assert call.cpu_seconds >= 0
    assert side.ask("echo", folder="x") == {"folder": "x"}


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


def test_the_fastest_setting_is_left_running(launch):
  reports = []
  fastest = sides.start_fastest(
    launch(),
    # A token counts for so much that no delay of the machine decides.
    {"speed": (10**12, 1), "worth": (1, 10**12)},
    reports.append,
    trials=1,
    trial_settings=lambda candidate: {
      "prompts": 1 + (candidate.job["speed"] > 1)
    },
  )
  with fastest as side:
    assert side.launch.chosen == {"speed": 10**12, "worth": 10**12}
    assert side.launch.setting == f"speed {10**12}, worth {10**12}"
    assert side.run(1).tokens == 10**24
  tried = [text for text in reports if text.startswith("trying")]
  assert len(tried) == 3, "one option after the other, not the product"


def test_the_trial_job_is_used_for_trials_only(launch):
  reports = []
  fastest = sides.start_fastest(
    launch(worth=1),
    {"speed": (1, 10**12)},
    reports.append,
    trials=1,
    trial_job={"worth": 7},
  )
  with fastest as side:
    assert side.facts == {"built": {"worth": 1, "speed": 10**12}}
    assert side.launch.setting == f"speed {10**12}"
  assert not any("worth" in text for text in reports)


def test_a_setting_that_fails_is_not_chosen(launch):
  options = {"call": ("dies", "runs")}
  reports = []
  with sides.start_fastest(launch(), options, reports.append, trials=1) as side:
    assert side.launch.chosen == {"call": "runs"}
  assert any("out of memory" in text for text in reports)
  with pytest.raises(sides.SideError, match=r"of memory|limit is") as raised:
    sides.start_fastest(
      launch(), options, reports.append, trials=1, max_bytes=1
    )
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
    return sides.Call(seconds, seconds, 1, 100, {})


def test_calls_alternate_and_ratios_are_medians_over_rounds():
  log = []
  ours, peer = Stub("ours", 1.0, log), Stub("peer", 3.0, log)
  compared = rounds.compare(list(rounds.run_pairs(ours, peer, 5)))
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
    limit: peer_comparison.measure_row(
      "decode",
      "a shape",
      ours,
      peer,
      5,
      lambda call: 0.25 * call.seconds,
      lambda _: None,
      limit=limit,
      bound_limit=0.2,
    )
    for limit in (2.9, 3.1)
  }
  assert measured[2.9].ours == pytest.approx(3 * measured[2.9].peer)
  good, bad = (outcome.from_rows([row]) for row in measured.values())
  assert good.limits_met
  assert not bad.limits_met
  assert "ratio 3.00 of 3.10" in bad.verdict
  (json_row,) = bad.results["rows"]
  assert json_row["settings"] == {"ours": "threads 1", "peer": "threads 1"}
  assert json_row["bound_fraction"] == pytest.approx(0.25)
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
    self.tokens, self.launch = tokens, sides.Launch("it", "", {})

  def ask(self, question, **_):
    assert question == "greedy"
    return {"tokens": self.tokens}


def test_greedy_tokens_must_be_equal_and_change():
  our_tokens = [list(range(32)), list(range(32, 64))]
  peer_tokens = [our_tokens[0], [*our_tokens[1][:-1], 7]]
  reports = []
  peer_comparison.check_same_greedy_tokens(
    Greedy(our_tokens), Greedy(our_tokens), "folder", reports.append
  )
  assert "64 different" in reports[0]
  with pytest.raises(errors.UsageError, match="token 31 of prompt 1 is 7"):
    peer_comparison.check_same_greedy_tokens(
      Greedy(our_tokens), Greedy(peer_tokens), "folder", reports.append
    )
  same = Greedy([[5] * 32] * 2)
  with pytest.raises(errors.UsageError, match="prove nothing"):
    peer_comparison.check_same_greedy_tokens(
      same, same, "folder", reports.append
    )


def test_an_unknown_peer_is_refused():
  with pytest.raises(errors.UsageError, match="did you mean 'hf'"):
    peer_comparison.make_launch("hff", ("hf", "none"), {}, {})
  assert peer_comparison.make_launch("none", ("hf", "none"), {}, {}) is None
