"""Finds the final answer of a text; answers copied from the prompt are ignored.

The text is searched in this order:

  1. The last complete box, `\\boxed{...}` or `\\fbox{...}`; of nested boxes the
     innermost. An empty box, or a box that is opened and never closed,
     means that there is no answer; no other number of the text is used.
  2. If the text has no box: the rest of the line after the last mark (`####`,
     `Answer:` or `answer is`), up to the end of its sentence.
  3. If the text has neither: the whole text, if it is one line of at most 200
     characters and not the prompt. Else there is no answer.

A box or mark counts as copied from the prompt, and is skipped, if the text
around it is copied too: the longest stretch around it that is the same in the
completion and in the prompt has 20 or more characters besides the box or mark,
or is the whole prompt. Blanks are not counted. This also skips an answer that
repeats an example of the prompt word for word.

Usage:
  final_answer("So $\\\\boxed{4.0}$.") == "4.0"
"""

from __future__ import annotations

import re
from collections.abc import Iterator

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
_MIN_COPIED = 20  # copied characters around a box or mark, without blanks
_MAX_LINE = 200  # characters of a text that is an answer without box or mark
_MAX_MARKS = 100  # boxes, and marks, that are searched from the end of the text


def final_answer(completion: str, prompt: str = "") -> str:
  """Returns the final answer, stripped; "" if there is none.

  Args:
    completion: text of the policy after its thoughts.
    prompt: the prompt; boxes and marks copied from it are skipped.
  """
  boxes = sorted(_boxes(completion))[-_MAX_MARKS:]
  for start, end, content_start, content_end in reversed(boxes):
    if not _is_copied(completion, start, end, prompt):
      return completion[content_start:content_end].strip()
  incomplete_boxes = [
    box
    for box in list(_ANY_BOX.finditer(completion))[-_MAX_MARKS:]
    if not _is_copied(completion, box.start(), box.end(), prompt)
  ]
  if incomplete_boxes:
    return ""
  for mark in reversed(list(_MARK.finditer(completion))[-_MAX_MARKS:]):
    if not _is_copied(completion, mark.start(), mark.end(), prompt):
      rest = completion[mark.end() :].lstrip(" \t*:")
      return _SENTENCE_END.split(rest)[0].strip(" \t*")
  line = completion.strip()
  is_short_line = "\n" not in line and len(line) <= _MAX_LINE
  if not is_short_line or line == prompt.strip() or _ANY_BOX.search(line):
    return ""
  return line


def _boxes(text: str) -> Iterator[tuple[int, int, int, int]]:
  """Yields start and end of each complete box, and of its content.

  A box without braces, such as `\\boxed 5`, is complete.
  """
  # (start of the box or brace, start of its content, whether it is a box)
  opened: list[tuple[int, int, bool]] = []
  for match in _BRACES.finditer(text):
    if match["bare"]:
      yield (*match.span(), *match.span("bare"))
    elif match["box"] or match["brace"] == "{":
      opened.append((*match.span(), bool(match["box"])))
    elif match["brace"] and opened:
      start, content_start, is_box = opened.pop()
      if is_box:
        yield start, match.end(), content_start, match.start()


def _is_copied(text: str, start: int, end: int, prompt: str) -> bool:
  """Returns True if `text[start:end]` is part of a copy of the prompt.

  It is compared with each occurrence of the same string in the prompt; from
  there, equal characters are counted to the left and to the right.
  """
  string, prompt_length = text[start:end], len("".join(prompt.split()))
  needed = min(_MIN_COPIED, prompt_length - len("".join(string.split())))
  position = prompt.find(string)  # in the prompt
  while position >= 0:
    common = 0  # equal characters around the string, without blanks
    i, j = start - 1, position - 1  # in the text, in the prompt
    while i >= 0 and j >= 0 and text[i] == prompt[j] and common < needed:
      common += not text[i].isspace()
      i, j = i - 1, j - 1
    i, j = end, position + len(string)
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
    position = prompt.find(string, position + 1)
  return False
