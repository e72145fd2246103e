"""Instruction following: how many of a prompt's constraints does a text obey?

`Item.meta["constraints"]` is a list of `{"name": ..., argument: value, ...}`;
the names are those of `CHECKERS`, which joins the 25 instructions of IFEval
(`rewards.verifiers.ifeval`) and those beyond (`rewards.verifiers.ifbench`).
Arguments that are None are not given, as in the benchmarks' files. A text
without a letter or a digit obeys nothing.

  score = constraints obeyed / constraints,  verdict = 1 iff all are obeyed

The part "strict" is that score, "loose" the same of constraints obeyed loosely
(`obeys_loosely`), "all_loose" whether all are.

What this cannot see: whether the text answers the prompt at all. Keywords in a
heap obey "use these keywords"; that is why the papers mix in a judge
(`verif_reward`, `ifdecorator_reward`) or a reward model (`ifbench_reward`).

Usage:
  rule = {"name": "keywords:existence", "keywords": ["fox"]}
  verify([Item("?", "A fox.", "", {"constraints": [rule]})])[0].verdict == 1

Sources: Zhou et al. 2023, "Instruction-Following Evaluation for Large Language
Models" (strict and loose); Pyatkin et al. 2025, "Generalizing Verifiable
Instruction Following".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping, Sequence
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
from rl import choices

CHECKERS = ifeval.CHECKERS | ifbench.CHECKERS
Constraint = Mapping[str, Any]


def validate(constraints: Sequence[Constraint]) -> None:
  """Refuses what could not be checked: for whoever loads the constraints.

  Raises:
    ValueError: an unknown name, or arguments that are unknown or missing.
  """
  for constraint in constraints:
    checker, arguments = _read(constraint)
    taken = inspect.signature(checker).parameters
    for name in arguments:
      if name not in taken:
        kind = f"argument of {constraint['name']}"
        raise ValueError(choices.unknown(kind, name, list(taken)[1:]))
    for name, parameter in list(taken.items())[1:]:
      if parameter.default is parameter.empty and name not in arguments:
        raise ValueError(f"{constraint['name']} needs the argument {name!r}")


def obeys(text: str, constraint: Constraint) -> bool:
  """Whether a text obeys one constraint, strictly: the text as it stands.

  Raises:
    ValueError: an unknown name.
    TypeError: arguments that the checker does not take.
  """
  checker, arguments = _read(constraint)
  return _says_something(text) and bool(checker(text, **arguments))


def obeys_loosely(text: str, constraint: Constraint) -> bool:
  """Whether a text obeys one constraint in any of IFEval's eight variants.

  The text as it stands, without its first line, without its last, without both,
  and each without asterisks: an introduction, a closing remark or bold type do
  no harm. Raises what `obeys` raises.
  """
  lines = text.split("\n")
  cut = (lines, lines[1:], lines[:-1], lines[1:-1])
  variants = ["\n".join(kept).strip() for kept in cut]
  variants = [text, *variants[1:]]
  variants += [variant.replace("*", "") for variant in variants]
  return any(obeys(variant, constraint) for variant in variants)


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Checks each completion against its `meta["constraints"]`, strictly.

  Args:
    items: completions; references are not read.

  Returns:
    Outcomes in order: the score is the share of constraints obeyed, the answer
    the whole text. The verdict is -1, the score 0, if there are no constraints
    or one of them cannot be checked.
  """
  return [_outcome(item) for item in items]


def _outcome(item: Item) -> Outcome:
  text = str(item.completion)
  try:
    rules = item.meta["constraints"]
    obeyed = [obeys(text, rule) for rule in rules]
    loosely = [
      strictly or obeys_loosely(text, rule)
      for strictly, rule in zip(obeyed, rules, strict=True)
    ]
  except Exception as error:  # arguments that a checker cannot use
    return unscored(f"a constraint that cannot be checked: {error}")
  if not obeyed:
    return unscored("no constraints")
  score = sum(obeyed) / len(obeyed)
  parts = {
    "strict": score,
    "loose": sum(loosely) / len(loosely),
    "all_loose": float(all(loosely)),
  }
  answer = text.strip()
  identity = answer_id(answer) if answer else -1
  return Outcome(score, int(all(obeyed)), answer, identity, parts)


