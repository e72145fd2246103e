"""Decides which commas of an answer are thousands separators.

A comma can be a thousands separator if one to three digits stand before it,
without a leading zero, and exactly three after it, without a space: `1,234`,
but not `1, 234`, `1234,567` or `0,123`. Else it separates the entries of a
list. These rules decide what such a comma is:

  formula        outside of brackets, and within brackets of a formula, a comma
                 is a thousands separator if this leaves no list: `x = 1,234`,
                 `1,234\\pi`, `(1,234 + 6)/2`
  leading zero   `(1,000)` is 1000 in brackets, since 000 is no entry
  brackets       are a list of at least two entries else: `(1,234)` is a pair,
                 and `\\{1,234\\}` has two members
  other commas   if another comma of the list has a space, or another comma of
                 the text precedes a zero, it is a thousands separator:
                 `(1,234, 5)` and `(1,000,2,345)` are pairs
  names          `x=1,234,y=5` has the values 1234 and 5
  otherwise      it separates entries: `(5,120,13)` has three

`(1,234,5)` may nevertheless stand for (1234, 5). `readings` returns such other
readings too, for a comparison with a reference that has two entries.

Usage:
  readings("(1,234, 5,678)")[0] == "(1234, 5678)"
"""

from __future__ import annotations

import dataclasses
import itertools
import re
from collections.abc import Iterable

from rewards.verifiers.typography import AND, INTERSECTION, OR, UNION, WITHOUT

_GROUPED = re.compile(
  r"(?<![\w.^])[1-9][0-9]{0,2}(?:,[0-9]{3})+(?![0-9])", re.ASCII
)
# Matches `1 000 000`, but not the start of the mixed number `1 234/567`.
_SPACED = re.compile(
  r"(?<![\w.^])(?<![0-9] )([1-9][0-9]{0,2}(?: [0-9]{3})+)(?! ?[0-9/])", re.ASCII
)
_OPENING, _CLOSING = "([{⦃⟨", ")]}⦄⟩"
# Characters between two lists at the same depth of brackets. Line ends and
# columns of a matrix are among them.
_BETWEEN_LISTS = f";<>≤≥≠∈{OR}{AND}{UNION}{INTERSECTION}{WITHOUT}&\\"
# Characters before and after brackets that are no part of a formula.
_BEFORE_BRACKETS = f"{_BETWEEN_LISTS},=([⦃⟨"
_AFTER_BRACKETS = f"{_BETWEEN_LISTS},=)]⦄⟩"
_MAX_COMMAS = 3  # ambiguous commas of which each combination is a reading


@dataclasses.dataclass
class _List:
  """Entries between commas.

  Attributes:
    start: position of the first entry.
    end: position after the last entry.
    needs_two: whether brackets around it say that it has several entries.
    commas: positions of its commas.
  """

  start: int
  end: int = 0
  needs_two: bool = False
  commas: list[int] = dataclasses.field(default_factory=list)


def readings(text: str) -> list[str]:
  """Returns a text without thousands separators, in each possible reading.

  Args:
    text: an answer after `typography.normalize_latex`.

  Returns:
    The reading by the rules at the top of the file first, then the others, with
    the most separators first. If more than three commas are ambiguous, the
    others are only those with all and without any separators.
  """
  text = _SPACED.sub(lambda match: match[1].replace(" ", ""), text)
  candidates = {
    match.start() + i
    for match in _GROUPED.finditer(text)
    for i, character in enumerate(match[0])
    if character == ","
  }
  if not candidates:
    return [text]
  required = {i for i in candidates if text[i + 1] == "0"}
  lists = _find_lists(text)
  default = set(required)
  for entries in lists:
    possible = candidates.intersection(entries.commas)
    if possible and _has_separators(
      text, entries, possible, has_required=bool(required)
    ):
      default |= possible
  optional = sorted(candidates - required)
  sizes: Iterable[int] = range(len(optional), -1, -1)
  if len(optional) > _MAX_COMMAS:
    sizes = (len(optional), 0)
  choices = [default] + [
    required.union(choice)
    for size in sizes
    for choice in itertools.combinations(optional, size)
  ]
  results: dict[str, None] = {}  # an ordered set
  for separators in choices:
    for entries in lists:
      # `(1,000,345)` is the pair (1000, 345) and not a number in brackets.
      if entries.needs_two and separators.issuperset(entries.commas):
        separators = separators - (set(entries.commas) - required)
    characters = (c for i, c in enumerate(text) if i not in separators)
    results["".join(characters)] = None
  return list(results)


def _find_lists(text: str) -> list[_List]:
  """Returns the lists of a text at all depths of brackets."""
  stack = [_List(0)]
  lists = stack[:]
  for i, character in enumerate(text):
    if character == ",":
      stack[-1].commas.append(i)
    elif character in _OPENING:
      stack.append(_List(i + 1))
      lists.append(stack[-1])
    elif character in _CLOSING and len(stack) > 1:
      entries = stack.pop()
      entries.end = i
      opening = entries.start - 1  # or the end of another list
      entries.needs_two = (
        text[opening] in "([⦃⟨"
        and text[:opening].rstrip()[-1:] in _BEFORE_BRACKETS
        and text[i + 1 :].lstrip()[:1] in _AFTER_BRACKETS
      )
    elif character in _BETWEEN_LISTS:
      stack[-1].end = i
      stack[-1] = _List(i + 1)
      lists.append(stack[-1])
  for entries in stack:
    entries.end = len(text)
  return lists


def _has_separators(
  text: str, entries: _List, possible: set[int], has_required: bool
) -> bool:
  """Returns True if all possible separators of a list are separators."""
  is_formula = not entries.needs_two and len(possible) == len(entries.commas)
  has_space = any(
    text[i + 1 : i + 2] == " " or text[i - 1] == " " for i in entries.commas
  )
  if is_formula or has_space or has_required:
    return True
  ends = [i for i in entries.commas if i not in possible]
  starts = [entries.start, *(i + 1 for i in ends)]
  return all(
    "=" in text[start:end]
    for start, end in zip(starts, [*ends, entries.end], strict=True)
  )
