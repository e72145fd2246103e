"""Judges programs by their tests: HumanEval, MBPP and input/output pairs.

The program is the last block of a completion that is fenced as Python, else its
last fenced block, else the whole text. `meta` holds the tests, in exactly one
of three forms:

  "test", "entry_point"  Source of `check(candidate)`, as in HumanEval, and the
                         name of the function to check. Code that does not
                         define the entry point continues `meta["prompt"]`, or
                         else the item's prompt. The part of the prompt before
                         the entry point is available to both the program and
                         the test, so that a test can use the helpers of the
                         prompt.
  "tests", "setup"       A list of assertions, as in MBPP, and code to run
                         before them. If the assertions call a function that has
                         the name of a Python builtin (`sum`), "entry_point"
                         must name it.
  "cases"                A list of pairs (standard input, standard output).
                         Blanks at the ends of lines and empty lines at the end
                         do not count. An exit status other than 0 is wrong.

The score is the fraction of tests that pass. An assertion in a loop counts as
one test, `assert True` does not count as a test, and an assertion that does not
run does not pass.
The verdict is 1 if the tests end without an exception and all their assertions
ran and held; `sandbox.inside.assertions` defines which of them need not run.
A program that runs out of time or memory has verdict 0. A program that ran out
of time also has the part "timeout" = 1 in its outcome, which is only counted.
Two programs have the same answer id if their stripped texts are equal.

Programs run in a sandbox; `rewards.verifiers.sandbox` lists what it prevents. A
program that returns a constant can pass some of the tests, for which the score
pays; train on the verdict to avoid this.

Usage:
  item = Item("Double x.", "def f(x): return 2 * x", "",
              {"tests": ["assert f(2) == 4"]})
  verify([item])[0].verdict == 1

Sources: Chen et al. 2021, "Evaluating Large Language Models Trained on Code"
(HumanEval, `check`); Austin et al. 2021, "Program Synthesis with Large Language
Models" (MBPP). The authors of both run tests and program in one process.
Deviation: here the tests run in one process and call the function in another,
so arguments and results must be values of plain types.
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
  """Returns the code of a text: its last Python block, last block, or all.

  A block that is not closed reaches to the end of the text. Text without a
  fence keeps its leading blanks, since it may continue an indented line. Text
  inside of thoughts is removed first.
  """
  completion = after_thoughts(completion)
  blocks = _blocks(completion)
  python = [code for language, code in blocks if language.lower() in _PYTHON]
  if python:
    return python[-1]
  return blocks[-1][1] if blocks else completion


def _blocks(text: str) -> list[tuple[str, str]]:
  """Returns (language, code) of each fenced block, in linear time."""
  blocks = []
  fences = list(_FENCE.finditer(text))
  ends = [fence.start() for fence in fences[1:]] + [len(text)]
  for fence, end in list(zip(fences, ends, strict=False))[::2]:
    line_end = text.find("\n", fence.end())
    if line_end < 0:  # a fence on the last line starts no block
      break
    info = text[fence.end() : line_end].lstrip(" \t")
    blocks.append((_LANGUAGE.match(info)[0], text[line_end + 1 : end]))
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
    items: completions with their tests in `meta`; references are not used.
    limits: resource limits of each program.
    workers: number of programs to run at a time; None means one per processor.
    allow_unprotected: whether to run programs if this machine cannot provide
      all protections of the sandbox.

  Returns:
    One outcome per item, in their order. The answer is the extracted code. The
    verdict is -1 if the tests are missing or cannot be run, or if the sandbox
    failed; else it is 0 for a completion without code.

  Raises:
    RuntimeError: protections are missing and `allow_unprotected` is False.
  """
  missing = () if allow_unprotected else sandbox.missing_protections()
  if missing:
    raise RuntimeError(
      f"This machine lacks protections of the sandbox: {'; '.join(missing)}. "
      "Code is not run without them, unless allow_unprotected=True."
    )
  judge = functools.partial(
    _judge, limits=limits, allow_unprotected=allow_unprotected
  )
  with futures.ThreadPoolExecutor(workers or _processors()) as pool:
    return list(pool.map(judge, items))


def _judge(
  item: Item, limits: sandbox.Limits, allow_unprotected: bool
) -> Outcome:
  """Runs the tests of one item."""
  code = extract(str(item.completion))
  answer = code.strip()
  identity = answer_id(answer) if answer else -1
  try:
    job = _job(item, code)
  except (TypeError, ValueError) as error:
    return unscored(f"no tests: {error}", answer, identity)
  if not answer:
    return Outcome(score=0.0, verdict=0, answer=answer, answer_id=identity)
  report = sandbox.run(job, limits, allow_unprotected=allow_unprotected)
  if report.verdict < 0:
    return unscored(report.reason, answer, identity)
  score = report.num_passed / report.num_tests
  parts = {"timeout": 1.0} if report.timeout else {}
  return Outcome(score, report.verdict, answer, identity, parts)


def _job(item: Item, code: str) -> dict[str, Any]:
  """Builds the job for `sandbox.run` from the tests of an item.

  Raises:
    TypeError: a field of `meta` has the wrong type.
    ValueError: the item has no tests, or they cannot be parsed.
  """
  meta: Mapping[str, Any] = item.meta
  forms = [name for name in _FORMS if name in meta]
  if len(forms) != 1:
    raise ValueError(f"meta has {forms or 'none'} of {', '.join(_FORMS)}")
  (form,) = forms
  if form == "cases":
    cases = [(str(stdin), str(expected)) for stdin, expected in meta["cases"]]
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
  definition = re.compile(
    rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.M
  )
  in_prompt = definition.search(prompt)
  helpers = prompt[: in_prompt.start()] if in_prompt else ""
  is_defined = definition.search(code) is not None
  return {
    "prelude": helpers if is_defined else "",
    "program": code if is_defined else prompt + code,
    "test": str(meta["test"]),
    "setup": helpers,
    "entry_point": entry_point,
  }


def _processors() -> int:
  """Returns the number of processors that this process may use."""
  get_affinity = getattr(os, "sched_getaffinity", None)  # Linux only
  return len(get_affinity(0)) if get_affinity else os.cpu_count() or 1
