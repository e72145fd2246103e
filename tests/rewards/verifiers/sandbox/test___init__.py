"""The host's side of the sandbox: its limits, its messages and its reports."""

import dataclasses
import inspect
import math
import time

import pytest

from rewards.verifiers import sandbox
from rewards.verifiers.sandbox import Report

NOT_STARTED = "the sandbox did not start"
SMALLEST = {
  "cpu_seconds": 1,
  "memory_bytes": 1,
  "disk_bytes": 1,
  "output_bytes": 1,
  "open_files": 1,
  "threads": 0,
  "processes": 0,
}


def test_the_documented_limits():
  assert dataclasses.asdict(sandbox.Limits()) == {
    "seconds": 10.0,
    "cpu_seconds": 5,
    "memory_bytes": 2**30,
    "disk_bytes": 2**26,
    "output_bytes": 2**22,
    "open_files": 64,
    "threads": 32,
    "processes": 0,
  }
  assert sandbox.Limits() == sandbox.DEFAULT
  assert Report(1, 2, 3) == Report(1, 2, 3, reason="", timeout=False)
  parameters = inspect.signature(sandbox.run).parameters
  assert parameters["limits"].default is sandbox.DEFAULT


@pytest.mark.parametrize("name", SMALLEST)
def test_the_smallest_limits_and_those_below_them(name):
  smallest = SMALLEST[name]
  assert getattr(sandbox.Limits(**{name: smallest}), name) == smallest
  for value in (smallest - 1, -5, smallest + 0.5, math.nan, math.inf):
    with pytest.raises(
      ValueError,
      match=f"{name} is {value}; it must be an integer of {smallest} or more",
    ):
      sandbox.Limits(**{name: value})


def test_seconds_are_positive_and_finite():
  for seconds in (1e-9, 0.5, 1, 1e9):
    assert sandbox.Limits(seconds=seconds).seconds == seconds
  for seconds in (0.0, -1.0, math.nan, math.inf):
    with pytest.raises(ValueError, match=f"seconds is {seconds}.*finite"):
      sandbox.Limits(seconds=seconds)


def test_limits_and_reports_do_not_change():
  for each, name in ((sandbox.DEFAULT, "seconds"), (Report(0, 0, 0), "reason")):
    with pytest.raises(dataclasses.FrozenInstanceError):
      setattr(each, name, 1)


def reports(monkeypatch, *replies, **settings):
  """Runs a job whose keeper sends the messages of each attempt in turn."""
  jobs = []
  remaining = iter(replies)

  def exchange(job, seconds):
    jobs.append((job, seconds))
    messages = next(remaining)
    if isinstance(messages, Exception):
      raise messages
    return messages

  monkeypatch.setattr(sandbox, "_exchange", exchange)
  job = {"program": "p", "tests": ["a"], **settings.pop("job", {})}
  return sandbox.run(job, **settings), jobs


@pytest.mark.parametrize(
  ("messages", "report"),
  [
    (
      [{"tests": 2}, {"test": 0, "passed": True}, {"all": True}],
      Report(1, 2, 2),
    ),
    (
      [
        {"tests": 3},
        {"test": 2, "passed": True},
        {"test": 1, "passed": True},
        {"test": 1, "passed": False},  # the later message counts
        {"all": False},
      ],
      Report(0, 1, 3),
    ),
    # All assertions held, but the test failed afterwards.
    (
      [{"tests": 2}, *({"test": i, "passed": True} for i in (0, 1))],
      Report(0, 1, 2),
    ),
    ([{"tests": 1}, {"test": 0, "passed": True}], Report(0, 0, 1)),
    ([{"tests": 4}], Report(0, 0, 4)),
    ([{"tests": 4}, {"timeout": True}], Report(0, 0, 4, timeout=True)),
    ([{"tests": 4}, {"late": True}], Report(0, 0, 4, timeout=True)),
    # A program that passed all tests was in time.
    ([{"tests": 4}, {"all": True}, {"late": True}], Report(1, 4, 4)),
    ([{"unscored": "no test"}], Report(-1, 0, 0, "no test")),
    (
      [{"tests": 2}, {"test": 0, "passed": True}, {"unscored": "no test"}],
      Report(-1, 0, 0, "no test"),
    ),
    (
      [{"missing": ["a lock", "a key"]}, {"tests": 2}, {"all": True}],
      Report(-1, 0, 0, "this machine lacks protections: a lock; a key"),
    ),
  ],
)
def test_the_report_of_messages(monkeypatch, messages, report):
  result, jobs = reports(monkeypatch, messages)
  assert result == report
  assert len(jobs) == 1


@pytest.mark.parametrize(
  ("messages", "results"),
  [
    ([{"tests": 2}, {"test": 0, "passed": True}, {"all": True}], (True, True)),
    (
      [
        {"tests": 3},
        {"test": 2, "passed": True},
        {"test": 0, "passed": False},
        {"all": False},
      ],
      (False, False, True),
    ),
    ([{"unscored": "no test"}], ()),
  ],
)
def test_the_results_of_the_tests(monkeypatch, messages, results):
  report, _ = reports(monkeypatch, messages)
  assert report.results == results


def test_missing_protections_do_not_count_if_that_is_allowed(monkeypatch):
  messages = [{"missing": ["a lock"]}, {"tests": 2}, {"all": True}]
  report, jobs = reports(monkeypatch, messages, allow_unprotected=True)
  assert report == Report(1, 2, 2)
  assert jobs[0][0]["allow_unprotected"] is True


