"""Programs that do harm or lie: what each tries, and what the host sees of it.

A hostile program says what it managed as its function's value; where it could
say anything, the host looks for itself.
"""

import ast
import gzip
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import textwrap
import time
import uuid
from concurrent import futures

import numpy as np
import pytest

from rewards.verifiers import Item, Outcome, answer_id, code, sandbox, unscored
from rewards.verifiers.sandbox.inside import assertions

MISSING = sandbox.missing_protections()
QUICK = sandbox.Limits(seconds=2.0, cpu_seconds=2)
contained = pytest.mark.skipif(
  bool(MISSING), reason=f"this machine lacks {'; '.join(MISSING)}"
)


def returns(source, expected, limits=sandbox.DEFAULT, call="f()"):
  """The report on whether the program's `f()` returns the expected value."""
  job = {
    "program": textwrap.dedent(source),
    "tests": [f"assert {call} == {expected!r}, {call}"],
  }
  return sandbox.run(job, limits)


def prints(source, expected, limits=sandbox.DEFAULT, arguments=""):
  job = {"program": textwrap.dedent(source), "cases": [(arguments, expected)]}
  return sandbox.run(job, limits)


def processes_with(mark):
  """Processes of this machine that have the mark among their arguments."""
  result = []
  for entry in pathlib.Path("/proc").iterdir():
    try:
      if entry.name.isdigit() and mark in (entry / "cmdline").read_bytes():
        result.append(int(entry.name))
    except OSError:
      continue
  return result


def wait_until(condition, seconds=10.0):
  end = time.monotonic() + seconds
  while time.monotonic() < end:
    if condition():
      return True
    time.sleep(0.02)
  return False


def temporary_folders():
  folder = pathlib.Path(os.environ.get("TMPDIR", "/tmp"))
  return set(folder.glob("extremum-*"))


def recorded(monkeypatch, report=None):
  """Returns the list of (job, limits, settings) that the sandbox will get."""
  jobs = []

  def run(job, limits, **settings):
    jobs.append((job, limits, settings))
    return report or sandbox.Report(1, 4, 4)

  monkeypatch.setattr(sandbox, "run", run)
  return jobs


def judged(completion, of_item="", **meta):
  item = Item(of_item, completion, "", meta)
  return code.verify([item], QUICK, allow_unprotected=True)[0]


@pytest.mark.parametrize(
  ("report", "outcome"),
  [
    (sandbox.Report(1, 4, 4), (1.0, 1, {}, "")),
    (sandbox.Report(0, 1, 4), (0.25, 0, {}, "")),
    (sandbox.Report(0, 0, 4, timeout=True), (0.0, 0, {"timeout": 1.0}, "")),
    (sandbox.Report(-1, 0, 0, "no room"), (0.0, -1, {}, "no room")),
  ],
)
def test_the_outcome_of_a_report(monkeypatch, report, outcome):
  jobs = recorded(monkeypatch, report)
  score, verdict, parts, reason = outcome
  identity = answer_id("x = 1")
  expected = Outcome(score, verdict, "x = 1", identity, parts, reason)
  assert judged("```\nx = 1\n```", tests=["assert x"]) == expected
  assert jobs[0][1:] == (QUICK, {"allow_unprotected": True})


def test_what_is_not_run(monkeypatch):
  jobs = recorded(monkeypatch)
  assert judged(" ", tests=["assert x"]) == Outcome(0.0, 0, "", -1)
  reason = "no tests: meta has none of test, tests, cases"
  assert judged("x", a=1) == unscored(reason, "x", answer_id("x"))
  assert judged("", a=1) == unscored(reason)
  both = "no tests: meta has ['tests', 'cases'] of test, tests, cases"
  assert judged("x", cases=[], tests=[]).reason == both
  assert not jobs


PROMPT = "import os\ndef near(a): pass\ndef f(x):\n  'Twice x.'\n"
HELPERS = "import os\ndef near(a): pass\n"


@pytest.mark.parametrize(
  ("completion", "prelude", "program"),
  [
    ("  return 2 * x", "", PROMPT + "  return 2 * x"),
    ("def f(x): pass", HELPERS, "def f(x): pass"),
    ("async  def f(x): pass", HELPERS, "async  def f(x): pass"),
    ("x = 1\nclass f: pass", HELPERS, "x = 1\nclass f: pass"),
    ("f = abs", HELPERS, "f = abs"),
    ("def f2(x): pass", "", PROMPT + "def f2(x): pass"),
    ("  f = abs", "", PROMPT + "  f = abs"),
  ],
)
def test_the_job_of_a_check(monkeypatch, completion, prelude, program):
  jobs = recorded(monkeypatch)
  judged(completion, PROMPT, test="check", entry_point="f")
  meta = {"test": "check", "entry_point": "f", "prompt": PROMPT}
  judged(completion, "other", **meta)
  job = {
    "prelude": prelude,
    "program": program,
    "test": "check",
    "setup": HELPERS,
    "entry_point": "f",
  }
  assert [each[0] for each in jobs] == [job, job]


def test_the_jobs_of_assertions_and_cases(monkeypatch):
  jobs = recorded(monkeypatch)
  judged("x", cases=[("a", 1), [2, "b"]])
  judged("x", tests=["assert x", "assert y"])
  judged("x", tests=("assert x",), setup="y = 1", entry_point="z")
  tests = ["assert x", "assert y"]
  assert [job for job, _, _ in jobs] == [
    {"program": "x", "cases": [("a", "1"), ("2", "b")]},
    {"program": "x", "tests": tests, "setup": "", "entry_point": ""},
    {
      "program": "x",
      "tests": ["assert x"],
      "setup": "y = 1",
      "entry_point": "z",
    },
  ]


def test_as_many_programs_run_at_a_time_as_there_are_processors(monkeypatch):
  numbers = []

  class Pool(futures.ThreadPoolExecutor):
    def __init__(self, workers):
      numbers.append(workers)
      super().__init__(workers)

  def of_this_process(pid):
    return {0: {3, 5, 8}}[pid]

  monkeypatch.setattr(code.futures, "ThreadPoolExecutor", Pool)
  for function in (of_this_process, None):
    monkeypatch.setattr(code.os, "sched_getaffinity", function, raising=False)
    monkeypatch.setattr(code.os, "cpu_count", lambda: 7)
    code.verify([], allow_unprotected=True)
    code.verify([], workers=5, allow_unprotected=True)
  assert numbers == [3, 5, 7, 5]


