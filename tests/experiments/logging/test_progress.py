"""Lines of progress, with a clock that the tests set."""

import io
from types import SimpleNamespace

import pytest
import rich.console

from experiments.logging import progress


class Clock:
  """Time in seconds, which `wait` moves on."""

  def __init__(self, now=100.0):
    self.now = now

  def read(self):
    return self.now


@pytest.fixture
def clock(monkeypatch):
  result = Clock()
  fake = SimpleNamespace(perf_counter=result.read, monotonic=result.read)
  monkeypatch.setattr(progress, "time", fake)
  return result


def _run(heartbeat, clock, until, actions=()):
  """Runs a heartbeat in this thread, with `{time: action}`."""
  actions = dict(actions)

  def wait(seconds):
    clock.now += seconds
    actions.pop(clock.now, lambda: None)()
    return clock.now > until

  heartbeat._closed = SimpleNamespace(wait=wait)
  heartbeat._run()


def test_the_time_between_lines_doubles_up_to_a_minute(clock):
  printed = []
  heartbeat = progress.Heartbeat(lambda line: printed.append((clock.now, line)))
  heartbeat.start("compiling")
  _run(heartbeat, clock, until=310)
  seconds = (5, 10, 20, 40, 80, 140, 200)
  assert printed == [(100 + s, f"compiling, {s} s") for s in seconds]


def test_other_work_is_counted_from_its_start(clock):
  printed = []
  heartbeat = progress.Heartbeat(printed.append)
  actions = {
    101: lambda: heartbeat.start("first", first_seconds=2.0),
    104: lambda: heartbeat.start("second", first_seconds=3.0),
    108: heartbeat.stop,
  }
  _run(heartbeat, clock, until=130, actions=actions)
  assert printed == ["first, 2 s", "second, 3 s"]


@pytest.mark.parametrize("process", [0, 1])
def test_process_0_alone_prints_in_a_thread_that_ends_with_it(
  monkeypatch, process
):
  threads = []
  monkeypatch.setattr(
    progress.threading,
    "Thread",
    lambda **settings: SimpleNamespace(start=lambda: threads.append(settings)),
  )
  monkeypatch.setattr(progress.jax, "process_index", lambda: process)
  with progress.Heartbeat(print) as heartbeat:
    heartbeat.start("work")
  assert heartbeat._work is None
  assert heartbeat._closed.is_set()
  assert len(threads) == 1 - process
  assert all(settings["daemon"] for settings in threads)


def test_a_rate_is_that_since_the_first_update(clock):
  """The time before the first update is not counted, for it compiles."""
  printed = []
  with progress.lines(printed.append, "work", 10, 5.0, "parts") as update:
    for clock.now, done in ((150, 2), (154, 3), (155, 3), (160, 6), (170, 10)):
      update(done)
  assert printed == [
    "work: 10 parts",
    "work: 2 of 10 parts, 50 s",
    "work: 3 of 10 parts, 55 s, 35 s left",
    "work: 6 of 10 parts, 60 s, 10 s left",
  ]


def test_lines_are_ten_seconds_apart(clock):
  printed = []
  with progress.lines(printed.append, "work", 10) as update:
    for clock.now, done in ((109.75, 1), (110, 1), (119.75, 1), (120, 1)):
      update(done)
  assert printed == [
    "work: 10 problems",
    "work: 1 of 10 problems, 10 s",
    "work: 1 of 10 problems, 20 s",
  ]


def test_another_process_prints_nothing(monkeypatch, clock):
  monkeypatch.setattr(progress.jax, "process_index", lambda: 1)
  printed = []
  with progress.lines(printed.append, "work", 10, 0.0) as update:
    update(5)
  console = rich.console.Console(file=io.StringIO(), force_terminal=True)
  with progress.bar_or_lines(console, "work", 10) as update:
    update(5)
  assert (printed, console.file.getvalue()) == ([], "")


def test_a_line_is_plain_text_that_is_not_wrapped():
  console = rich.console.Console(
    file=io.StringIO(), width=20, color_system="truecolor", force_terminal=False
  )
  label = "[bold]/a/b/c.json[/bold] of 5 and of 'six'"
  with progress.bar_or_lines(console, label, 10):
    pass
  assert console.file.getvalue() == f"{label}: 10 problems\n"


def test_a_bar_is_short_enough_for_its_label():
  console = rich.console.Console(
    file=io.StringIO(), force_terminal=True, width=120, color_system=None
  )
  with progress.bar_or_lines(console, "work", 10) as update:
    update(10)
  (bar,) = {
    line.count("━")
    for line in console.file.getvalue().splitlines()
    if "10/10" in line
  }
  assert bar == 24
