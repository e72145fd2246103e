"""Tests of `rewards.tasks.programs`: execution, and changes of lines."""

import pytest

from rewards.tasks import programs
from rewards.verifiers import sandbox

if sandbox.missing_protections():
  pytest.skip(
    f"it lacks {'; '.join(sandbox.missing_protections())}",
    allow_module_level=True,
  )

OPERATIONS = (("plus", "3"), ("times", "y"), ("from", "4"))


def ids(text):
  return [programs.ID[word] for word in text.split()]


def texts(lines):
  return [" ".join(programs.WORDS[i] for i in line) for line in lines]


def verdict(text, operations=OPERATIONS):
  (value,) = programs.verdicts([programs.Job(text, operations)])
  return value


def test_result_makes_the_operations_from_left_to_right():
  assert programs.result(OPERATIONS, 2, 5) == 4 - (2 + 3) * 5
  assert programs.result((("minus", "7"),), 2, 5) == -5
  assert programs.result((), 2, 5) == 2


def test_verdicts_are_those_of_execution():
  """In one sandbox; wrong, crashing and repeated programs spoil no other."""
  right = "x = x + 3\nx *= y\nx = 4 - x\nreturn x"
  bodies = {
    right: 1,
    "x += 3\nx = y * x\nreturn 4 - x": 1,
    "x = x + 3\nx *= y\nx = x - 4\nreturn x": 0,  # operands are exchanged
    "x *= y\nx = x + 3\nx = 4 - x\nreturn x": 0,  # another order
    "x = x + 3\nx *= y\nx = 4 - x": 0,  # returns None
    "x = x +\nx *= y\nx = 4 - x\nreturn x": 0,  # no Python
    "x = plus\nreturn x": 0,  # raises NameError
    "": 0,
    "\n".join(["x *= x"] * 12 + ["return x"]): 0,  # huge values
  }
  jobs = [programs.Job(body, OPERATIONS) for body in (*bodies, right)]
  assert programs.verdicts(jobs) == [*bodies.values(), 1]
  assert programs.verdicts([]) == []


def test_the_inputs_distinguish_all_operations():
  """Also from the operation that leaves x as it is."""
  singles = [
    ((operator, operand),)
    for operator in programs.OPERATORS
    for operand in programs.OPERANDS
  ]
  values = {
    tuple(programs.result(some, *arguments) for arguments in programs.INPUTS)
    for some in ((), *singles)
  }
  assert len(values) == 1 + len(singles)


def test_a_failure_of_the_sandbox_is_unknown(monkeypatch):
  reports = {
    sandbox.Report(-1, 0, 0, "no sandbox"): [-1, -1],
    sandbox.Report(0, 1, 2, timeout=True, results=(True, False)): [1, -1],
    sandbox.Report(0, 1, 2, results=(True, False)): [1, 0],
  }
  jobs = [programs.Job(f"return {value}", OPERATIONS) for value in "xy"]
  for report, expected in reports.items():
    monkeypatch.setattr(sandbox, "run", lambda *_, r=report, **__: r)
    assert programs.verdicts(jobs) == expected


def test_programs_need_protection_unless_that_is_allowed(monkeypatch):
  seen = []

  def run(job, limits, allow_unprotected):
    seen.append(allow_unprotected)
    return sandbox.Report(1, 1, 1, results=(True,))

  monkeypatch.setattr(sandbox, "run", run)
  job = programs.Job("return x", OPERATIONS)
  programs.verdicts([job])
  programs.verdicts([job], allow_unprotected=True)
  assert seen == [False, True]


def test_many_programs_take_turns(monkeypatch):
  monkeypatch.setattr(programs, "_JOBS", 2)
  jobs = [
    programs.Job(f"return x + {i}", (("plus", "5"),)) for i in range(3, 8)
  ]
  assert programs.verdicts(jobs) == [0, 0, 1, 0, 0]


def test_refactorings_keep_the_meaning():
  assert texts(programs.refactorings(ids("x = x + 3"))) == [
    "x += 3",
    "x = 3 + x",
  ]
  assert texts(programs.refactorings(ids("x = y * x"))) == [
    "x = x * y",
    "x *= y",
  ]
  assert texts(programs.refactorings(ids("x -= 3"))) == ["x = x - 3"]
  assert texts(programs.refactorings(ids("y = x + 3"))) == ["y = 3 + x"]
  for text in ("x = 3 - x", "return x", "x = 3", ""):
    assert programs.refactorings(ids(text)) == []
  for operator in programs.OPERATORS:
    operations = ((operator, "y"),)
    lines = texts(programs.writings(*operations[0]))
    assert (
      len(lines) == {"plus": 3, "times": 3, "minus": 2, "from": 1}[operator]
    )
    assert [verdict(f"{line}\nreturn x", operations) for line in lines] == [
      1
    ] * len(lines)


def test_mutations_have_an_error():
  lines = texts(programs.mutations(ids("x -= 3")))
  assert len(lines) == len(set(lines))
  # One name, two symbols, nine values; eighteen pairs; three missing tokens.
  assert len(lines) == 1 + 2 + 9 + 18 + 3
  assert {"y -= 3", "x += 3", "x -= y", "x *= 9", "x -=", "-= 3"} <= set(lines)
  assert "x -= 3" not in lines
  operations = (("minus", "3"),)
  for text in ("x -= 3", "x = x - 3"):
    jobs = [
      programs.Job(f"{line}\nreturn x", operations)
      for line in texts(programs.mutations(ids(text)))
    ]
    assert programs.verdicts(jobs) == [0] * len(jobs)
  binary = texts(programs.mutations(ids("x = x - 3")))
  assert {"x = 3 - x", "x = 3 + x"} <= set(binary)
  assert "x = 3 + x" not in texts(programs.mutations(ids("x = x + 3")))
  assert "y" in {text.split()[-1] for text in binary}
  assert texts(programs.mutations(ids("return x")))[-2:] == ["x", "return"]
  # A line of one token does not lose it, because no line is empty.
  assert all(programs.mutations(ids("x")))


def test_a_line_is_judged_by_its_operation():
  """Line n makes the n-th operation; the line after the last one returns x."""
  jobs = [
    programs.line_job(line, k, OPERATIONS)
    for k, line in enumerate(["x += 3", "x -= y", "x = 4 - x", "return x"])
  ]
  assert programs.verdicts(jobs) == [1, 0, 1, 1]
  assert programs.line_job("return x", 4, OPERATIONS) is None
  # The last operation and the return can share a line.
  assert verdict(*programs.line_job("return 4 - x", 2, OPERATIONS)) == 1
  assert verdict(*programs.line_job("return y", 3, OPERATIONS)) == 0
  assert verdict(*programs.line_job("x = x", 3, OPERATIONS)) == 0