def test_a_sandbox_that_does_not_start_is_tried_twice(monkeypatch):
  failed = [{"failed": "no memory"}]
  report, jobs = reports(monkeypatch, failed, [])
  assert report == Report(-1, 0, 0, f"{NOT_STARTED}: it sent no message")
  assert len(jobs) == 2
  report, jobs = reports(monkeypatch, [], failed)
  assert report == Report(-1, 0, 0, f"{NOT_STARTED}: no memory")
  report, jobs = reports(monkeypatch, OSError("no process"), [{"tests": 3}])
  assert report == Report(0, 0, 3)
  assert len(jobs) == 2
  report, jobs = reports(monkeypatch, *[OSError("no process")] * 2)
  assert report == Report(-1, 0, 0, f"{NOT_STARTED}: no process")


@pytest.mark.parametrize(
  ("job", "seconds", "patience"),
  [
    # 60 s for the start, and for each run its limit and 2 s.
    ({"tests": ["a", "b", "c"]}, 10.0, 72.0),
    ({"cases": [("", "")]}, 4.0, 66.0),
    ({"cases": [("", "")] * 3}, 4.0, 78.0),
  ],
)
def test_the_job_that_the_keeper_gets(monkeypatch, job, seconds, patience):
  limits = sandbox.Limits(seconds=seconds, threads=7)
  _, ((sent, killed_after),) = reports(
    monkeypatch, [{"tests": 1}], job=job, limits=limits
  )
  assert sent.pop("folder")
  assert sent == {
    "program": "p",
    "tests": ["a"],
    **job,
    **dataclasses.asdict(limits),
    "allow_unprotected": False,
    "patience": patience,
  }
  # The keeper has 30 s to end after it lost its patience.
  assert killed_after == patience + 30


def test_the_job_that_looks_for_protections(monkeypatch):
  jobs = []

  def exchange(job, seconds):
    jobs.append((job, seconds))
    return [{"missing": ["a lock", "a key"]}]

  monkeypatch.setattr(sandbox, "_exchange", exchange)
  sandbox._missing.cache_clear()
  try:
    assert sandbox.missing_protections() == ("a lock", "a key")
    assert sandbox.missing_protections() == ("a lock", "a key")
  finally:
    sandbox._missing.cache_clear()
  ((job, seconds),) = jobs
  assert (job["allow_unprotected"], job["patience"]) == (False, 60.0)
  assert job["memory_bytes"] == sandbox.DEFAULT.memory_bytes
  assert seconds == 90.0


def test_protections_are_looked_for_twice(monkeypatch):
  replies = [[{"failed": "busy"}], [{"unscored": "no room"}], [], []]
  remaining = iter(replies)
  monkeypatch.setattr(sandbox, "_exchange", lambda job, _: next(remaining))
  sandbox._missing.cache_clear()
  missing = [sandbox.missing_protections() for _ in range(2)]
  assert missing == [
    ("a sandbox that starts (no room)",),
    ("a sandbox that starts (it sent no message)",),
  ]
  assert not list(remaining)


def exchange(monkeypatch, main, job=None, seconds=60.0):
  """Returns the messages of a keeper with the given source."""
  monkeypatch.setattr(sandbox, "_MAIN", main)
  return sandbox._exchange(job or {}, seconds)


def test_a_keeper_has_a_session_and_nothing_of_the_host(monkeypatch):
  monkeypatch.setenv("EXTREMUM_SECRET_KEY", "secret")
  monkeypatch.setenv("LD_LIBRARY_PATH", "/usr/lib")
  main = """
import json, os, sys
print(json.dumps({"job": json.load(sys.stdin), "arguments": sys.argv[1:]}))
print(json.dumps({"leads": os.getsid(0) == os.getpid(), "in": os.getcwd()}))
print(json.dumps({"knows": sorted(set(os.environ) - {"LC_CTYPE"})}))
"""
  messages = exchange(monkeypatch, main, {"a": [1]})
  assert messages == [
    {"job": {"a": [1]}, "arguments": [sandbox.__name__, sandbox._FOLDER]},
    {"leads": True, "in": "/"},
    {"knows": ["LD_LIBRARY_PATH"]},
  ]


def test_messages_are_whole_lines_of_json(monkeypatch):
  main = r"""print('{"a": 1}\nno json\n{"b": 2}\n{"c": 3}', end="")"""
  assert exchange(monkeypatch, main) == [
    {"a": 1},
    {"unscored": f"{NOT_STARTED}: it sent b'no json\\n'"},
    {"b": 2},
  ]
  main = r"""import sys; print('{"a": 1}'); sys.exit("one\ntwo\nthree")"""
  assert exchange(monkeypatch, main) == [{"a": 1}, {"failed": "three"}]


def test_a_keeper_that_stays_is_killed(monkeypatch):
  main = "import time; print('{}', flush=True); time.sleep(60)"
  start = time.monotonic()
  assert exchange(monkeypatch, main, seconds=0.5) == [{}]
  assert time.monotonic() - start < 20
  with pytest.raises(TypeError, match="not JSON serializable"):
    exchange(monkeypatch, main, {"program": object()})
  assert time.monotonic() - start < 20
