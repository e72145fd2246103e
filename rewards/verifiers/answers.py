"""Finds the final answer of a text; answers copied from the prompt are ignored.

The text after the last `</think>` is searched in this order:

  1. the last complete `\\boxed{...}` or `\\fbox{...}`; for nested boxes the
     innermost. An empty box means that there is no answer; no other number of
     the text is used.
  2. without any box, the rest of the line after the last `####`, `Answer:` or
     `answer is`, up to the end of its sentence;
  3. a text of one short line, without box or mark, is the answer.

A box or mark counts as copied from the prompt, and is skipped, if the text
around it is: if the stretch that both have in common contains 20 further
characters, or the whole prompt. This also skips an answer that repeats an
example of the prompt word for word.

Usage:
  final_answer("So $\\\\boxed{4.0}$.") == "4.0"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from rewards.verifiers import numbers

_BRACES = re.compile(
  r"\\(?:boxed|fbox)\s*(?P<box>\{)|\\(?:boxed|fbox)\s+(?P<bare>[^\s$\\{}]+)"
  r"|\\.|(?P<brace>[{}])",
  re.S,
)
_ANY_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_MARK = re.compile(
  r"####|(?i:\banswers?\b(?:\s{1,3}is(?:\s?:)?|\s{0,3}(?:\*\*)?\s?[:=]))"
)
_SENTENCE_END = re.compile(r"(?<=[^\s.])\.(?=\s|$)|\n")
_COMMON = 20  # characters of a copied stretch, without spaces
_LINE = 200  # largest number of characters of a text that is an answer
_BOXES = 100  # number of boxes and marks to search, from the end


def final_answer(completion: str, prompt: str = "") -> str:
  """The final answer, stripped; empty if there is none.

  Args:
    completion: text of the policy.
    prompt: the prompt; text copied from it holds no answer.
  """
  completion = numbers.after_thoughts(completion)
  boxes = sorted(_boxes(completion))[-_BOXES:]
  for start, end, begin, stop in reversed(boxes):
    if not _echoed(completion, start, end, prompt):
      return completion[begin:stop].strip()
  unechoed = [
    mark
    for mark in list(_ANY_BOX.finditer(completion))[-_BOXES:]
    if not _echoed(completion, mark.start(), mark.end(), prompt)
  ]
  if unechoed:  # the boxes are incomplete
    return ""
  for mark in reversed(list(_MARK.finditer(completion))[-_BOXES:]):
    if not _echoed(completion, mark.start(), mark.end(), prompt):
      rest = completion[mark.end() :].lstrip(" \t*:")
      return _SENTENCE_END.split(rest, maxsplit=1)[0].strip(" \t*")
  line = completion.strip()
  is_answer = "\n" not in line and len(line) <= _LINE and line != prompt.strip()
  if not is_answer or _ANY_BOX.search(line):
    return ""
  return line


def _boxes(text: str) -> Iterator[tuple[int, int, int, int]]:
  """Yields start and end of each complete box, and of its content."""
  opened: list[tuple[int, int, bool]] = []
  for match in _BRACES.finditer(text):
    if match["bare"]:
      yield (*match.span(), *match.span("bare"))
    elif match["box"] or match["brace"] == "{":
      opened.append((*match.span(), bool(match["box"])))
    elif match["brace"] and opened:
      start, begin, is_box = opened.pop()
      if is_box:
        yield start, match.end(), begin, match.start()


def _echoed(text: str, start: int, end: int, prompt: str) -> bool:
  """Returns True if `text[start:end]` is part of a copy of the prompt."""
  piece, spare = text[start:end], len("".join(prompt.split()))
  needed = min(_COMMON, spare - len("".join(piece.split())))
  at = prompt.find(piece)
  while at >= 0:
    common = 0
    i, j = start - 1, at - 1
    while i >= 0 and j >= 0 and text[i] == prompt[j] and common < needed:
      common += not text[i].isspace()
      i, j = i - 1, j - 1
    i, j = end, at + len(piece)
    while (
      i < len(text)
      and j < len(prompt)
      and text[i] == prompt[j]
      and common < needed
    ):
      common += not text[i].isspace()
      i, j = i + 1, j + 1
    if common >= needed:
      return True
    at = prompt.find(piece, at + 1)
  return False
