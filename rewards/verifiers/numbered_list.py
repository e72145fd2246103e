r"""Numbered lists whose items obey a constraint.

The text "1. RED\n2. BLUE" is a list of two items in capital letters. A *list
item* is a line with a number, then `.` or `)`, white space and a text. Blank
lines between list items do not count.

  meta["items"]       number of list items that are demanded
  meta["constraint"]  constraint of the text of each list item, in the form of
                      `rewards.verifiers.constraints`

A completion is right if every line is a list item, they are numbered from 1 to
`meta["items"]`, each obeys the constraint, and no two are equal. The score is 1
for a right completion, and else 0.

`score_line` scores one line without the others. It therefore cannot check how
many list items there are, their order, or repeats.

Usage:
  rule = {"name": "change_case:english_capital"}
  verify([Item("?", "1. RED", "", {"items": 1, "constraint": rule})])
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rewards.verifiers import Item, Outcome, answer_id, constraints, text_units

_LIST_ITEM = re.compile(r"\s*(\d{1,9})[.)]\s+(\S.*)")


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Checks whether each completion is the list that its `meta` describes.

  Args:
    items: completions; references are not used.

  Returns:
    Outcomes in order.
  """
  return [_outcome(item) for item in items]


def _outcome(item: Item) -> Outcome:
  text = str(item.completion)
  lines = text_units.lines(text)
  matches = [_LIST_ITEM.fullmatch(line) for line in lines]
  is_right = len(lines) == item.meta["items"] and all(matches)
  if is_right:
    numbers = [int(match[1]) for match in matches]
    item_texts = [match[2].strip() for match in matches]
    is_right = (
      numbers == list(range(1, len(lines) + 1))
      and all(constraints.obeys(t, item.meta["constraint"]) for t in item_texts)
      and len({t.casefold() for t in item_texts}) == len(item_texts)
    )
  answer = text.strip()
  return Outcome(
    float(is_right),
    int(is_right),
    answer,
    answer_id(answer) if answer else -1,
  )


def score_line(line: str, constraint: constraints.Constraint) -> float:
  """Returns 1 for a list item that obeys the constraint, 0 for a blank line.

  Any other line scores -1. The number of the list item may be any number.

  Args:
    line: one line of a completion.
    constraint: constraint of the text of a list item.
  """
  if not line.strip():
    return 0.0
  match = _LIST_ITEM.fullmatch(line.rstrip("\n"))
  obeys = match and constraints.obeys(match[2].strip(), constraint)
  return 1.0 if obeys else -1.0