@contained
class TestForms:
  CHECK = """
def check(candidate):
  assert candidate(2) == 4
  for x in range(3):
    assert candidate(x) == 2 * x
  assert True, "says nothing"
  assert candidate("ab") == "abab"
"""
  PROMPT = 'import math\n\ndef double(x):\n  """Twice x."""\n'

  def humaneval(self, completion):
    meta = {"test": self.CHECK, "entry_point": "double"}
    return code.verify([Item(self.PROMPT, completion, "", meta)])[0]

  @pytest.mark.parametrize(
    "completion",
    [
      "  return 2 * x\n",
      "```python\ndef double(x):\n  return x + x\n```",
      "Use\n```\nx = 1\n```\nthen\n```py\ndouble = lambda x: x + x\n```\nDone.",
      "```python\nfrom __future__ import annotations\n"
      "def double(x: y):\n  return math.prod([2]) * x\n```",
      "```python\ndef double(x):\n  return 2 * x",
    ],
  )
  def test_humaneval_right(self, completion):
    outcome = self.humaneval(completion)
    assert (outcome.verdict, outcome.score) == (1, 1.0)

  @pytest.mark.worked_example("function:code.verify")
  def test_humaneval_fraction_counts_assertions_not_their_loops(self):
    # Right for numbers: two of three assertions that say something.
    outcome = self.humaneval("  return 2 * x if x != 'ab' else x\n")
    assert outcome.verdict == 0
    assert outcome.score == pytest.approx(2 / 3)

  def test_tests_call_the_prompts_helpers_not_the_programs(self):
    prompt = "def near(a, b):\n  return abs(a - b) < 1\n\ndef root(x):\n"
    meta = {
      "test": "def check(candidate):\n  assert near(candidate(9), 3)",
      "entry_point": "root",
    }
    cheat = "def near(a, b):\n  return True\ndef root(x):\n  return 99"
    right = "def root(x):\n  return x ** 0.5"
    items = [Item(prompt, text, "", meta) for text in (cheat, right)]
    assert [each.verdict for each in code.verify(items)] == [0, 1]

  @pytest.mark.worked_example("function:code.verify")
  def test_assertions(self):
    meta = {
      "setup": "import math",
      "tests": [
        "assert area(1) == math.pi",
        "assert area(r=0) == 0",
        "assert Box(3).side == 3",
        "b = Box(3); b.side = 4; assert b.grow() == 5",
        "assert list(Box.count(3)) == [0, 1, 2]",
      ],
    }
    right = """```python
import math
def area(r):
  return math.pi * r * r
class Box:
  def __init__(self, side): self.side = side
  def grow(self): return self.side + 1
  @staticmethod
  def count(n): yield from range(n)
```"""
    wrong = right.replace("side + 1", "side - 1")
    items = [Item("", text, "", meta) for text in (right, wrong)]
    outcomes = code.verify(items)
    assert [each.verdict for each in outcomes] == [1, 0]
    assert outcomes[1].score == pytest.approx(4 / 5)

  def test_builtin_names_are_the_programs_only_if_asked_for(self):
    meta = {"tests": ["assert sum(10, 15) == 6"]}
    text = "def sum(a, b):\n  return 6"
    items = [
      Item("", text, "", meta),
      Item("", text, "", {**meta, "entry_point": "sum"}),
    ]
    assert [each.verdict for each in code.verify(items)] == [0, 1]

  def test_modules_of_the_tests_are_pythons_own(self):
    meta = {"tests": ["assert math.isclose(f(), 3.14, rel_tol=0.01)"]}
    cheat = "class math:\n  isclose = lambda *a, **k: True\ndef f(): return 9"
    texts = [cheat, "def f(): return 3.141"]
    outcomes = code.verify([Item("", text, "", meta) for text in texts])
    assert [each.verdict for each in outcomes] == [0, 1]

  @pytest.mark.worked_example("function:code.verify")
  def test_cases(self):
    meta = {"cases": [("1 2\n", "3\n"), ("5 7", "12"), ("-1 1", "0")]}
    program = "print(sum(map(int, input().split())), end='  \\n\\n')"
    texts = [
      program,
      program.replace("sum", "max"),
      f"if __name__ == '__main__':\n  {program}",
      f"{program}\nraise SystemExit(3)",
    ]
    outcomes = code.verify([Item("", text, "", meta) for text in texts])
    assert [each.verdict for each in outcomes] == [1, 0, 1, 0]
    assert outcomes[1].score == 0

  @pytest.mark.parametrize(
    "value",
    [
      "None",
      "True",
      "10 ** 6000",
      "-0.1",
      "float('inf')",
      "1j",
      "'\\ud800\\x00é\\n'",
      "b'\\xff'",
      "[(), [[]], {1: {2, 3}}, {(1,): 'a', True: None}]",
      "frozenset({1})",
      "range(1, 9, 2)",
    ],
  )
  def test_values_keep_their_type(self, value):
    job = {
      "program": f"def f(x):\n  y = {value}\n  assert x == y\n  return y",
      "tests": [
        f"y = f({value}); assert y == {value} and type(y) is type({value})"
      ],
    }
    assert sandbox.run(job).verdict == 1

  def test_exceptions_arrive_as_their_class(self):
    job = {
      "program": "class E(ValueError): pass\ndef f():\n  raise E('no')",
      "tests": [
        "try:\n  f()\nexcept ValueError as e:\n  assert 'no' in str(e)\n"
        "else:\n  assert False"
      ],
    }
    assert sandbox.run(job).verdict == 1

  def test_one_program_has_one_verdict(self):
    # The order of a set of strings depends on the hash seed.
    job = {
      "program": "def f(): return ''.join({'a', 'b', 'c', 'd', 'e', 'f'})",
      "tests": ["assert f() < 'c'"],
    }
    assert len({sandbox.run(job).verdict for _ in range(6)}) == 1


