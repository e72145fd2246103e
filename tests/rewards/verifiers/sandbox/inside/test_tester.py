"""The tester: its messages for tests, checks and cases, and its references."""

import contextlib
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import pytest
from helpers import program_starter

from rewards.verifiers import sandbox
from rewards.verifiers.sandbox.inside import program, tester

DRIVER = pathlib.Path(program.__file__).read_text()
ROOT = pathlib.Path(tester.__file__).parents[4]
LIMITS = {"seconds": 20.0, "cpu_seconds": 5, "output_bytes": 1 << 20}


@pytest.fixture
def judged(monkeypatch):
  """Runs a job with tests or a check; returns the messages."""
  peers = []

  class Peer(tester.Peer):
    def __init__(self, *arguments):
      peers.append(self)
      super().__init__(*arguments)

  def start(arguments, files):
    # The program's interpreter may start slowly.
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    return program_starter.start(arguments, files)

  def run(program_text, **job):
    messages = []
    job = {**LIMITS, "driver": DRIVER, "program": program_text, **job}
    tester.run(job, start, messages.append)
    if "unscored" not in messages[-1]:
      assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    return messages

  monkeypatch.setattr(tester, "Peer", Peer)
  handler = signal.getsignal(signal.SIGALRM)
  yield run
  signal.setitimer(signal.ITIMER_REAL, 0)
  signal.signal(signal.SIGALRM, handler)
  for peer in peers:
    os.close(peer._requests)
    peer._replies.close()
    with contextlib.suppress(ChildProcessError):
      if os.waitpid(peer.pid, os.WNOHANG)[0] == 0:
        os.kill(peer.pid, signal.SIGKILL)
        os.waitpid(peer.pid, 0)


def results(*verdicts, count=None, end=None):
  """The messages of tests in turn."""
  return [
    {"tests": len(verdicts) if count is None else count},
    *({"test": i, "passed": each} for i, each in enumerate(verdicts)),
    {"all": all(verdicts) if end is None else end},
  ]


def test_a_list_of_tests(judged):
  double = "def f(x): return 2 * x"
  tests = ["assert f(1) == 2", "assert f(2) == 5", "assert f('a') == 'aa'"]
  assert judged(double, tests=tests) == results(True, False, True)
  assert judged(double, tests=tests[::2]) == results(True, True)
  # An assertion that does not run has not passed.
  tests = ["for x in f([]):\n  assert x", "f(1)"]
  assert judged(double, tests=tests) == results(False, True)


SHARED = """
asked = []
def __getattr__(name):
  asked.append(name)
  raise AttributeError(name)
class Box:
  def __init__(self, side): self.side = side
  def grow(self, by=1): self.side += by
  def same(self, other): return other is self
class math: pi = 3
def g(): return 2
def len(x): return 7
def count(n): yield from range(n)
def winreg(x): return x + 1
winreg.text = "text"
"""


def test_names_belong_to_the_program_the_tests_or_python(judged):
  """The program's functions are got by their names, before the tests."""
  tests = [
    "assert g() == 1",  # of the setup
    "assert len([]) == 0",  # a builtin
    "assert math.pi > 3",  # a module of Python
    "b = Box(3); b.side = 4; b.grow(by=2); assert b.side == 6",
    "b = Box(3); assert b.same(b) and not b.same(3) and b != Box(3)",
    "b = Box(Box(3)); assert b.side is b.side and b.side.side == 3",
    "assert list(count(3)) == [0, 1, 2]",
    "assert count(1) != count(1)",
    "def typed(x: int): return\nassert typed.__annotations__ == {'x': int}",
    "import signal\nassert signal.getitimer(signal.ITIMER_REAL)[1] == 0.5",
    "assert not asked",
  ]
  setup = "def g(): return 1"
  messages = judged(SHARED, tests=tests, setup=setup)
  assert messages == results(*[True] * len(tests))
  # A name that the program lacks is asked for once, and its tests fail.
  messages = judged(SHARED, tests=["absent()", "assert asked == ['absent']"])
  assert messages == results(False, True)


@pytest.mark.parametrize(
  ("entry_point", "test"),
  [
    ("len", "assert len([]) == 7"),
    ("g", "assert g() == 2"),
    # Even if it has the name of a module, which need not exist here.
    ("winreg", "assert winreg(1) == 2, winreg.text"),
  ],
)
def test_the_entry_point_is_the_programs(judged, entry_point, test):
  messages = judged(SHARED, tests=[test], entry_point=entry_point)
  assert messages == results(True)


RAISING = """
class Own(UnicodeError): pass
def f(kind):
  if kind == "decode": b"\\xff".decode()
  if kind == "stop": raise StopIteration
  if kind == "own": raise Own("text")
  if kind == "exit": raise SystemExit("text")
  if kind == "async": raise StopAsyncIteration("text")
  raise KeyError("text")
"""


