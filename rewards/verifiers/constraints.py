"""Instruction following: the share of a prompt's constraints that a text obeys.

`Item.meta["constraints"]` is a list of `{"name": ..., argument: value, ...}`.
The names are keys of `CHECKERS`, which joins the 25 instructions of IFEval
(`rewards.verifiers.ifeval`) and further ones (`rewards.verifiers.ifbench`).
Arguments that are None count as missing, as in the benchmarks' files. A text
without a letter or a digit obeys no constraint.

  score = constraints obeyed / constraints,  verdict = 1 iff all are obeyed

The part "strict" is this score, "loose" is the share of constraints that are
obeyed loosely (`obeys_loosely`), and "all_loose" is 1 if all of them are.

The checkers do not test whether the text answers the prompt: a list of keywords
obeys "use these keywords". The papers therefore add a judge (`verif_reward`,
`ifdecorator_reward`) or a reward model (`ifbench_reward`).

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
  """Checks constraints when they are loaded.

  Raises:
    ValueError: a name or an argument is unknown, or an argument is missing.
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
  """Returns True if a text obeys one constraint strictly, without any change.

  Raises:
    ValueError: the name is unknown.
    TypeError: the checker does not take the arguments.
  """
  checker, arguments = _read(constraint)
  return _says_something(text) and bool(checker(text, **arguments))


def obeys_loosely(text: str, constraint: Constraint) -> bool:
  """Returns True if one of a text's eight variants obeys a constraint.

  The variants are IFEval's: the text, without its first line, without its last
  line and without both, and each of these without asterisks. An introduction, a
  closing remark and bold type therefore do no harm. It raises the same errors
  as `obeys`.
  """
  lines = text.split("\n")
  cut = (lines, lines[1:], lines[:-1], lines[1:-1])
  variants = ["\n".join(selected).strip() for selected in cut]
  variants = [text, *variants[1:]]
  variants += [variant.replace("*", "") for variant in variants]
  return any(obeys(variant, constraint) for variant in variants)


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Checks each completion strictly against its `meta["constraints"]`.

  Args:
    items: completions; references are not used.

  Returns:
    Outcomes in order. The score is the share of constraints obeyed, the answer
    is the whole text. The verdict is -1 if there are no constraints or if one
    of them cannot be checked.
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
  """The product of the rules' score and the judge's score.

  Args:
    obeyed: one bool per constraint that a rule checks; an empty list counts as
      1.
    judged: score of the constraints that a judge checks, in [0, 1].

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
  """1 if all conditions are met, -1 for truncated completions, else 0.

  Args:
    finished: whether the completion ended with EOS.
    obeyed: one bool per constraint that a rule checks.
    intent: whether a judge finds that the completion answers the prompt without
      its constraints.
    checklist: one bool per constraint that a judge checks.

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
  """Combines constraints with a reward model to prevent reward hacking.

      F = V + 1    if V > 0 and S > alpha
          V - 1/2  if V > 0 and S <= alpha
          V        otherwise

  Args:
    value: V, the sum or the share of constraints obeyed.
    preference: S, the score of a reward model.
    alpha: threshold of the reward model's score.

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
  """The content part of a reward chain: keywords in the reference's order.

      mean over points of max over lists of |LCS(a, b)| / max(|a|, |b|)

  `a` and `b` are the occurrences of the list's keywords in the text and in the
  reference, in order. The style part is the weighted share of `obeys`.

  Args:
    text: text to score.
    reference: text to compare with.
    key_points: list of points; each is a list of alternative keyword lists.

  Returns:
    A number in [0, 1]; 0 without key points. A list that occurs in neither text
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
  """Length of the longest common subsequence, by Hyyrö's bit vectors.

  It takes `|a|` steps on `|b|` bits.
  """
  positions: dict[str, int] = {}
  for i, word in enumerate(b):
    positions[word] = positions.get(word, 0) | 1 << i
  full = (1 << len(b)) - 1
  row = full
  for word in a:
    shared = row & positions.get(word, 0)
    row = ((row + shared) | (row - shared)) & full
  return len(b) - row.bit_count()


def _says_something(text: str) -> bool:
  """Returns True if the text has a letter or a digit."""
  return bool(text_units.words(text))


def _read(constraint: Constraint) -> tuple[ifeval.Checker, dict[str, Any]]:
  """The checker of a constraint and its arguments."""
  name = constraint.get("name")
  if name not in CHECKERS:
    raise ValueError(choices.unknown("constraint", name, CHECKERS))
  items = constraint.items()
  return CHECKERS[name], {
    key: value for key, value in items if key != "name" and value is not None
  }