# Body of `check(candidate)`, a program that passes it, and one that must not.
CHECKS = {
  "a loop over nothing": (
    "for got, want in zip(candidate(3), [1, 2, 3]):\n  assert got == want",
    "def f(x): return [1, 2, 3]",
    "def f(x): return []",
  ),
  "an early return in a handler": (
    "try:\n  r = candidate(1)\nexcept Exception:\n  return\nassert r == 2",
    "def f(x): return 2",
    "def f(x): raise KeyError",
  ),
  "an early return in a handler that names the error": (
    "try:\n  r = candidate(1)\nexcept KeyError:\n  return\nassert r == 2",
    "def f(x): return 2",
    "def f(x): raise KeyError",
  ),
  "an error that the test allows": (
    "try:\n  assert candidate(-1) is None\nexcept ValueError:\n  pass",
    "def f(x): raise ValueError",
    "def f(x): return 2",
  ),
  "an error that the test allows before the assertion": (
    "assert candidate(1) == 1\n"
    "try:\n  r = candidate(-1)\n  assert r is None\nexcept ValueError:\n  pass",
    "def f(x):\n  if x < 0: raise ValueError\n  return x",
    "def f(x): return x",
  ),
  "an error that no handler names": (
    "assert candidate(1) == 1\n"
    "try:\n  assert candidate(2) == 2\nexcept Exception:\n  pass",
    "def f(x): return x",
    "def f(x):\n  if x > 1: raise ValueError\n  return x",
  ),
  "a failed assertion that the test swallows": (
    "assert candidate(1) == 1\n"
    "try:\n  assert candidate(2) == 2\nexcept AssertionError:\n  print('no')",
    "def f(x): return x",
    "def f(x): return 1",
  ),
  "a suppressed error": (
    "import contextlib\nassert candidate(1) == 1\n"
    "with contextlib.suppress(Exception):\n  assert candidate(2) == 2",
    "def f(x): return x",
    "def f(x): return 1",
  ),
  "a failed assertion for which the handler has another": (
    "try:\n  assert candidate(1) == 2\n"
    "except AssertionError:\n  assert candidate(1) == 3",
    "def f(x): return 3",
    "def f(x): return 4",
  ),
  "a handler that a right program does not enter": (
    "try:\n  r = candidate(1)\nexcept Exception as e:\n  assert str(e) == 'x'\n"
    "else:\n  assert r == 1",
    "def f(x): return 1",
    "def f(x): raise ValueError('y')",
  ),
  "a constant assertion that a right program does not reach": (
    "try:\n  r = candidate(1)\nexcept Exception:\n  assert False\n"
    "assert r == 1",
    "def f(x): return 1",
    "def f(x): raise ValueError",
  ),
  "both branches of an if": (
    "r = candidate(1)\nif isinstance(r, list):\n  assert r == [1]\n"
    "else:\n  assert r == 1",
    "def f(x): return [1]",
    "def f(x): return [2]",
  ),
  "an if without an alternative": (
    "r = candidate(1)\nif r:\n  assert r == [1]",
    "def f(x): return [1]",
    "def f(x): return []",
  ),
  "an early return without an assertion": (
    "r = candidate(1)\nif r is None:\n  return\nassert r == 1",
    "def f(x): return 1",
    "def f(x): return None",
  ),
  "an early return with an assertion": (
    "for x in (1, 2):\n  r = candidate(x)\n  if x == 1:\n"
    "    assert r == 1\n    continue\n  assert r == 4",
    "def f(x): return x * x",
    "def f(x): return x",
  ),
  "match": (
    "match candidate(1):\n  case [x]:\n    assert x == 1\n"
    "  case int(x):\n    assert x == 1",
    "def f(x): return 1",
    "def f(x): return None",
  ),
  "a helper in a loop over nothing": (
    "def same(a, b):\n  assert a == b\nsame(candidate(1), [1])\n"
    "for got, want in zip(candidate(3), [1, 2, 3]):\n  same(got, want)",
    "def f(x): return list(range(1, x + 1))",
    "def f(x): return [1] * (x == 1)",
  ),
  "a helper passed as a value": (
    "def same(a, b):\n  assert a == b\nassert candidate(1) == [1]\n"
    "list(map(same, candidate(3), [1, 2, 3]))",
    "def f(x): return list(range(1, x + 1))",
    "def f(x): return [1] * (x == 1)",
  ),
  "a helper that nobody calls": (
    "def unused(a):\n  assert a\nassert candidate(1) == 1",
    "def f(x): return x",
    "def f(x): return 2",
  ),
  "a helper of two branches": (
    "def same(a, b):\n  if isinstance(b, float):\n"
    "    assert abs(a - b) < .1\n    return\n  assert a == b\n"
    "same(candidate(1), 2)",
    "def f(x): return 2",
    "def f(x): return 3",
  ),
  "an assertion method of a class": (
    "class Checker:\n  def __init__(self, call): self.call = call\n"
    "  def check_all(self, cases):\n"
    "    for given, want in cases:\n      assert self.call(given) == want\n"
    "Checker(candidate).check_all([(1, 1), (2, 4)])",
    "def f(x): return x * x",
    "def f(x): return x",
  ),
  "unittest, whose result nobody reads": (
    "import unittest\nclass T(unittest.TestCase):\n"
    "  def test_one(self):\n    self.assertEqual(candidate(2), 4)\n"
    "  def test_two(self):\n    assert candidate(3) == 6\n"
    "suite = unittest.defaultTestLoader.loadTestsFromTestCase(T)\n"
    "suite.run(unittest.TestResult())",
    "def f(x): return 2 * x",
    "def f(x): return 4",
  ),
  "while": (
    "xs = candidate(3)\nwhile xs:\n  assert xs.pop() in (1, 2, 3)",
    "def f(x): return [1, 2, 3]",
    "def f(x): return []",
  ),
  "a loop with a break": (
    "for x in candidate(3):\n  if x == 3:\n    assert x > 2\n    break\n"
    "else:\n  assert candidate(0) == 1",
    "def f(x): return [3]",
    "def f(x): return []",
  ),
  "a condition and a message with effects": (
    "seen = []\nassert not seen.append(candidate(1)), seen.append('message')\n"
    "assert (last := candidate(2)) == 2, last\n"
    "assert seen == [1] and last == 2",
    "def f(x): return x",
    "def f(x): return 1",
  ),
  "no assertion at all": (
    "if candidate(2) != 4:\n  raise ValueError",
    "def f(x): return 4",
    "def f(x): return 5",
  ),
  "finally": (
    "try:\n  assert candidate(1) == 1\nfinally:\n  assert candidate(2) == 2",
    "def f(x): return x",
    "def f(x): return 2",
  ),
  "a return that swallows": (
    "try:\n  assert candidate(1) == 1\nfinally:\n  return",
    "def f(x): return x",
    "def f(x): return 2",
  ),
}


