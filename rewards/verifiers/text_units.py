"""Words, sentences, paragraphs and lines of a text: what constraints count.

All are linear in the text. A word is a run of letters and digits, with
apostrophes and hyphens inside it (`don't`, `well-known`); a sentence ends at
`.`, `!`, `?` or `...` before a space, but not after the usual abbreviations and
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
_ABBREVIATION = re.compile(  # and initials, but not "so am I."
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
  """The words of a text, punctuation left out."""
  return _WORD.findall(text)


def sentences(text: str) -> list[str]:
  """The sentences of a text, stripped, those without a word left out."""
  found, start = [], 0
  for end in _END.finditer(text):
    piece = text[start : end.end()]
    if text[end.start()] != "\n" and _ABBREVIATION.search(piece[-8:]):
      continue
    found.append(piece.strip())
    start = end.end()
  found.append(text[start:].strip())
  return [piece for piece in found if _WORD.search(piece)]


def paragraphs(text: str) -> list[str]:
  """What empty lines separate, stripped, empty ones left out."""
  return [p.strip() for p in re.split(r"\n[^\S\n]*\n", text) if p.strip()]


def lines(text: str) -> list[str]:
  """The lines that are not blank, with their indentation."""
  return [line for line in text.splitlines() if line.strip()]


def occurrences(phrase: str, text: str) -> int:
  """How often a phrase occurs in whole words, in any case."""
  pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
  return len(re.findall(pattern, text, re.I))


def compare(count: int, relation: str, number: int) -> bool:
  """Whether `count` stands in a relation, such as "at least", to `number`.

  Raises:
    ValueError: an unknown relation.
  """
  if relation not in RELATIONS:
    raise ValueError(choices.unknown("relation", relation, RELATIONS))
  return RELATIONS[relation](count, int(number))