def verif_reward(obeyed: Sequence[bool], judged: float) -> float:
  """Rules times judge: either at 0 is 0.

  Args:
    obeyed: of the constraints that rules check; none of them counts as 1.
    judged: of those that a judge checks, in [0, 1].

  Returns:
    `mean(obeyed) * judged`.

  Source: Peng et al. 2025, "VerIF: Verification Engineering for Reinforcement
  Learning in Instruction Following".
  """
  return (sum(obeyed) / len(obeyed) if obeyed else 1.0) * judged


def ifdecorator_reward(
  finished: bool,
  obeyed: Sequence[bool],
  intent: bool,
  checklist: Sequence[bool] = (),
) -> float:
  """A chain of gates: 1 only if all are passed, -1 if it never ended.

  Args:
    finished: whether the completion ended by itself.
    obeyed: of the constraints that rules check.
    intent: whether a judge finds the prompt, without these, answered.
    checklist: of the constraints that a judge checks.

  Returns:
    -1, 0 or 1.

  Source: Guo et al. 2025, "IFDecorator: Wrapping Instruction Following
  Reinforcement Learning with Verifiable Rewards".
  """
  if not finished:
    return -1.0
  return float(all(obeyed) and intent and all(checklist))


def ifbench_reward(
  value: float, preference: float, alpha: float = 7.0
) -> float:
  """Constraints mixed with a reward model, against hacking.

      F = V + 1    if V > 0 and S > alpha
          V - 1/2  if V > 0 and S <= alpha
          V        otherwise

  Args:
    value: V, the sum or share of constraints obeyed.
    preference: S, what a reward model thinks of the text.
    alpha: what it must exceed.

  Source: Pyatkin et al. 2025, section on reward hacking.
  """
  if value <= 0:
    return value
  return value + (1.0 if preference > alpha else -0.5)


def key_point_score(
  text: str,
  reference: str,
  key_points: Sequence[Sequence[Sequence[str]]],
) -> float:
  """The content part of a reward chain: the reference's keywords in its order.

      mean over points of max over lists of |LCS(a, b)| / max(|a|, |b|)

  with `a` and `b` the occurrences of the list's keywords in the text and in the
  reference, in order. The style part is the weighted share of `obeys`.

  Args:
    text: what is scored.
    reference: what it is compared with.
    key_points: for each point, the keyword lists that may stand for it.

  Returns:
    A number in [0, 1]; 0 without key points. A list that occurs in neither
    scores 0.

  Source: "RLVRR" (reward chain), `openrlhf/reward_tools/reward_fn.py`.
  """
  points = []
  for lists in key_points:
    scores = [0.0]
    for keywords in lists:
      if not keywords:
        continue
      any_of = "|".join(re.escape(word) for word in keywords)
      pattern = re.compile(rf"(?<!\w)(?:{any_of})(?!\w)", re.I)
      a, b = (
        [m.lower() for m in pattern.findall(t)] for t in (text, reference)
      )
      if a or b:
        scores.append(longest_common_subsequence(a, b) / max(len(a), len(b)))
    points.append(max(scores))
  return sum(points) / len(points) if points else 0.0


def longest_common_subsequence(a: Sequence[str], b: Sequence[str]) -> int:
  """Its length, by Hyyrö's bit vectors: `|a|` steps on `|b|` bits."""
  places: dict[str, int] = {}
  for i, word in enumerate(b):
    places[word] = places.get(word, 0) | 1 << i
  full = (1 << len(b)) - 1
  row = full
  for word in a:
    shared = row & places.get(word, 0)
    row = ((row + shared) | (row - shared)) & full
  return len(b) - row.bit_count()


def _says_something(text: str) -> bool:
  return bool(text_units.words(text))


def _read(constraint: Constraint) -> tuple[ifeval.Checker, dict[str, Any]]:
  """The checker of a constraint and its arguments."""
  name = constraint.get("name")
  if name not in CHECKERS:
    raise ValueError(choices.unknown("constraint", name, CHECKERS))
  given = constraint.items()
  return CHECKERS[name], {
    key: value for key, value in given if key != "name" and value is not None
  }