@contained
class TestAssertionsThatDoNotRun:
  @pytest.mark.parametrize("name", CHECKS)
  def test_in_the_humaneval_form(self, name):
    body, right, wrong = CHECKS[name]
    test = "def check(candidate):\n" + textwrap.indent(body, "  ")
    meta = {"test": test, "entry_point": "f"}
    outcomes = code.verify(
      [Item("", text, "", meta) for text in (right, wrong)]
    )
    assert [each.verdict for each in outcomes] == [1, 0]
    assert outcomes[0].score == 1
    assert outcomes[1].score < 1

  @pytest.mark.parametrize("name", ["a loop over nothing", "while"])
  def test_in_the_form_of_a_list(self, name):
    body, right, wrong = CHECKS[name]
    body = body.replace("candidate", "f")
    meta = {"tests": [body, "assert f"]}
    outcomes = code.verify(
      [Item("", text, "", meta) for text in (right, wrong)]
    )
    assert [each.verdict for each in outcomes] == [1, 0]
    assert [each.score for each in outcomes] == [1, 0.5]

  def test_check_called_several_times_must_hold_each_time(self):
    test = """
def check(candidate):
  for x in (1, 2):
    once(candidate, x)

def once(candidate, x):
  assert candidate(x) == x
  for y in candidate(x) * [x]:
    assert y == x
"""
    meta = {"test": test, "entry_point": "f"}
    texts = ["def f(x): return x", "def f(x): return 1", "def f(x): return 0"]
    outcomes = code.verify([Item("", text, "", meta) for text in texts])
    assert [each.verdict for each in outcomes] == [1, 0, 0]

  def test_the_score_counts_assertions_behind_the_first_that_fails(self):
    body = "\n".join(f"  assert candidate({x}) == {x}" for x in range(1, 6))
    meta = {"test": f"def check(candidate):\n{body}", "entry_point": "f"}
    text = "def f(x):\n  if x == 3: raise ValueError\n  return x"
    (outcome,) = code.verify([Item("", text, "", meta)])
    assert (outcome.verdict, outcome.score) == (0, pytest.approx(4 / 5))

  def test_a_wrong_program_is_not_late_because_it_runs_twice(self):
    # The first run takes .7 s of two; the second, for the score, uses them up.
    text = (
      "import time\ndef f(x):\n  start = time.process_time()\n"
      "  while time.process_time() - start < .7: pass\n  return 0"
    )
    test = "def check(candidate):\n  assert candidate(1)\n  assert candidate(2)"
    meta = {"test": test, "entry_point": "f"}
    limits = sandbox.Limits(seconds=20.0, cpu_seconds=2)
    (outcome,) = code.verify([Item("", text, "", meta)], limits)
    assert (outcome.verdict, outcome.parts) == (0, {})

  def test_the_rewritten_test_does_what_python_does(self):
    source = """
def run(log, f):
  for x in (0, 1, 2, 3):
    try:
      assert log(x) or f(x), log(("message", x))
      log("after")
    except ValueError as e:
      log(str(e))
    except (KeyError, AssertionError):
      log("caught")
      if x == 3:
        raise
    else:
      log("else")
    finally:
      log("finally")
    assert [log(y) for y in range(x)] is not None, 1 / 0
"""

    def trace(tree, hooks):
      log = []

      def f(x):
        if x == 2:
          raise ValueError("two")
        return x == 1

      space = dict(hooks)
      exec(compile(tree, "test", "exec"), space)
      try:
        space["run"](log.append, f)
      except BaseException as error:
        log.append(repr(error))
      return log

    reference, tree = ast.parse(source), ast.parse(source)
    hooks = assertions.Test([tree]).hooks
    assert trace(reference, {}) == trace(tree, hooks)
    assert "__condition__" in ast.unparse(tree)


@contained
class TestUnscored:
  @pytest.mark.parametrize(
    "meta",
    [
      {},
      None,
      {"tests": []},
      {"tests": "assert f() == 1"},
      {"cases": []},
      {"cases": [("a", "b", "c")]},
      {"tests": ["assert f() == 1"], "cases": [("", "")]},
      {"tests": ["assert f() =="]},
      {"tests": ["assert f() == 1"], "setup": "import no_such_module"},
      {"tests": ["assert f() == 1"], "setup": "raise SystemExit"},
      {"tests": ["assert f(lambda: 1) == 1"]},
      {"test": "def check(candidate):\n  assert candidate() == 1"},
      {"test": "x = 1", "entry_point": "f"},
    ],
  )
  def test_a_fault_of_the_tests_is_nobodys(self, meta):
    (outcome,) = code.verify([Item("", "def f(x=0): return 1", "", meta)])
    assert (outcome.verdict, outcome.score) == (-1, 0.0)
    assert outcome.reason
    assert "\n" not in outcome.reason

  def test_tests_that_do_not_end_by_themselves(self):
    job = {
      "program": "def f(): return 1",
      "tests": ["assert f() == 1"],
      "setup": "while True: pass",
    }
    limits = sandbox.Limits(seconds=1.0, cpu_seconds=3)
    assert sandbox.run(job, limits).verdict == -1

  def test_a_sandbox_that_cannot_start(self, monkeypatch):
    monkeypatch.setattr(sandbox, "_FOLDER", "/no/such/folder")
    item = Item("", "def f(): return 1", "", {"tests": ["assert f() == 1"]})
    (outcome,) = code.verify([item])
    assert outcome.verdict == -1
    assert "did not start" in outcome.reason


class TestProtection:
  def test_what_is_missing_is_the_machines_fault(self):
    assert not [text for text in MISSING if "sandbox that starts" in text]

  def test_a_passing_failure_is_not_kept(self, monkeypatch):
    failing, fine = [{"failed": "busy"}], [{"missing": []}, {"tests": 0}]
    sandbox._missing.cache_clear()
    with monkeypatch.context() as patch:
      patch.setattr(sandbox, "_exchange", lambda job, seconds: failing)
      assert sandbox.missing_protections() == ("a sandbox that starts (busy)",)
      answers = iter([[], fine])  # the second attempt succeeds
      patch.setattr(sandbox, "_exchange", lambda job, seconds: next(answers))
      assert sandbox.missing_protections() == ()
      assert sandbox.missing_protections() == ()  # without a third
    sandbox._missing.cache_clear()

  def test_refuses_where_means_are_missing(self, monkeypatch):
    monkeypatch.setattr(sandbox, "missing_protections", lambda: ("a lock",))
    with pytest.raises(RuntimeError, match=r"lacks .*: a lock\..*allow_unprot"):
      code.verify([Item("", "x", "", {"tests": ["assert x"]})])

  @pytest.mark.skipif(sys.platform != "linux", reason="of Linux")
  def test_without_name_spaces(self):
    # A user that is nobody in its name space may make no other.
    host = r"""
import ctypes, sys
if ctypes.CDLL(None).unshare(0x10000000) != 0:
  sys.exit(5)
from rewards.verifiers import sandbox
fork = "import os\ndef f():\n  try: os.fork()\n  except OSError: return 1"
kill = "import os\ndef f():\n  try: os.kill(-1, 9)\n  except OSError: return 1"
net = "import socket\ndef f():\n  try: socket.socket()\n"
net += "  except OSError: return 1"
programs = ("def f(): return 1", "def f(): return 2", fork, kill, net)
for allowed in (False, True):
  for program in programs:
    job = {"program": program, "tests": ["assert f() == 1"]}
    print(sandbox.run(job, allow_unprotected=allowed).verdict, end=" ")
print(len(sandbox.missing_protections()) > 0)
"""
    command = [sys.executable, "-c", host]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode == 5:
      pytest.skip("no user name spaces")
    assert done.stdout.split() == [*["-1"] * 5, "1", "0", *["1"] * 3, "True"]


