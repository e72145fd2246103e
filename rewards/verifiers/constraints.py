"""Instruction following: the share of a prompt's constraints that a text obeys.

`Item.meta["constraints"]` is a list of `{"name": ..., argument: value, ...}`.
The names are keys of `CHECKERS`, which contains the 25 instructions of IFEval
(`rewards.verifiers.ifeval`) and those of `rewards.verifiers.ifbench`. A checker
is a function `(text, **arguments) -> bool`. Arguments that are None count as
missing, because the benchmarks' files list all arguments for each constraint,
and a number such as 2.0 is the integer 2. A text without a letter or a digit
obeys no constraint.

  score = number of obeyed constraints / number of constraints
  verdict = 1 if all constraints are obeyed, else 0

The parts of an outcome, for the logs: "strict" is this score, "loose" is the
share of constraints that are obeyed after a change of the layout
(`obeys_loosely`), and "all_loose" is 1 if that share is 1, else 0.

The checkers do not test whether the text answers the prompt: a list of keywords
obeys "use these keywords". The papers therefore combine the score with a judge
(configs `hybrid` and `guarded` of `experiments/configs/judged.py`) or with a
reward model.

Usage:
  rule = {"name": "keywords:existence", "keywords": ["fox"]}
  verify([Item("?", "A fox.", "", {"constraints": [rule]})])[0].verdict == 1

Sources: Zhou et al. 2023, "Instruction-Following Evaluation for Large Language
Models" (strict and loose); Pyatkin et al. 2025, "Generalizing Verifiable
Instruction Following".
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rewards.verifiers import (
  Item,
  Outcome,
  answer_id,
  ifbench,
  ifeval,
  text_units,
  unscored,
)
from rl import UsageError, registry

CHECKERS = ifeval.CHECKERS | ifbench.CHECKERS
Constraint = Mapping[str, Any]
_RELATION_KEYS = ("relation", "let_relation", "capital_relation")


def _is_number(value: Any) -> bool:
  return isinstance(value, int | float) and not isinstance(value, bool)


def _is_list_of_texts(value: Any) -> bool:
  is_list = isinstance(value, list | tuple)
  return is_list and all(isinstance(each, str) for each in value)


# Types of the checkers' parameters, with the tests of a value.
_TYPES: dict[str, Callable[[Any], bool]] = {
  "int": lambda value: _is_number(value) and isinstance(value, int),
  "float": _is_number,
  "str": lambda value: isinstance(value, str),
  "Sequence[str]": _is_list_of_texts,
  "str | Sequence[str]": lambda value: (
    isinstance(value, str) or _is_list_of_texts(value)
  ),
}


def validate(constraints: Sequence[Constraint]) -> None:
  """Checks the names and arguments of constraints, before any text is checked.

  Args:
    constraints: constraints of a prompt; see the top of the file.

  Raises:
    UsageError: a name or an argument is unknown, an argument is missing, or its
      value has another type than the checker's parameter.
  """
  for constraint in constraints:
    checker, arguments = _parse(constraint)
    parameters = inspect.signature(checker).parameters  # the first is the text
    for name in arguments:
      kind = f"argument of {constraint['name']}"
      registry.check_known(kind, name, list(parameters)[1:])
    for name, parameter in list(parameters.items())[1:]:
      if parameter.default is parameter.empty and name not in arguments:
        raise UsageError(f"{constraint['name']} needs the argument {name!r}")


def obeys(text: str, constraint: Constraint) -> bool:
  """Returns True if a text obeys one constraint as it is.

  Args:
    text: text to check; without a letter or a digit it obeys no constraint.
    constraint: `{"name": ..., argument: value, ...}`.

  Raises:
    UsageError: the constraint has an unknown name, or a value has another type
      than the checker's parameter.
    TypeError: the checker lacks one of the arguments, or needs another.
  """
  checker, arguments = _parse(constraint)
  return _has_word(text) and bool(checker(text, **arguments))


def obeys_loosely(text: str, constraint: Constraint) -> bool:
  """Returns True if one of a text's eight variants obeys a constraint.

  The variants are those of IFEval: the text, the text without its first line,
  without its last line, and without both lines, and each of these four without
  asterisks. An introduction, a closing remark or bold type therefore does not
  violate a constraint.

  Args:
    text: text to check.
    constraint: `{"name": ..., argument: value, ...}`.

  Raises:
    UsageError, TypeError: same as in `obeys`.
  """
  lines = text.split("\n")
  line_ranges = (lines, lines[1:], lines[:-1], lines[1:-1])
  variants = ["\n".join(selected).strip() for selected in line_ranges]
  variants = [text, *variants[1:]]
  variants += [variant.replace("*", "") for variant in variants]
  return any(obeys(variant, constraint) for variant in variants)


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Checks each completion strictly against its `meta["constraints"]`.

  A constraint is obeyed strictly if the completion obeys it without any change.

  Args:
    items: completions; references are not used.

  Returns:
    Outcomes in order. The score is the share of obeyed constraints, the answer
    is the whole text. The verdict is -1 if the list of constraints is missing
    or empty, or if one of them cannot be checked.
  """
  return [_outcome(item) for item in items]


def _outcome(item: Item) -> Outcome:
  text = str(item.completion)
  try:
    rules = item.meta["constraints"]
    strict = [obeys(text, rule) for rule in rules]
    loose = [
      is_strict or obeys_loosely(text, rule)
      for is_strict, rule in zip(strict, rules, strict=True)
    ]
  except Exception as error:  # such as a checker's error about an argument
    return unscored(f"a constraint cannot be checked: {error}")
  if not strict:
    return unscored('meta["constraints"] is empty')
  score = sum(strict) / len(strict)
  parts = {
    "strict": score,
    "loose": sum(loose) / len(loose),
    "all_loose": float(all(loose)),
  }
  answer = text.strip()
  identity = answer_id(answer) if answer else -1
  return Outcome(score, int(all(strict)), answer, identity, parts)


def _has_word(text: str) -> bool:
  """Returns True if the text has a letter or a digit."""
  return bool(text_units.words(text))


def _parse(constraint: Constraint) -> tuple[ifeval.Checker, dict[str, Any]]:
  """Returns the checker of a constraint and the arguments that are not None."""
  name = constraint.get("name")
  registry.check_known("constraint", name, CHECKERS)
  checker = CHECKERS[name]
  types = checker.__annotations__  # texts, as all annotations of the two files
  arguments = {
    key: _value(name, key, value, types.get(key, ""))
    for key, value in constraint.items()
    if key != "name" and value is not None
  }
  return checker, arguments


def _value(
  name: str,  # name of the constraint
  key: str,  # name of the argument
  value: Any,
  annotation: str,  # "" if the checker has no such parameter
) -> Any:
  """Returns the value of an argument, or raises a UsageError for its type."""
  # An integral float counts as an integer.
  if annotation == "int" and isinstance(value, float) and value.is_integer():
    value = int(value)
  if annotation and not _TYPES[annotation](value):
    raise UsageError(
      f"{name}: the argument {key!r} must be of the type {annotation}, not "
      f"{value!r:.80}"
    )
  if key in _RELATION_KEYS:
    registry.check_known("relation", value, text_units.RELATIONS)
  return value
