"""Programs: short functions in Python that make a list of operations.

The prompt is `op o op o ... :`, with operations op and operands o, which are
the constants 2 to 9 or the second argument y of the function. A completion is
the body of `def f(x, y)`: statements with `;` between them, each of which is
one line of the program, and EOS. The function shall make the operations on x
from left to right and return the result:

  plus o    x + o          times o   x * o
  minus o   x - o          from o    o - x

  verdict     1 if the function has the right values at all `INPUTS`, else 0
  line score  +1 for line n if it makes the n-th operation, and for the line
              after the last operation if it returns x, else -1

A line makes an operation if the function of this line and `return x` has the
right values of this operation. The line scores are a checker of lines by a
rule: a right program whose lines make other operations, such as two additions
in the other order, has lines that score -1.

All values come from execution in the sandbox: a text that is no Python, or that
raises an exception, is a wrong program.

Example, for the prompt `plus 3 times y :`
  x = x + 3 ; x *= y ; return x EOS     f(2, 5) = 25, a right program: +++
  x = 3 + x ; x = x - y ; return x EOS  f(2, 5) = 0, a wrong program: +-+
  x = x + ; x *= y ; return x EOS       no Python, a wrong program: -++

Usage:
  verdicts([Job("x = x + 3\\nreturn x", (("plus", "3"),))])  # [1]
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple

from rewards.verifiers import sandbox

OPERATORS = ("plus", "minus", "times", "from")  # words of the prompt
OPERANDS = (*map(str, range(2, 10)), "y")
_BINARY, _AUGMENTED = ("+", "-", "*"), ("+=", "-=", "*=")
_VALUES = ("x", *OPERANDS)
WORDS = (
  *("<pad>", "<eos>", ";", ":", "return", "="),
  *_BINARY,
  *_AUGMENTED,
  *_VALUES,
  *OPERATORS,
)
ID = {word: i for i, word in enumerate(WORDS)}
PAD, EOS, END, COLON, RETURN = range(5)
# Arguments x and y with which programs are tested.
INPUTS = ((2, 5), (7, -3), (-4, 2), (10, 11), (-9, -6))

Operations = tuple[tuple[str, str], ...]  # pairs of operator and operand

_APPLY: Mapping[str, Callable[[int, int], int]] = {
  "plus": lambda value, operand: value + operand,
  "minus": lambda value, operand: value - operand,
  "times": lambda value, operand: value * operand,
  "from": lambda value, operand: operand - value,
}
_SYMBOLS = {"plus": "+", "minus": "-", "times": "*"}
_JOBS = 1024  # largest number of programs that share a sandbox
# Time of all programs of a sandbox together; a program has no loop.
_LIMITS = sandbox.Limits(seconds=60.0, cpu_seconds=30)


class Job(NamedTuple):
  """A program with the operations that it shall make.

  Attributes:
    body: lines of the function, with line breaks between them.
    operations: the operations.
  """

  body: str
  operations: Operations


def result(operations: Operations, x: int, y: int) -> int:
  """Returns the value that a right program returns for two arguments."""
  for operator, operand in operations:
    x = _APPLY[operator](x, y if operand == "y" else int(operand))
  return x


# ------------------------------------------------------------------------------
# Execution
# ------------------------------------------------------------------------------


def verdicts(
  jobs: Sequence[Job], *, allow_unprotected: bool = False
) -> list[int]:
  """Executes programs on `INPUTS`; returns 1 right, 0 wrong, -1 unknown.

  Programs of words in `WORDS` can neither loop nor change one another, so that
  up to 1024 of them share a sandbox, and equal jobs are executed once.

  Args:
    jobs: the programs.
    allow_unprotected: same as in `sandbox.run`.
  """
  distinct = list(dict.fromkeys(jobs))
  result_by_job = dict.fromkeys(distinct, 0)
  compiled = [job for job in distinct if _is_python(job.body)]
  for start in range(0, len(compiled), _JOBS):
    part = compiled[start : start + _JOBS]
    result_by_job |= zip(part, _run(part, allow_unprotected), strict=True)
  return [result_by_job[job] for job in jobs]


def _is_python(body: str) -> bool:
  """Returns whether the lines are the body of a function; runs nothing."""
  try:
    compile(_function("f", body), "program.py", "exec", dont_inherit=True)
  except SyntaxError:
    return False
  return True


def _function(name: str, body: str) -> str:
  lines = "".join(f"  {line}\n" for line in body.split("\n"))
  return f"def {name}(x, y):\n{lines}"


def _run(jobs: Sequence[Job], allow_unprotected: bool) -> list[int]:
  """Executes functions in one sandbox; returns their verdicts."""
  sources, tests = [], []
  for i, (body, operations) in enumerate(jobs):
    sources.append(_function(f"f{i}", body))
    # One call from the judge's process calls the function for all arguments.
    sources.append(f"def v{i}():\n  return [f{i}(*a) for a in {INPUTS}]\n")
    values = [result(operations, *arguments) for arguments in INPUTS]
    tests.append(f"assert v{i}() == {values}")
  report = sandbox.run(
    {"program": "".join(sources), "tests": tests},
    _LIMITS,
    allow_unprotected=allow_unprotected,
  )
  if report.verdict < 0:
    return [-1] * len(jobs)
  # A busy machine, not a program without loops, is the reason of a time-out.
  failure = -1 if report.timeout else 0
  return [1 if passes else failure for passes in report.results]


# ------------------------------------------------------------------------------
# Lines, and changes of them
# ------------------------------------------------------------------------------


def body(ids: Sequence[int]) -> str:
  """Returns the lines of a program, from tokens without EOS."""
  text = " ".join(WORDS[i] for i in ids)
  return "\n".join(line.strip() for line in text.split(";"))


def line_job(line: str, number: int, operations: Operations) -> Job | None:
  """Returns the program that tells whether a line has the score +1.

  Args:
    line: the line.
    number: its number, counted from 0.
    operations: the operations of the prompt.

  Returns:
    The program; None for lines after the one that returns x, whose score is -1.
  """
  if number < len(operations):
    return Job(f"{line}\nreturn x", operations[number : number + 1])
  return Job(line, ()) if number == len(operations) else None


def writings(operator: str, operand: str) -> list[list[int]]:
  """Returns the lines that make an operation on x, without `;`.

  The first is `x = x + o`, or `x = o - x`. `refactorings` turns it into the
  others.
  """
  if operator == "from":
    words = f"x = {operand} - x"
  else:
    words = f"x = x {_SYMBOLS[operator]} {operand}"
  line = [ID[word] for word in words.split()]
  return [line, *refactorings(line)]


def refactorings(line: Sequence[int]) -> list[list[int]]:
  """Returns the other ways to write a line, which all have the same effect.

    x = x + 3    x = 3 + x ; x += 3        the operands are exchanged, or the
    x += 3       x = x + 3 ; x = 3 + x     assignment is augmented

  Args:
    line: tokens without `;` and EOS. A line of another form has no other way.
  """
  words = [WORDS[i] for i in line]
  match words:
    case [target, "=", left, ("+" | "-" | "*") as symbol, right]:
      pass
    case [target, ("+=" | "-=" | "*=") as assignment, right]:
      left, symbol = target, assignment[0]
    case _:
      return []
  ways = [[target, "=", left, symbol, right]]
  if left == target:
    ways.append([target, f"{symbol}=", right])
  if symbol != "-":
    ways.append([target, "=", right, symbol, left])
    if right == target:
      ways.append([target, f"{symbol}=", left])
  distinct = dict.fromkeys(map(tuple, ways))
  return [[ID[w] for w in way] for way in distinct if list(way) != words]


def mutations(line: Sequence[int]) -> list[list[int]]:
  """Returns lines with an error, most of which change the value of a program.

    x = x + 3    y = x + 3 ; x = x - 3 ; x = x + 7   one token is another one
                 x = x * y                           operator and an operand
                 x = 3 - x ; x = 3 * x               the operands are exchanged
                 x = x +                             a token is missing

  Args:
    line: tokens without `;` and EOS.
  """
  others = [_replacements(token, i == 0) for i, token in enumerate(line)]
  changes = [{i: token} for i, some in enumerate(others) for token in some]
  words = [WORDS[token] for token in line]
  for i, word in enumerate(words):
    if word not in _BINARY + _AUGMENTED:
      continue
    for j in range(2, len(line)):
      if words[j] in _VALUES:
        pairs = itertools.product(others[i], others[j])
        changes += [{i: symbol, j: value} for symbol, value in pairs]
  changed = [
    [change.get(i, token) for i, token in enumerate(line)] for change in changes
  ]
  if len(line) == 5:
    target, assignment, left, symbol, right = line
    # The exchange alone is an error if the operands of a difference change.
    symbols = [*others[3], *([symbol] if words[3] == "-" else [])]
    changed += [[target, assignment, right, x, left] for x in symbols]
  if len(line) > 1:
    changed += [[*line[:i], *line[i + 1 :]] for i in range(len(line))]
  distinct = dict.fromkeys(map(tuple, changed))
  return [list(other) for other in distinct]


def _replacements(token: int, is_first: bool) -> list[int]:
  """Returns the other tokens of the class of a token; [] if it has no class."""
  word = WORDS[token]
  # The first token of a line is the name to which its value is assigned.
  for group in (_BINARY, _AUGMENTED, ("x", "y") if is_first else _VALUES):
    if word in group:
      return [ID[other] for other in group if other != word]
  return []