@contained
@pytest.mark.parametrize("form", ["tests", "test", "cases"])
@pytest.mark.parametrize(
  ("body", "late"),
  [
    ("while True: pass", True),  # the processor's time
    ("import time; time.sleep(60)", True),  # the clock's
    ("import os, time; os.close(4); os.close(1); time.sleep(60)", None),
    ("x = 0", False),
    ("raise ValueError", False),
    ("import os; os._exit(1)", False),
    ("bytearray(1 << 40)", False),
  ],
)
def test_what_ran_out_of_time_is_wrong_and_counted(form, body, late):
  meta = {
    "tests": {"tests": ["assert f() == 1"]},
    "test": {
      "test": "def check(candidate):\n  assert candidate() == 1",
      "entry_point": "f",
    },
    "cases": {"cases": [("", "1")]},
  }[form]
  limits = sandbox.Limits(seconds=2.0, cpu_seconds=1)
  text = f"def f():\n  {body}\n" + ("f()" if form == "cases" else "")
  (outcome,) = code.verify([Item("", text, "", meta)], limits)
  assert (outcome.verdict, outcome.score) == (0, 0.0)
  if late is not None:  # who hangs up ends, whatever it does then
    assert outcome.parts == ({"timeout": 1.0} if late else {})


@pytest.mark.parametrize(
  ("text", "expected"),
  [
    ("x = 1\n", "x = 1\n"),
    ("  return 1\n", "  return 1\n"),
    ("```python\na\n```\n```Python\nb\n```\n```sh\nc\n```", "b\n"),
    ("```\na\n```\n```\nb\n```", "b\n"),
    ("```python\na", "a"),
    ("a ``` b", "a ``` b"),
    ("```x``` b", "```x``` b"),
    ("", ""),
    # A fence with a language opens a block, also before the last one is closed.
    ("```\na\n``` python\nb\n```\nc", "b\n"),
    ("```py\na\n```python\nb", "b"),
    # Other fences, and fences inside of a block.
    ("~~~python\na\n```\n~~~\nb", "a\n```\n"),
    ("````python\na\n```\nb\n````\nc", "a\n```\nb\n"),
    ("```python\na\n    ```\nb\n   ```\nc", "a\n    ```\nb\n"),
    # The indentation of the fence is removed, but not more than the lines have.
    ("  ```python\n  a\n    b\n\n  ```", "a\n  b\n\n"),
    ("1. So:\n\n   ```python\n   a\n     b\n   ```", "a\n  b\n"),
    ("- ```python\n  a\n  ```\n- b", "a\n"),
    ("10) ```python\n    a\n    ```", "a\n"),
    ("\t```\n\ta\n\t  b\n\t```", "a\n  b\n"),
    ("   ```\na\n  b\n   ```", "a\n  b\n"),
    ("   ```\n    a\n   ```", " a\n"),
    ("```\n    a\n```", "    a\n"),
    # The last block that calls something: an output is no program.
    ("```\nprint(2)\n```\nOutput:\n```\n2\n```", "print(2)\n"),
    ("```\nprint(1)\n```\n```\nprint(2)\n```", "print(2)\n"),
  ],
)
def test_the_code_of_a_text(text, expected):
  assert code.extract(text) == expected


F = "def f(x):\n  return 2 * x\n"
G = "def g(x):\n  return 2 * x\n"
F_OF_G = "def f(x):\n  return g(x)\n"


@pytest.mark.parametrize(
  ("blocks", "expected"),
  [
    # An example of use follows or precedes the function.
    ([F, "print(f(2))\n"], F),
    ([F, "from solution import f\nprint(f(2))\n"], F),
    ([F, "x = f(2)\nassert x == 4\n"], F),
    (["y = f(2)\n", "def f(x):\n  y = 2 * x\n  return y\n"],
     "def f(x):\n  y = 2 * x\n  return y\n"),
    # Of two attempts the last one counts.
    (["def f(x):\n  return x\n", "No:\n", F], F),
    ([F, "f = lambda x: 2\n"], "f = lambda x: 2\n"),
    ([F, "class f: pass\n"], "class f: pass\n"),
    ([F, "async def f(): pass\n"], "async def f(): pass\n"),
    # What the function needs stands in earlier blocks.
    ([G, F_OF_G], G + "\n" + F_OF_G),
    ([G, F_OF_G, "print(f(2))\n"], G + "\n" + F_OF_G),
    (["# helper of f\n" + G, F_OF_G], "# helper of f\n" + G + "\n" + F_OF_G),
    (["from math import pi as g\n", F_OF_G],
     "from math import pi as g\n\n" + F_OF_G),
    (["g: int = abs\n", F_OF_G], "g: int = abs\n\n" + F_OF_G),
    (["def h(x): pass\n", F], F),
    # Nothing defines the function.
    (["  return 2 * x\n"], "  return 2 * x\n"),
    ([G, "print(g(2))\n"], G + "\nprint(g(2))\n"),
  ],
)  # fmt: skip
def test_the_program_is_the_block_that_defines_what_is_tested(blocks, expected):
  fenced = "Then:\n".join(f"```python\n{block}```\n" for block in blocks)
  assert code.extract(fenced, ["f"]) == expected
  assert code.extract(fenced + "```\n4\n```", {"f"}) == expected
  assert code.extract(fenced.replace("```python", "```"), ["f"]) == expected


def test_only_python_counts_unless_only_another_block_defines_the_function():
  other = f"```\n{F}```\n"
  assert code.extract(f"```python\n{G}```\n{other}", ["f"]) == F
  assert code.extract(f"```python\n{G}```\n{other}", ["h"]) == G
  assert code.extract(f"```python\n{F}```\n```js\n{F}//\n```", ["f"]) == F


def test_the_last_32_blocks_are_searched():
  blocks = "```\nx(1)\n```\n"
  assert code.extract(f"```\n{F}```\n" + blocks * 31, ["f"]) == F
  assert code.extract(f"```\n{F}```\n" + blocks * 32, ["f"]) == "x(1)\n"


def test_the_tested_names_are_the_entry_point_or_those_of_the_assertions(
  monkeypatch,
):
  jobs = recorded(monkeypatch)
  text = f"```python\n{F}```\n```python\n{G}```\n```python\nprint(f(2))\n```"
  judged(text, tests=["assert f(2) == 4"])
  judged(text, tests=["assert f(2) == 4", "assert g(2) == 4"])
  judged(text, tests=["assert f(2) == 4"], entry_point="g")
  judged(text, "def f(x):\n", test="check", entry_point="f")
  judged(text, cases=[("", "4")])
  programs = [job["program"] for job, _, _ in jobs]
  assert programs == [F, F + "\n" + G, G, F, F + "\nprint(f(2))\n"]


