"""Programs judged by their tests: HumanEval, MBPP and input/output pairs.

The code of a completion is its last block fenced as Python, else its last fenced
block, else the whole text. `meta` says what the tests are:

  "test", "entry_point"  source of `check(candidate)`, as in HumanEval. Code
                         that does not define the entry point continues
                         `meta["prompt"]`, else the item's prompt; of a prompt,
                         what stands before the entry point is known to both
                         sides, so that a test's helpers are the prompt's own
  "tests", "setup"       a list of assertions, as in MBPP, and what comes before
                         them. Where they call a function by the name of one of
                         Python's (`sum`), "entry_point" must name it
  "cases"                a list of pairs (standard input, standard output).
                         Blanks at the ends of lines and empty lines at the end
                         do not count; an exit status but 0 is wrong

The score is the fraction of tests passed, where an assertion in a loop is one
test and `assert True` none; an assertion that does not run is not passed. The
verdict is 1 if the tests end without an exception, as Python runs them, and
their assertions ran and held; `sandbox.inside.assertions` says which of them
need not run. Running out of time or memory is wrong; a program that ran out of
time has the part "timeout" too, so that it can be counted. Answers are
compared as programs, character by character: two that do the same differ.

Programs run in a sandbox; `rewards.verifiers.sandbox` says what from. A fraction
pays for tests that any constant passes: use the verdict where that matters.

Usage:
  item = Item("Double x.", "def f(x): return 2 * x", "",
              {"tests": ["assert f(2) == 4"]})
  verify([item])[0].verdict == 1

Sources: Chen et al. 2021, "Evaluating Large Language Models Trained on Code"
(HumanEval, `check`); Austin et al. 2021, "Program Synthesis with Large Language
Models" (MBPP). Both run tests and program in one process; here a function is
called from another, so values are plain ones.
"""

from __future__ import annotations

import functools
import os
import re
from collections.abc import Mapping, Sequence
from concurrent import futures
from typing import Any

from rewards.verifiers import Item, Outcome, answer_id, sandbox, unscored
from rewards.verifiers.numbers import after_thoughts

_FENCE = re.compile(r"^[ \t]*```", re.M)
_LANGUAGE = re.compile(r"[\w+.-]*")
_PYTHON = {"python", "py", "python3", "python2", "ipython"}
_FORMS = ("test", "tests", "cases")


def extract(completion: str) -> str:
  """The code in a text; its last Python block, last block, or all of it.

  A block that is never closed reaches to the end. Code without a fence keeps
  its blanks, for it may continue an indented line. What stands in thoughts is
  no answer.
  """
  completion = after_thoughts(completion)
  blocks = _blocks(completion)
  python = [code for language, code in blocks if language.lower() in _PYTHON]
  if python:
    return python[-1]
  return blocks[-1][1] if blocks else completion


def _blocks(text: str) -> list[tuple[str, str]]:
  """Language and code of each fenced block, in time linear in the text."""
  blocks = []
  fences = list(_FENCE.finditer(text))
  ends = [fence.start() for fence in fences[1:]] + [len(text)]
  for fence, end in list(zip(fences, ends, strict=False))[::2]:
    line_end = text.find("\n", fence.end())
    if line_end < 0:  # A fence on the last line opens nothing.
      break
    head = text[fence.end() : line_end].lstrip(" \t")
    blocks.append((_LANGUAGE.match(head)[0], text[line_end + 1 : end]))
  return blocks


def verify(
  items: Sequence[Item],
  limits: sandbox.Limits = sandbox.DEFAULT,
  *,
  workers: int | None = None,
  allow_unprotected: bool = False,
) -> list[Outcome]:
  """Runs each completion's code against its tests.

  Args:
    items: completions with their tests in `meta`; the reference is not used.
    limits: what each program may use.
    workers: programs at a time; None: one for each processor.
    allow_unprotected: whether to run programs where the sandbox lacks means.

  Returns:
    Outcomes in order. The verdict is -1, the score 0, where the tests are
    missing or cannot be run, or the sandbox failed.

  Raises:
    RuntimeError: the machine lacks means and `allow_unprotected` is False.
  """
  missing = () if allow_unprotected else sandbox.missing_protections()
  if missing:
    raise RuntimeError(
      f"code is not run without protection; this machine lacks "
      f"{'; '.join(missing)}. allow_unprotected=True runs it all the same"
    )
  judge = functools.partial(
    _judge, limits=limits, allow_unprotected=allow_unprotected
  )
  with futures.ThreadPoolExecutor(workers or _processors()) as pool:
    return list(pool.map(judge, items))


def _judge(
  item: Item, limits: sandbox.Limits, allow_unprotected: bool
) -> Outcome:
  code = extract(str(item.completion))
  answer = code.strip()
  identity = answer_id(answer) if answer else -1
  try:
    job = _job(item, code)
  except (TypeError, ValueError) as error:
    return unscored(f"no tests: {error}", answer, identity)
  if not answer:
    return Outcome(0.0, 0, answer, identity)
  report = sandbox.run(job, limits, allow_unprotected=allow_unprotected)
  if report.verdict < 0:
    return unscored(report.reason, answer, identity)
  score = report.passed / report.tests
  parts = {"timeout": 1.0} if report.timeout else {}
  return Outcome(score, report.verdict, answer, identity, parts)


def _job(item: Item, code: str) -> dict[str, Any]:
  """What the sandbox is to run.

  Raises:
    TypeError, ValueError: the item has no tests that could be read.
  """
  meta: Mapping[str, Any] = item.meta
  forms = [name for name in _FORMS if name in meta]
  if len(forms) != 1:
    raise ValueError(f"meta has {forms or 'none'} of {', '.join(_FORMS)}")
  (form,) = forms
  if form == "cases":
    cases = [(str(given), str(expected)) for given, expected in meta["cases"]]
    if not cases:
      raise ValueError("no cases")
    return {"program": code, "cases": cases}
  entry_point = str(meta.get("entry_point", ""))
  if form == "tests":
    tests = [str(test) for test in meta["tests"]]
    if not tests or isinstance(meta["tests"], str):
      raise ValueError("no list of tests")
    return {
      "program": code,
      "tests": tests,
      "setup": str(meta.get("setup", "")),
      "entry_point": entry_point,
    }
  if not entry_point:
    raise ValueError("no entry point")
  prompt = str(meta.get("prompt", item.prompt))
  name = re.escape(entry_point)
  define = re.compile(
    rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.M
  )
  begins = define.search(prompt)
  before = prompt[: begins.start()] if begins else ""
  whole = define.search(code)
  return {
    "prelude": before if whole else "",
    "program": code if whole else prompt + code,
    "test": str(meta["test"]),
    "setup": before,
    "entry_point": entry_point,
  }


def _processors() -> int:
  count = getattr(os, "sched_getaffinity", None)
  return len(count(0)) if count else os.cpu_count() or 1
