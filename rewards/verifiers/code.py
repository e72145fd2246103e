"""Judges programs by their tests: HumanEval, MBPP and input/output pairs.

The program is the last fenced block of a completion that defines what the tests
call, with earlier blocks that it needs, or the whole text if it has no block;
see `extract`. `meta` holds the tests, in exactly one of three forms:

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
from collections.abc import Collection, Mapping, Sequence
from concurrent import futures
from typing import Any

from rewards.verifiers import Item, Outcome, answer_id, sandbox, unscored
from rl import UsageError

# Matches a line that opens or closes a block, also one with a list's bullet.
_FENCE = re.compile(
  r"^(?P<indent>[ \t]*(?P<bullet>(?:[-*+]|\d{1,9}[.)])[ \t]+)?)"
  r"(?P<fence>`{3,}|~{3,})[ \t]*(?P<language>[\w+.-]*)[^`\n]*$",
  re.M,
)
_MAX_BLOCKS = 32  # blocks that are searched from the end of the text
# Matches what a block defines at its top level: the name, or an import's words.
_DEFINITION = re.compile(
  r"^(?:async[ \t]+)?(?:def|class)[ \t]+(\w+)|^(\w+)[ \t]*(?::[^=\n]*)?=(?!=)"
  r"|^(?:import|from)[ \t]+([^#\n]*)",
  re.M,
)
# Matches comments and docstrings.
_NO_CODE = re.compile(r"#[^\n]*|(\"\"\"|\'\'\')[\s\S]*?\1")
_WORD = re.compile(r"[^\W\d]\w*")
_CALL = re.compile(r"\w\(")
_PYTHON = {"python", "py", "python3", "python2", "ipython"}
_FORMS = ("test", "tests", "cases")


def extract(completion: str, names: Collection[str] = ()) -> str:
  """Returns the program of a text: one block or several, or the whole text.

  The program is the last block that defines one of `names`, after earlier
  blocks that define the other names, or functions, imports and values that it
  uses. A block that only uses the function, such as an example, is thus left
  out. If no block defines one of the names, it is the last block that calls
  something, or else the last one, after the earlier blocks that it needs.
  Blocks that are not fenced as Python count only if none is, or if only they
  define one of the names.

  A block is fenced by three backticks or tildes or more, also inside of a list;
  the indentation of its fence is removed from its lines. A block that is not
  closed reaches to the next fence with a language, or to the end of the text.
  Text without a block keeps its leading blanks, since it may continue an
  indented line.

  Args:
    completion: text of the policy after its thoughts.
    names: names that the tests use. Only the last 32 blocks are searched.
  """
  blocks = _blocks(completion)[-_MAX_BLOCKS:]
  if not blocks:
    return completion
  tested = set(names)
  codes = [code for _, code in blocks]
  python = [code for language, code in blocks if language.lower() in _PYTHON]
  if python and (_define(python, tested) or not _define(codes, tested)):
    codes = python
  program: list[str] = []
  needed, defined = tested, set()  # names that the program uses, and defines
  if not _define(codes, tested):
    calls = [i for i, code in enumerate(codes) if _CALL.search(code)]
    last = calls[-1] if calls else len(codes) - 1
    program = [codes[last]]
    needed, defined = _words(codes[last]), _definitions(codes[last], tested)
    codes = codes[:last]
  for code in reversed(codes):
    names_of_code = _definitions(code, tested)
    is_needed = bool(names_of_code & needed - defined)
    is_example = bool((_words(code) - names_of_code) & defined)
    if is_needed and not is_example:
      program.insert(0, code)
      needed, defined = needed | _words(code), defined | names_of_code
  return "\n".join(program)


def _define(codes: Sequence[str], tested: Collection[str]) -> bool:
  """Returns whether one of the blocks defines a tested name."""
  return any(not _definitions(c, tested).isdisjoint(tested) for c in codes)


def _definitions(code: str, tested: Collection[str]) -> set[str]:
  """Returns the names that a block defines at its top level."""
  defined, imported = set(), set()
  for name, variable, imports in _DEFINITION.findall(code):
    defined.update({name, variable} - {""})
    imported.update(_WORD.findall(imports))
  # An import does not define a tested name: an example of use may import it.
  return defined | (imported - {"import", "as", *tested})


def _words(code: str) -> set[str]:
  """Returns the names that a block uses, with those in its strings."""
  return set(_WORD.findall(_NO_CODE.sub("", code)))


def _blocks(text: str) -> list[tuple[str, str]]:
  """Returns (language, code) of each fenced block, in linear time."""
  blocks: list[tuple[str, str]] = []
  opening: re.Match[str] | None = None  # of the block that is not closed yet
  for fence in _FENCE.finditer(text):
    if opening is not None:
      if (
        fence["fence"][0] != opening["fence"][0]
        or len(fence["fence"]) < len(opening["fence"])
        or len(fence["indent"]) > len(opening["indent"]) + 3
      ):
        continue  # a line of the block, as in a docstring with an example
      blocks.append(_block(opening, text, fence.start()))
      if not fence["language"] and not fence["bullet"]:
        opening = None
        continue
    opening = fence
  # A fence on the last line opens no block.
  if opening is not None and opening.end() < len(text):
    blocks.append(_block(opening, text, len(text)))
  return blocks


def _block(opening: re.Match[str], text: str, end: int) -> tuple[str, str]:
  """Returns language and code of the block from a fence to a position."""
  code = text[opening.end() + 1 : end]
  lines = [line for line in code.split("\n") if line.strip()]
  indents = [len(line) - len(line.lstrip(" \t")) for line in lines]
  width = min([len(opening["indent"]), *indents])
  if width:
    code = re.sub(rf"^[ \t]{{1,{width}}}", "", code, flags=re.M)
  return opening["language"], code


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
  code = extract(str(item.completion), _tested_names(item.meta))
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


def _tested_names(meta: Any) -> set[str]:
  """Returns the entry point, or else all names in the list of assertions."""
  if not isinstance(meta, Mapping):
    return set()
  if meta.get("entry_point"):
    return {str(meta["entry_point"])}
  tests = meta.get("tests")
  texts = map(str, tests) if isinstance(tests, list | tuple) else ()
  return set(_WORD.findall(" ".join(texts)))


def _job(item: Item, code: str) -> dict[str, Any]:
  """Builds the job for `sandbox.run`; TypeError or UsageError for bad tests."""
  meta: Mapping[str, Any] = item.meta
  forms = [name for name in _FORMS if name in meta]
  if len(forms) != 1:
    raise UsageError(f"meta has {forms or 'none'} of {', '.join(_FORMS)}")
  (form,) = forms
  if form == "cases":
    cases = [(str(stdin), str(expected)) for stdin, expected in meta["cases"]]
    if not cases:
      raise UsageError("no cases")
    return {"program": code, "cases": cases}
  entry_point = str(meta.get("entry_point", ""))
  if form == "tests":
    tests = [str(test) for test in meta["tests"]]
    if not tests or isinstance(meta["tests"], str):
      raise UsageError("no list of tests")
    return {
      "program": code,
      "tests": tests,
      "setup": str(meta.get("setup", "")),
      "entry_point": entry_point,
    }
  if not entry_point:
    raise UsageError("no entry point")
  prompt = str(meta.get("prompt", item.prompt))
  name = re.escape(entry_point)
  definition = re.compile(
    rf"^(?:(?:async[ \t]+)?def|class)[ \t]+{name}\b|^{name}[ \t]*=", re.M
  )
  in_prompt = definition.search(prompt)
  helpers = prompt[: in_prompt.start()] if in_prompt else ""
  # A program without the definition continues the prompt. Otherwise it only
  # gets the helpers that the prompt defines before the entry point.
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