def test_the_code_of_a_long_text_is_found_in_linear_time():
  for text in (
    "```" + "a" * 200_000,
    "```" + " " * 200_000,
    "```python\n" + "```" + "a" * 200_000,
    "```\n" * 50_000,
    " " * 200_000 + "```",
    "``` \t" * 50_000,
    "- " * 100_000 + "```",
    "```\n~~~\n" * 25_000,
    "```python\nf = 1\n```\n" * 10_000,
    "```python\n" + "x = (1\n" * 30_000,
    "```python\n" + "'''" * 60_000,
  ):
    start = time.process_time()
    code.extract(text, ["f"])
    assert time.process_time() - start < 0.5
  assert code.extract("```\na\n```\n```") == "a\n"


@contained
class TestNull:
  META = {  # noqa: RUF012
    "test": "def check(candidate):\n"
    "  assert candidate([3, 1, 2]) == [1, 2, 3]\n"
    "  assert candidate([]) == []\n"
    "  assert candidate([1]) == [1]",
    "entry_point": "ordered",
  }
  PROMPT = 'def ordered(xs):\n    """The list in increasing order."""\n'

  @pytest.mark.parametrize(
    "completion",
    [
      "",
      " \n\t\n",
      "```",
      "```python\n```",
      "    return []",
      "    return None",
      "    return xs",
      PROMPT,
      f"```python\n{PROMPT}```",
      "sort sorted order increasing list ordered return check assert True",
      "    " + "x = 1; " * 20_000,
      "#" * 1_000_000,
      "(" * 100_000,
      "    return " + "-" * 100_000 + "1",
      "\x00\ud800",
    ],
  )
  def test_never_beats_a_right_one(self, completion):
    texts = [completion, "    return sorted(xs)"]
    null, right = code.verify(
      [Item(self.PROMPT, text, "", self.META) for text in texts]
    )
    assert (right.verdict, right.score) == (1, 1.0)
    assert null.verdict == 0
    assert null.score < 1  # `return xs` is right on sorted lists


@contained
class TestLies:
  """A wrong program that tries to be called right."""

  META = {  # noqa: RUF012
    "test": "def check(candidate):\n"
    "  for got, want in zip(map(candidate, [1, 2]), [11, 12]):\n"
    "    assert got == want\n"
    "  try:\n    assert candidate(3) == 13\n  except Exception:\n    raise",
    "entry_point": "f",
  }
  LIES = {  # noqa: RUF012
    "exits": "import os; os._exit(0)",
    "exits when called": "import os\ndef f(x): os._exit(0)",
    "leaves": "import sys\ndef f(x): return 0\nsys.exit(0)",
    "leaves when called": "def f(x): raise SystemExit(0)",
    "interrupts": "def f(x): raise KeyboardInterrupt",
    "ends the tests' loop": "def f(x): raise StopIteration",
    "ends generators": "def f(x): raise GeneratorExit",
    "agrees with all": """
class Yes:
  def __eq__(self, other): return True
  def __ne__(self, other): return False
  def __bool__(self): return True
def f(x): return Yes()""",
    "is a number that agrees": """
class Yes(int):
  def __eq__(self, other): return True
  __hash__ = int.__hash__
def f(x): return Yes(7)""",
    "raises in a thread": """
import threading
def leave(): raise SystemExit(0)
def f(x):
  threading.Thread(target=leave).start()
  return 0""",
    "replaces functions": """
import builtins, json, sys
builtins.__import__ = None
json.dumps = lambda *a, **k: '{"value": true, "all": true, "test": 0}'
builtins.all = builtins.any = lambda *a: True
builtins.AssertionError = SystemExit
sys.exit = lambda *a: None
def f(x): return 0""",
    "prints the mark": """
import os
def f(x):
  for descriptor in range(64):
    for text in (b'{"all": true}', b'{"test": 0, "passed": true}', b'ready'):
      try: os.write(descriptor, text + b'\\n')
      except OSError: pass
  return 0""",
    "answers for its functions": """
import os
def f(x):
  os.write(4, b'{"value": {"object": [1]}}\\n' * 9)
  return 0""",
    "answers with what is no answer": """
import os
def f(x):
  os.write(4, b'[' * 100000 + b'\\n')
  return 0""",
    "looks for the answer": """
import gc, sys
def f(x):
  frame, seen = sys._getframe(), []
  while frame:
    seen.append(frame.f_locals); frame = frame.f_back
  for each in gc.get_objects() + seen:
    try:
      if isinstance(each, (list, tuple)) and 11 in each and 12 in each:
        if all(type(i) is int for i in each): return each[x - 1]
    except Exception: pass
  return 0""",
    "kills its parent": """
import os
def f(x):
  for sign in (9, 15, 2, 14):
    for pid in (os.getppid(), 1, 0, -1):
      try: os.kill(pid, sign)
      except OSError: pass
  return 0""",
  }

  @pytest.mark.parametrize("lie", LIES)
  @pytest.mark.parametrize("processes", [0, 4])
  def test_is_wrong(self, lie, processes):
    job = {"program": self.LIES[lie], "entry_point": "f"}
    limits = sandbox.Limits(seconds=2.0, cpu_seconds=2, processes=processes)
    report = sandbox.run({**job, "test": self.META["test"]}, limits)
    assert (report.verdict, report.num_passed) == (0, 0)

  def test_the_right_program_is_right(self):
    job = {"program": "def f(x): return x + 10", "entry_point": "f"}
    report = sandbox.run({**job, "test": self.META["test"]})
    assert (report.verdict, report.num_passed, report.num_tests) == (1, 2, 2)

  def test_a_run_cannot_spoil_the_next(self):
    # What it leaves in its folder is gone, and a failure is its own fault.
    program = """
import os
print(len(os.listdir()))
os.symlink("/dev/null/x", "input")
os.mkdir("d")
open("d/f", "w").close()
os.chmod("d", 0)
with open("program.py", "w") as file:
  file.write("print(1 / 0)")
"""
    cases = [("", "1"), ("", "1")]
    report = sandbox.run({"program": program, "cases": cases}, QUICK)
    assert report.verdict >= 0
    assert report.num_passed >= 1

  def test_the_judge_cannot_be_traced(self):
    source = """
    import ctypes, os
    libc = ctypes.CDLL(None, use_errno=True)
    def f():
      buffer = ctypes.create_string_buffer(8)
      attached = libc.ptrace(16, 1, 0, 0) == 0
      read = libc.process_vm_readv(1, buffer, 0, buffer, 0, 0) >= 0
      try:
        opened = bool(open("/proc/1/mem"))
      except OSError:
        opened = False
      return [attached, read, opened]
    """
    assert returns(source, [False] * 3).verdict == 1