@pytest.mark.parametrize(
  ("kind", "arrives", "text"),
  [
    ("key", KeyError, "\"'text'\""),
    ("own", UnicodeError, "text"),
    ("decode", UnicodeError, "invalid start byte"),  # the nearest with a text
    ("stop", RuntimeError, ""),  # it would end a loop of the test
    ("async", RuntimeError, "text"),
    ("exit", RuntimeError, "text"),
  ],
)
def test_exceptions_of_the_program(judged, kind, arrives, text):
  test = (
    f"try:\n  f({kind!r})\nexcept Exception as error:\n"
    f"  assert {arrives.__name__} in type(error).__mro__[:2]\n"
    f"  assert {text!r} in str(error)\nelse:\n  assert f is None"
  )
  assert judged(RAISING, tests=[test]) == results(True)


CHECK = """
def check(candidate):
  with open({path!r}, "a") as file:
    file.write("run ")
  assert candidate(1) == 1
  assert candidate(2) == 4
  assert candidate(3) == 3
  try:
    assert candidate(4)
  except KeyError:
    pass
"""
SQUARE = "def f(x): return x * x if x < 4 else {}[x]"


def test_a_check_that_fails_runs_again_for_its_score(judged, tmp_path):
  path = str(tmp_path / "log")
  check = CHECK.format(path=path)
  settings = {"test": check, "entry_point": "f"}
  assert judged(SQUARE, **settings) == [
    {"tests": 4},
    {"test": 0, "passed": True},
    {"test": 1, "passed": True},
    # The second run, in which the fourth assertion is reached.
    {"test": 2, "passed": False},
    {"test": 3, "passed": True},
    {"all": False},
  ]
  assert pathlib.Path(path).read_text() == "run run "
  lookup = "def f(x): return {1: 1, 2: 4, 3: 3}[x]"
  assert judged(lookup, **settings) == results(*[True] * 4)
  assert pathlib.Path(path).read_text() == "run run run "


def test_a_check_with_one_assertion_or_none_runs_once(judged, tmp_path):
  path = tmp_path / "log"
  start = f"def check(candidate):\n  open({str(path)!r}, 'a').write('run ')\n"
  one, none = f"{start}  assert candidate(1)", f"{start}  candidate(1)"
  settings = {"entry_point": "f"}
  zero, fails = "def f(x): return 0", "def f(x): raise ValueError"
  assert judged(zero, test=one, **settings) == results(False)
  assert path.read_text() == "run "
  assert judged(zero, test=none, **settings) == results(True)
  assert judged(fails, test=none, **settings) == results(count=1, end=False)
  assert path.read_text() == "run run run "


def test_the_prelude_belongs_to_the_program(judged):
  messages = judged(
    "def f(): return base + 1", prelude="base = 4", tests=["assert f() == 5"]
  )
  assert messages == results(True)


def test_requests_and_replies_of_any_length_up_to_the_limit(judged):
  echo = "def f(x): return x\ndef g(n): return 'x' * n"
  text = "".join(map(str, range(50_000)))
  messages = judged(echo, tests=[f"assert f({text!r}) == {text!r}"])
  assert messages == results(True)
  # The reply is {"value": "xx...x"} with a newline: 14 bytes more.
  for length, fits in ((986, True), (987, False)):
    tests = [f"assert g({length}) == 'x' * {length}"]
    messages = judged(echo, tests=tests, output_bytes=1000)
    assert messages == results(fits)
  # The end is not concealed by a test that catches everything.
  tests = ["try:\n  g(2000)\nexcept BaseException:\n  pass", "g(1)"]
  messages = judged(echo, tests=tests, output_bytes=1000)
  assert messages == results(True, False)
  assert judged(echo, tests=tests[:1], output_bytes=1000) == results(
    True, end=False
  )


def test_what_cannot_be_judged(judged):
  def unscored(**job):
    ((key, reason),) = judged("def f(x): return x", **job)[-1].items()
    assert key == "unscored"
    return reason

  reason = unscored(tests=["assert f() =="])
  assert reason.startswith("the tests cannot be loaded: SyntaxError")
  reason = unscored(tests=["assert f"], setup="while True: pass", seconds=0.1)
  assert reason == "the tests take too long to load"
  assert "pass a function" in unscored(tests=["f(lambda: 1)"])
  reason = unscored(tests=["assert f"], driver="def main(): pass\n")
  assert reason == "the program's interpreter did not start"


