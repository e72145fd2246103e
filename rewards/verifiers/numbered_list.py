r"""Numbered lists whose items obey a constraint.

The text "1. RED\n2. BLUE" is a list of two items in capital letters. A line is
an *item* if it is a number, `.` or `)`, white space and a text. Blank lines
between items do not count.

  meta["items"]       number of items that the list must have
  meta["constraint"]  constraint of each item, in the form of
                      `rewards.verifiers.constraints`

A completion is right if every line is an item, the items are numbered from 1 to
`meta["items"]`, each obeys the constraint, and no two are equal. The score is
the verdict.

`score_line` scores a single line, as a process reward does: it does not see the
number of items that the list must have, nor the other lines.

Usage:
  rule = {"name": "change_case:english_capital"}
  verify([Item("?", "1. RED", "", {"items": 1, "constraint": rule})])
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from rewards.verifiers import Item, Outcome, answer_id, constraints, text_units

_ITEM = re.compile(r"\s*(\d+)[.)]\s+(\S.*)")


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
  matches = [_ITEM.fullmatch(line) for line in lines]
  is_right = len(lines) == item.meta["items"] and all(matches)
  if is_right:
    numbers = [int(match[1]) for match in matches]
    contents = [match[2].strip() for match in matches]
    is_right = (
      numbers == list(range(1, len(lines) + 1))
      and all(constraints.obeys(c, item.meta["constraint"]) for c in contents)
      and len({content.casefold() for content in contents}) == len(contents)
    )
  answer = text.strip()
  return Outcome(
    float(is_right),
    int(is_right),
    answer,
    answer_id(answer) if answer else -1,
  )


def score_line(line: str, constraint: constraints.Constraint) -> float:
  """Returns 1 if the line is an item that obeys, 0 if it is blank, else -1.

  The number of the item may be any number.

  Args:
    line: one line of a completion.
    constraint: constraint of the items.
  """
  if not line.strip():
    return 0.0
  match = _ITEM.fullmatch(line.rstrip("\n"))
  obeys = match and constraints.obeys(match[2].strip(), constraint)
  return 1.0 if obeys else -1.0