@contained
class TestTimeAndMemory:
  @pytest.mark.parametrize(
    "source",
    [
      "while True: pass",
      "def f():\n  while True: pass",
      "import time\ndef f(): time.sleep(1000)",
      "def f():\n  while True:\n    try:\n      while True: pass\n"
      "    except BaseException: pass",
      "import signal\nfor s in set(signal.Signals) - {9, 19}:\n"
      "  try: signal.signal(s, signal.SIG_IGN)\n  except OSError: pass\n"
      "while True: pass",
      "def f(): return (10 ** 9) ** (10 ** 9)",
    ],
  )
  def test_endless_programs_end(self, source):
    start = time.monotonic()
    limits = sandbox.Limits(seconds=1.0, cpu_seconds=1)
    assert returns(source, 1, limits).verdict == 0
    assert time.monotonic() - start < 20

  def test_endless_runs_end_and_others_count(self):
    job = {
      "program": "while int(input()): pass\nprint(1)",
      "cases": [("0", "1"), ("7", "1"), ("0", "1")],
    }
    report = sandbox.run(job, sandbox.Limits(seconds=1.0))
    assert (report.verdict, report.num_passed, report.num_tests) == (0, 2, 3)

  def test_50_gigabytes(self):
    source = """
    import ctypes, mmap, os
    def tries(get):
      try:
        get()
      except (MemoryError, OSError, AttributeError, ValueError):
        return False
      return True
    size = 50 << 30
    libc = ctypes.CDLL(None)
    def f():
      return [
        tries(lambda: bytearray(size)),
        tries(lambda: [bytearray(1 << 20) for _ in range(size >> 20)]),
        tries(lambda: mmap.mmap(-1, size)),
        tries(lambda: os.memfd_create("x")),
        libc.shmget(0, ctypes.c_size_t(1 << 20), 0o1600) >= 0,
        os.path.exists("/dev/shm"),
      ]
    """
    assert returns(source, [False] * 6).verdict == 1

  def test_threads(self):
    source = """
    import threading, time
    def f():
      for count in range(1000):
        try:
          threading.Thread(target=time.sleep, args=(60,), daemon=True).start()
        except RuntimeError:
          return count <= 40
    """
    assert returns(source, True).verdict == 1

  @pytest.mark.parametrize("stream", [1, 2])
  def test_output_flood(self, stream):
    start = time.monotonic()
    source = f"import os\nwhile True: os.write({stream}, b'x' * 65536)"
    # Standard output is stopped by its cap, errors, unread, by the clock.
    seconds = {1: 60.0, 2: 1.0}[stream]
    limits = sandbox.Limits(seconds, cpu_seconds=60, output_bytes=1 << 20)
    assert prints(source, "x", limits).verdict == 0
    assert time.monotonic() - start < 30

  def test_a_returned_flood(self):
    source = "def f(): return 'x' * (100 << 20)"
    assert returns(source, "x").verdict == 0


@contained
class TestFiles:
  def test_disk_filling(self):
    source = """
    def f():
      total = 0
      try:
        for name in range(100):
          with open(str(name), "wb") as file:
            for _ in range(1000):
              total += file.write(b"x" * (1 << 20))
      except OSError:
        return total <= 1 << 26
    """
    assert returns(source, True).verdict == 1

  def test_only_its_folder_can_be_written(self):
    source = f"""
    import os
    def f():
      found = []
      for folder in ("/", "/usr", "/usr/lib", "/dev", {sys.base_prefix!r}):
        try:
          open(os.path.join(folder, "x"), "w")
          found.append(folder)
        except OSError:
          pass
      return found
    """
    assert returns(source, []).verdict == 1

  def test_nothing_is_left(self):
    before = temporary_folders()
    name = f"extremum-left-{uuid.uuid4().hex}"
    source = f"""
    import os
    def f():
      open("/tmp/{name}", "w").write("x")
      return os.listdir("/tmp") == ["{name}"]
    """
    assert returns(source, True).verdict == 1
    assert not pathlib.Path("/tmp", name).exists()
    assert wait_until(lambda: temporary_folders() <= before)

  def test_files_of_the_host_are_out_of_sight(self, tmp_path):
    secret = tmp_path / "secret"
    secret.write_text("secret")
    secret.chmod(0o644)
    paths = [str(secret), os.path.abspath(__file__), "/etc/passwd", "/proc/1"]
    source = f"""
    import os
    def f():
      return [os.path.exists(path) for path in {paths}]
    """
    assert [os.path.exists(path) for path in paths] == [True] * 4
    assert returns(source, [False] * 4).verdict == 1

  def test_environment_and_home(self, monkeypatch):
    monkeypatch.setenv("EXTREMUM_SECRET_KEY", "secret")
    source = """
    import os
    def f():
      known = {"HOME", "TMPDIR", "PATH", "PYTHONHASHSEED", "LD_LIBRARY_PATH"}
      return [
        sorted(set(os.environ) - known - {"LC_CTYPE"}),
        os.path.expanduser("~"),
        os.listdir("/tmp"),
        os.getuid(),
      ]
    """
    assert returns(source, [[], "/tmp", [], 65534]).verdict == 1

  def test_descriptors_of_the_host_are_closed(self, tmp_path):
    with open(tmp_path / "open", "w") as file:
      os.set_inheritable(file.fileno(), True)
      source = """
      import os
      def f():
        found = []
        for descriptor in range(1000):
          try:
            os.fstat(descriptor)
            found.append(descriptor)
          except OSError:
            pass
        return found
      """
      # Its own three, and the two pipes to the judge.
      assert returns(source, [0, 1, 2, 3, 4]).verdict == 1


@contained
class TestNetwork:
  def test_no_connection_leaves(self):
    name = f"\0extremum-{uuid.uuid4().hex}"
    source = """
    import socket
    def f(port, name):
      found = []
      for family, address in (
        (socket.AF_INET, ("127.0.0.1", port)),
        (socket.AF_INET6, ("::1", port)),
        (socket.AF_UNIX, name),
      ):
        try:
          with socket.socket(family) as s:
            s.settimeout(1)
            s.connect(address)
          found.append(str(family))
        except OSError:
          pass
      return found
    """
    with socket.create_server(("127.0.0.1", 0)) as server:
      port = server.getsockname()[1]
      with socket.socket(socket.AF_UNIX) as local:
        local.bind(name)
        local.listen()
        with socket.socket(socket.AF_UNIX) as reach:
          reach.connect(name)  # it can be reached from here
        call = f"f({port}, {name!r})"
        assert returns(source, [], call=call).verdict == 1
        server.settimeout(0.2)
        with pytest.raises(TimeoutError):
          server.accept()

  def test_new_name_spaces_are_refused(self):
    source = """
    import ctypes
    def f():
      libc = ctypes.CDLL(None)
      return [libc.unshare(flag) for flag in (0x10000000, 0x20000, 0x40000000)]
    """
    assert returns(source, [-1] * 3).verdict == 1


