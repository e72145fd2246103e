"""Words, sentences, paragraphs and lines of a text: units of constraints.

All functions are linear in the text. A word is a run of letters and digits,
with apostrophes and hyphens inside it (`don't`, `well-known`). A sentence ends
at `.`, `!`, `?` or `...` before a space, but not after common abbreviations and
not inside a number, and at an empty line.

Usage:
  words("Don't stop.") == ["Don't", "stop"]
  sentences("Dr. No waits. Why?") == ["Dr. No waits.", "Why?"]
"""

from __future__ import annotations

import operator
import re

from rl import choices

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_END = re.compile(r"(?<=[.!?\u2026\u3002])[\"'\u201d\u2019)\]*]*(?=\s)|\n\s*\n")
_ABBREVIATION = re.compile(  # also initials, except for "so am I."
  r"(?:^|[\s(\"'])"
  r"(?:(?i:mr|mrs|ms|dr|prof|st|vs|etc|e\.g|i\.e|jr|sr)|[A-HJ-Z])\.$"
)
RELATIONS = {
  "at least": operator.ge,
  "at most": operator.le,
  "exactly": operator.eq,
  "less than": operator.lt,
  "more than": operator.gt,
}


def words(text: str) -> list[str]:
  """The words of a text, without punctuation."""
  return _WORD.findall(text)


def sentences(text: str) -> list[str]:
  """The sentences of a text, stripped, without those that have no word."""
  results, start = [], 0
  for end in _END.finditer(text):
    piece = text[start : end.end()]
    if text[end.start()] != "\n" and _ABBREVIATION.search(piece[-8:]):
      continue
    results.append(piece.strip())
    start = end.end()
  results.append(text[start:].strip())
  return [piece for piece in results if _WORD.search(piece)]


def paragraphs(text: str) -> list[str]:
  """The parts of a text between empty lines, stripped, without empty ones."""
  return [p.strip() for p in re.split(r"\n[^\S\n]*\n", text) if p.strip()]


def lines(text: str) -> list[str]:
  """The lines of a text that are not blank, with their indentation."""
  return [line for line in text.splitlines() if line.strip()]


def occurrences(phrase: str, text: str) -> int:
  """Number of occurrences of a phrase as whole words, in any case."""
  pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
  return len(re.findall(pattern, text, re.I))


def compare(count: int, relation: str, number: int) -> bool:
  """Returns True if `count` is in a relation, such as "at least", to `number`.

  Raises:
    ValueError: the relation is unknown.
  """
  if relation not in RELATIONS:
    raise ValueError(choices.unknown("relation", relation, RELATIONS))
  return RELATIONS[relation](count, int(number))