@pytest.mark.parametrize("form", ["tests", "test"])
def test_a_program_that_is_late(judged, form):
  text = "import time\ndef f(): time.sleep(60)"
  job = {
    "tests": {"tests": ["assert f() is None"]},
    "test": {"test": "def check(f):\n  assert f() is None\n  assert f"},
  }[form]
  start = time.monotonic()
  messages = judged(text, seconds=0.4, entry_point="f", **job)
  assert messages[0] == {"tests": 1 if form == "tests" else 2}
  assert messages[-2:] == [{"timeout": True}, {"all": False}]
  assert time.monotonic() - start < 10


# A program that ends has exceeded its limit of 3 s if it used more than half.
USAGES = [((1.0, 0.5), False), ((1.0, 0.75), True)]


@pytest.mark.parametrize(("usage", "late"), USAGES)
def test_a_program_that_ends(judged, monkeypatch, usage, late):
  monkeypatch.setattr(os, "wait4", program_starter.usages(*usage))
  # It ends the dialogue and stays.
  text = "import os, time\ndef f():\n  os.close(4)\n  time.sleep(20)"
  start = time.monotonic()
  messages = judged(text, tests=["assert f()"], cpu_seconds=3)
  assert messages == [
    *results(False)[:-1],
    *([{"timeout": True}] if late else []),
    {"all": False},
  ]
  assert time.monotonic() - start < 10


LEAVES = """
import os
print(os.listdir())
os.mkdir("folder"), os.symlink({target!r}, "link"), open("file", "w").close()
"""


def test_cases(tmp_path):
  """Each entry has a program, its cases, and which of them pass."""
  folder = tmp_path / "folder"
  folder.mkdir()
  outside = tmp_path / "outside"
  outside.mkdir()
  (outside / "file").touch()
  alone = "['program.py']"
  full = "x" * 99 + "\n"
  slow = "import time\nprint(1, flush=True)\ntime.sleep(20)"
  closing = "import os, time\nprint(1, flush=True)\nos.close(1)\n"
  jobs = [
    ("print(input()[::-1])", [("abc\n", "cba"), ("ab", "ab")], ""),
    ("print('3  \\n\\n4\\n\\n')", [("", "3\n\n4"), ("", "3\n4")], ""),
    ("", [("", "\n\n"), ("", " x")], ""),
    ("print(1)\nraise SystemExit(3)", [("", "1")], ""),
    ("print(1)\nraise ValueError", [("", "1")], ""),
    (LEAVES.format(target=str(outside)), [("", alone), ("", alone)], ""),
    # Output up to the limit, and one byte more.
    (f"print({full[:-1]!r})", [("", full)], {"output_bytes": 100}),
    (
      f"import time\nprint({full[:-1]!r}, flush=True)\ntime.sleep(20)",
      [("", full)],
      {"output_bytes": 99, "cpu_seconds": 1},
    ),
    (slow, [("", "1")], {"seconds": 0.3}),
    (f"{closing}time.sleep(.2)\nos._exit(3)", [("", "1")], ""),
    # Only a program that fails may have exceeded its limit of 3 s.
    *(
      (f"print(1)\nraise SystemExit({status})", [("", "1")],
       {"usage": usage, "cpu_seconds": 3})
      for usage, _ in USAGES for status in (0, 1)
    ),
  ]  # fmt: skip
  texts = [
    {**LIMITS, "program": text, "cases": cases, **(limits or {})}
    for text, cases, limits in jobs
  ]
  command = [sys.executable, program_starter.__file__, str(ROOT)]
  start = time.monotonic()
  done = subprocess.run(
    command,
    cwd=folder,
    input=json.dumps(texts),
    capture_output=True,
    text=True,
    check=False,
  )
  assert done.returncode == 0, done.stderr
  late = {"timeout": True}
  assert [json.loads(line) for line in done.stdout.splitlines()] == [
    results(True, False),
    results(True, False),
    results(True, False),
    results(False),
    results(False),
    results(True, True),
    results(True),
    results(False),
    [{"tests": 1}, late, *results(False)[1:]],
    results(False),
    results(True),
    results(False),
    results(True),
    [{"tests": 1}, late, *results(False)[1:]],
  ]
  assert time.monotonic() - start < 15
  assert (outside / "file").exists()


@pytest.mark.skipif(
  bool(sandbox.missing_protections()), reason="this machine lacks protections"
)
def test_what_a_program_has_started_ends_with_its_run():
  text = (
    "import os, time\nprint(1, flush=True)\n"
    "if not os.fork():\n  os.setsid(), os.close(1), time.sleep(60)"
  )
  limits = sandbox.Limits(seconds=20.0, processes=4)
  start = time.monotonic()
  report = sandbox.run({"program": text, "cases": [("", "1")] * 2}, limits)
  assert (report.verdict, report.num_passed) == (1, 2)
  assert time.monotonic() - start < 15