@contained
class TestProcesses:
  MANY = sandbox.Limits(processes=16)

  def test_none_may_be_started(self):
    source = """
    import os, subprocess, sys
    def f():
      found = []
      for start in (os.fork, lambda: subprocess.run([sys.executable, "-V"])):
        try:
          start()
          found.append(start)
        except PermissionError:
          pass
      return found
    """
    assert returns(source, []).verdict == 1

  @pytest.mark.parametrize("processes", [0, 16])
  def test_a_descriptor_has_no_owner(self, processes):
    source = """
    import array, fcntl, os, socket
    def f():
      found = []
      reader, writer = os.pipe()
      for command, argument in ((8, os.getppid()), (10, 9), (15, b"\\1" * 8)):
        try:
          fcntl.fcntl(reader, command, argument)
          found.append(command)
        except PermissionError:
          pass
      owner = array.array("i", [os.getppid()])
      one, other = socket.socketpair()
      for command in (0x8901, 0x8902):
        try:
          fcntl.ioctl(one, command, owner)
          found.append(command)
        except PermissionError:
          pass
      flags = fcntl.fcntl(reader, fcntl.F_GETFL)  # others are allowed
      fcntl.fcntl(reader, fcntl.F_SETFL, flags | os.O_NONBLOCK)
      fcntl.ioctl(one, 0x541B, owner)
      return found
    """
    limits = sandbox.Limits(processes=processes)
    assert returns(source, [], limits).verdict == 1

  @pytest.mark.parametrize("processes", [0, 16])
  def test_fork_bomb(self, processes):
    limits = sandbox.Limits(seconds=1.0, cpu_seconds=1, processes=processes)
    source = """
    import os
    while True:
      try: os.fork()
      except OSError: pass
    """
    start = time.monotonic()
    assert returns(source, 1, limits).verdict == 0
    assert prints(source, "1", limits).verdict == 0
    assert time.monotonic() - start < 20

  def test_processes_are_counted_per_program(self):
    source = """
    import os, time
    def f():
      for count in range(1000):
        try:
          if os.fork() == 0:
            time.sleep(1)
            os._exit(0)
        except OSError:
          return 16 <= count <= 60
    """
    item = Item("", textwrap.dedent(source), "", {"tests": ["assert f()"]})
    outcomes = code.verify([item] * 3, self.MANY, workers=3)
    assert [each.verdict for each in outcomes] == [1] * 3

  def daemon(self, mark, last):
    """A program that leaves a daemon with the mark among its arguments."""
    return f"""
import os, sys, time
def leave():
  if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
      sleep = "import time; time.sleep(300)"
      os.execv(sys.executable, [sys.executable, "-S", "-c", sleep, "{mark}"])
    os._exit(0)
  time.sleep(0.5)
  {last}
"""

  @pytest.mark.parametrize("form", ["call", "run"])
  def test_daemons_end_with_the_program(self, form):
    mark = uuid.uuid4().hex
    if form == "call":
      report = returns(
        self.daemon(mark, "return 1"), 1, self.MANY, call="leave()"
      )
    else:
      # It holds the output open: the run is not over until time is up.
      limits = sandbox.Limits(seconds=2.0, processes=16)
      report = prints(self.daemon(mark, "print(1)") + "leave()", "1", limits)
    assert report.verdict == int(form == "call")
    assert not processes_with(mark.encode())

  def test_everything_ends_with_the_host(self):
    mark = uuid.uuid4().hex
    program = self.daemon(mark, "time.sleep(300)")
    host = f"""
from rewards.verifiers import sandbox
job = {{"program": {program!r}, "tests": ["leave()"]}}
sandbox.run(job, sandbox.Limits(seconds=300, processes=16))
"""
    command = [sys.executable, "-c", host]
    with subprocess.Popen(command) as process:
      try:
        assert wait_until(lambda: processes_with(mark.encode()))
      finally:
        process.send_signal(signal.SIGKILL)
    assert wait_until(lambda: not processes_with(mark.encode()))


OPPOSITES = {
  ast.Lt: ast.GtE,
  ast.GtE: ast.Lt,
  ast.Gt: ast.LtE,
  ast.LtE: ast.Gt,
  ast.Eq: ast.NotEq,
  ast.NotEq: ast.Eq,
  ast.In: ast.NotIn,
  ast.NotIn: ast.In,
}
HUMANEVAL = pathlib.Path(
  os.environ.get("EXTREMUM_DATA", "/nonexistent"), "HumanEval.jsonl.gz"
)


@pytest.mark.skipif(not HUMANEVAL.exists(), reason="EXTREMUM_DATA lacks it")
class TestHumanEval:
  def rows(self):
    with gzip.open(HUMANEVAL, "rt", encoding="utf-8") as file:
      return [json.loads(line) for line in file]

  def verdicts(self, completions):
    keys = ("test", "entry_point")
    items = [
      Item(row["prompt"], text, "", {key: row[key] for key in keys})
      for row, text in zip(self.rows(), completions, strict=True)
    ]
    return np.array([each.verdict for each in code.verify(items, QUICK)])

  def mutant(self, row):
    """The solution with one comparison reversed, or else another result."""
    tree = ast.parse(row["prompt"] + row["canonical_solution"])
    functions = [n for n in tree.body if isinstance(n, ast.FunctionDef)]
    (entry,) = (n for n in functions if n.name == row["entry_point"])
    nodes = [
      node
      for statement in entry.body
      if not isinstance(statement, ast.FunctionDef)
      for node in ast.walk(statement)
    ]
    for node in nodes:
      if isinstance(node, ast.Compare) and type(node.ops[0]) in OPPOSITES:
        node.ops[0] = OPPOSITES[type(node.ops[0])]()
        return ast.unparse(tree)
    for node in nodes:
      if isinstance(node, ast.Return):
        node.value = ast.List([node.value], ast.Load())
    return ast.unparse(tree)

  def test_solutions_are_right(self):
    texts = [row["canonical_solution"] for row in self.rows()]
    assert (self.verdicts(texts) == 1).sum() == 164

  def test_mutants_are_wrong(self):
    texts = [f"```python\n{self.mutant(row)}\n```" for row in self.rows()]
    assert (self.verdicts(texts) == 0).sum() == 164
