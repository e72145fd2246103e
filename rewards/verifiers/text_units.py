"""Splits texts into words, sentences, paragraphs and lines, and counts them.

The constraints of IFEval and IFBench are stated in these units. The splitting
functions take time linear in the text. A word is a run of letters and digits,
with apostrophes and hyphens inside it (`don't`, `well-known`). A sentence ends
at an empty line, and at `.`, `!`, `?`, an ellipsis or an ideographic full stop
before white space, unless the mark ends a common abbreviation or an initial.

Usage:
  words("Don't stop.") == ["Don't", "stop"]
  sentences("Dr. No waits. Why?") == ["Dr. No waits.", "Why?"]
"""

from __future__ import annotations

import operator
import re

from rl import registry

_WORD = re.compile(r"[^\W_]+(?:['\u2019-][^\W_]+)*")
_END = re.compile(r"(?<=[.!?\u2026\u3002])[\"'\u201d\u2019)\]*]*(?=\s)|\n\s*\n")
# Also matches initials such as `J.`, except `I.`, which often ends a sentence.
_ABBREVIATION = re.compile(
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
  """Returns the words of a text, without punctuation."""
  return _WORD.findall(text)


def sentences(text: str) -> list[str]:
  """Returns the stripped sentences of a text that contain a word."""
  results, start = [], 0
  for match in _END.finditer(text):
    end = match.end()
    if text[match.start()] != "\n":
      # 8 characters hold the longest abbreviation with its neighbors.
      first = end - 8 if end - 8 > start else start
      if _ABBREVIATION.search(text[first:end]):
        continue
    results.append(text[start:end].strip())
    start = end
  results.append(text[start:].strip())
  return [piece for piece in results if _WORD.search(piece)]


def paragraphs(text: str) -> list[str]:
  """Returns the stripped, nonempty parts of a text between blank lines."""
  return [p.strip() for p in re.split(r"\n[^\S\n]*\n", text) if p.strip()]


def lines(text: str) -> list[str]:
  """Returns the lines of a text that are not blank, with indentation."""
  return [line for line in text.splitlines() if line.strip()]


def occurrences(phrase: str, text: str) -> int:
  """Returns how often a phrase occurs as whole words, ignoring case."""
  pattern = rf"(?<!\w){re.escape(phrase)}(?!\w)"
  return len(re.findall(pattern, text, re.I))


def compare(count: int, relation: str, number: int) -> bool:
  """Returns True if `count` is in a relation to `number`.

  Args:
    count: the left side, such as a number of words.
    relation: a key of `RELATIONS`, such as "at least".
    number: the right side.

  Raises:
    UsageError: the relation is unknown.
  """
  registry.check_known("relation", relation, RELATIONS)
  return RELATIONS[relation](count, int(number))
