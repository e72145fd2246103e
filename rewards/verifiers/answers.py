"""Where the final answer of a text stands, without taking the prompt's for it.

After its thoughts, those up to the last `</think>`, and in this order:

  1. the last complete `\\boxed{...}` or `\\fbox{...}`; of boxes in one another
     the innermost. An empty one is the answer that there is none: no number
     that stands elsewhere is taken instead.
  2. in a text without a box, the rest of the line after the last `####`,
     `Answer:` or `answer is`, up to the end of its sentence;
  3. a text of one short line, without box or mark, is its answer.

A box or a mark is the prompt's if the text around it is: if the stretch that
the two have in common holds 20 characters besides it, or is the whole prompt.
Such a one is passed over; that of an own answer in the very words of an example
in the prompt is too.

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
_COMMON = 20  # characters, spaces not counted
_LINE = 200  # characters of a text that is its own answer
_BOXES = 100  # the last ones; who writes more has none of them read


def final_answer(completion: str, prompt: str = "") -> str:
  """The final answer, stripped; empty if there is none.

  Args:
    completion: what was written.
    prompt: what was asked; an echo of it holds no answer.
  """
  completion = numbers.after_thoughts(completion)
  boxes = sorted(_boxes(completion))[-_BOXES:]
  for start, end, begin, stop in reversed(boxes):
    if not _echoed(completion, start, end, prompt):
      return completion[begin:stop].strip()
  own = [
    mark
    for mark in list(_ANY_BOX.finditer(completion))[-_BOXES:]
    if not _echoed(completion, mark.start(), mark.end(), prompt)
  ]
  if own:  # none of them complete
    return ""
  for mark in reversed(list(_MARK.finditer(completion))[-_BOXES:]):
    if not _echoed(completion, mark.start(), mark.end(), prompt):
      rest = completion[mark.end() :].lstrip(" \t*:")
      return _SENTENCE_END.split(rest, maxsplit=1)[0].strip(" \t*")
  line = completion.strip()
  whole = "\n" not in line and len(line) <= _LINE and line != prompt.strip()
  if not whole or _ANY_BOX.search(line):
    return ""
  return line


def _boxes(text: str) -> Iterator[tuple[int, int, int, int]]:
  """Start and end of each complete box, and of what it holds."""
  opened: list[tuple[int, int, bool]] = []
  for found in _BRACES.finditer(text):
    if found["bare"]:
      yield (*found.span(), *found.span("bare"))
    elif found["box"] or found["brace"] == "{":
      opened.append((*found.span(), bool(found["box"])))
    elif found["brace"] and opened:
      start, begin, is_box = opened.pop()
      if is_box:
        yield start, found.end(), begin, found.start()


def _echoed(text: str, start: int, end: int, prompt: str) -> bool:
  """Whether `text[start:end]` stands in a stretch copied from the prompt."""
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
