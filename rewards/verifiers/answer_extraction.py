"""Finds the final answer of a text; answers copied from the prompt are ignored.

An answer stands in a box or after a mark:

  box    `\\boxed{...}` or `\\fbox{...}`; of nested boxes the innermost. A box
         that is empty, or is opened and never closed, means that there is no
         answer
  mark   `####`, except before the heading of a step, a solution, an explanation
         or the like; `Answer:`, `Answer =` or `the answer is`, also with a few
         words between (`the answer to the question must therefore be`); a line
         that is a heading such as `**Final Answer**`. The answer is the rest of
         the line, or the next line that is not blank, up to the end of its
         sentence, without the marks of bold type, dollar signs and boxes around
         it. What does not give an answer is no mark: `I hope this answer is
         helpful`, `the answer is correct`, `what the answer is.`

An answer that is denied does not count: `it is not \\boxed{5}`, `The answer is
not 5`. The one before it counts, unless it is the same.

`final_answer` searches a text in this order:

  1. The last complete box. If a text has a box, no other number of it is used.
  2. If the text has no box: what stands between the last `<answer>` and
     `</answer>`.
  3. If it has no such tags either: what stands after the last mark.
  4. If it has none of these: the whole text, if it is one line of at most 200
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
from collections.abc import Iterable, Iterator

from rewards.verifiers.denials import is_denied

_BRACES = re.compile(
  r"\\(?:boxed|fbox)\s*(?P<box>\{)|\\(?:boxed|fbox)\s+(?P<bare>[^\s$\\{}]+)"
  r"|\\.|(?P<brace>[{}])",
  re.S,
)
_ANY_BOX = re.compile(r"\\(?:boxed|fbox)(?![A-Za-z])")
_ADJECTIVES = r"(?:(?:final|correct|right|short|best)\s{1,3}){0,2}"
# Matches a word before `answer` after which it is not the answer of the text.
_OTHER_ANSWER = (
  r"\b(?:(?:if|whether|hop(?:e|ing)|unless|suppose|assum(?:e|ing)|check|what)\s"
  r"(?:that\s)?(?:the|my|your|this|our)?|this|that|these|those|your|whose|which"
  r"|any|an|another|each|every|no)\s{1,3}"
)
# Matches words between `answer` and `is`.
_BETWEEN = (
  r"(?:\s{0,3}\([^()\n]{0,40}\)|,[^,\n]{1,30},"
  r"|\s{1,3}(?:to|of|for|in)\s[^\n.:=?!]{1,60}?)?"
)
_ADVERBS = (
  r"(?:[\s,]{1,3}(?:therefore|thus|then|hence|simply|just|clearly|exactly|indeed"
  r"|definitely|obviously|actually|also|still|now|equal\sto|given\sby"
  r"|as\sfollows|below)\b,?){0,3}+"
)
# Matches a remark about an answer, instead of an answer.
_REMARK = (
  r"[\s*_:]{0,4}(?:helpful|useful|correct|accurate|reasonable|valid|consistent"
  r"|straightforward|verified|confirmed|plausible|sensible|satisfactory"
  r"|acceptable|obvious|clear|derived|obtained|found|determined|computed"
  r"|calculated|based|what)\b|[\s*_]{0,4}(?:[?!,;)]|\.(?!\d))"
)
# Matches `####`, but not before the heading of a step: `#### Step 5`.
_HASHES = re.compile(
  r"\#{4}(?!\#{0,4}[\s*_]{0,4}(?:steps?|explanations?|solutions?|reasoning"
  r"|verification|verify|check(?:ing)?|notes?|conclusion|summary|analysis"
  r"|approach|method|case|problem|question|understand(?:ing)?|calculations?)\b)",
  re.I,
)
_MARK = re.compile(
  _HASHES.pattern
  # A line that is a heading.
  + r"|^[ \t>\#*_-]{0,12}(?:(?:here\sis|the|my|our|final|correct|short)\s{1,2})"
  r"{0,3}answers?[ \t*_]{0,8}$"
  # `**Answer** 5`
  r"|^[ \t>\#-]{0,12}[*_]{1,3}(?:(?:the|my|final|correct)\s){0,2}answers?"
  r"[*_]{1,3}(?!\s*(?:[:=(,]|is\b|are\b|to\b|of\b|for\b|in\b))"
  # `Answer:`, `**Answer (B)**:`, `the answer to it is`
  rf"|(?<![A-Za-z0-9])(?=[A-Za-z])(?P<other>{_OTHER_ANSWER}{_ADJECTIVES})?"
  r"(?<![A-Za-z0-9])(?<![A-Za-z0-9]_)"
  r"(?:answers?|ans|(?:correct|right|best)\s{1,3}(?:option|choice))"
  r"(?![A-Za-z0-9])"
  rf"{_BETWEEN}[*_]{{0,3}}(?:\s{{0,3}}[*_]{{0,3}}\s?[:=\uff1a\u2192]"
  r"|\s{1,3}(?:(?:is|are|was|were|equals)\b|(?:must|should|would|will)"
  rf"(?:\s(?:therefore|thus|then|also|hence))?\s{{1,3}}be\b){_ADVERBS}(?!{_REMARK})(?:\s?:)?)",
  re.I | re.M,
)
# Matches what every mark has, at most `_MAX_PREFIX` characters after its start.
_ANCHOR = re.compile("####|[Aa][Nn][Ss]|[Oo][Pp][Tt]|[Cc][Hh][Oo]")
_MAX_PREFIX = 80
_WRONG = re.compile(r"[\s*_]*(?:wrong|incorrect|false|not\b)", re.I)
_NOT = re.compile(r"(?:definitely\s|clearly\s)?not\s", re.I)
# Matches a line without an answer: blanks, and marks of bold type and formulas.
_BLANK_LINE = re.compile(r"(?:[\s*_`:$#>~=-]|\\[\[(])*(?:(?<=```)[a-z]+)?")
_HEADING = re.compile(
  r"[\s#>*_-]{0,12}(?:(?:the|my|our)\s)?(?:final\s|correct\s)?answers?"
  r"[\s*_:]{0,8}",
  re.I,
)
# Matches a full stop at the end of a sentence, and not one after an initial, a
# title or `No` before a number: `J. K. Rowling`, `U.S.`, `St. Louis`, `No. 5`.
_SENTENCE_END = re.compile(
  r"(?<=[^\s.])(?<!\.[A-Z])(?<!\b(?:Dr|Mr|Ms|St|Mt|Jr|Sr|vs))"
  r"(?<!\b(?:Mrs|Inc|Ltd))(?<!\bProf)"
  r"(?!(?<=\b[A-Z])\.\s(?:[A-Z]\.\s?){0,3}[A-Z][\w'-]{2,}\.?\s*$)"
  r"(?!(?<=\b[Nn]o)\.\s\d)"
  r"\.(?=\s|$|[*_$]{1,3}(?:\s|$))"
)
_COMMAND = re.compile(r"\\(?:boxed|fbox|text|textbf|textit|mathrm|mathbf)\s*\{")
_PAIRS = (("$$", "$$"), ("$", "$"), ("\\(", "\\)"), ("\\[", "\\]"))
_MIN_COPIED = 20  # copied characters around a box or mark, without blanks
_MAX_LINE = 200  # characters of a text that is an answer without box or mark
_MAX_MARKS = 100  # boxes, and marks, that are searched from the end of the text


def final_answer(completion: str, prompt: str = "") -> str:
  """Returns the final answer, stripped; "" if there is none.

  Args:
    completion: text of the policy after its thoughts.
    prompt: the prompt; boxes and marks copied from it are skipped.
  """
  box = boxed_answer(completion, prompt)
  if box is not None:
    return box[1]
  tagged = tagged_answer(completion)
  if tagged is not None:
    completion = tagged
  marked = marked_answer(completion, prompt)
  if marked is not None:
    return marked[1]
  line = completion.strip()
  is_short_line = "\n" not in line and len(line) <= _MAX_LINE
  if not is_short_line or line == prompt.strip() or _ANY_BOX.search(line):
    return ""
  return line


def boxed_answer(text: str, prompt: str = "") -> tuple[int, str] | None:
  """Returns the position and content of the last box that is not denied.

  Args:
    text: text of the policy.
    prompt: the prompt; boxes copied from it are skipped.

  Returns:
    The start of the box and its content, which is "" if it is empty or never
    closed, or if all boxes are denied. None if there is no box.
  """
  if "box" not in text:
    return None
  boxes = (
    (
      start,
      text[content_start:content_end].strip(),
      is_denied(text, start, end),
    )
    for start, end, content_start, content_end in reversed(
      sorted(_boxes(text))[-_MAX_MARKS:]
    )
    if not _is_copied(text, start, end, prompt)
  )
  complete_box = _first_accepted(boxes)
  if complete_box:
    return complete_box
  for box in reversed(list(_ANY_BOX.finditer(text))[-_MAX_MARKS:]):
    if not _is_copied(text, box.start(), box.end(), prompt):
      return box.start(), ""
  return None


def hash_line(text: str) -> str | None:
  """Returns the answer's line after the last `####`; None without the mark."""
  marks = list(_HASHES.finditer(text))[-1:]
  if not marks:
    return None
  _, line = _next_line(text, marks[0].end())
  return strip_markup(line)


def tagged_answer(text: str) -> str | None:
  """Returns what the last `<answer>...</answer>` contains; None without tags.

  It is "" if `</answer>` has no `<answer>` before it.
  """
  body, end_tag, _ = text.rpartition("</answer>")
  if not end_tag:
    return None
  _, start_tag, content = body.rpartition("<answer>")
  return content.strip() if start_tag else ""


def marked_answer(text: str, prompt: str = "") -> tuple[int, str] | None:
  """Returns the position and text of the answer after the last mark.

  Args:
    text: text of the policy.
    prompt: the prompt; marks copied from it are skipped.

  Returns:
    The end of the answer's line and the answer, which is "" if nothing follows
    the mark or if all answers are denied. None if there is no mark.
  """
  anchor = _ANCHOR.search(text)
  if not anchor:
    return None
  marks = list(_MARK.finditer(text, max(anchor.start() - _MAX_PREFIX, 0)))
  return _first_accepted(
    _read_mark(text, mark.end())
    for mark in reversed(marks[-_MAX_MARKS:])
    if not mark["other"] or _WRONG.match(text, mark.end())
    if not _is_copied(text, mark.start(), mark.end(), prompt)
  )


def _read_mark(text: str, start: int) -> tuple[int, str, bool]:
  """Returns what `_read_line` does without a `not`, and if there was one."""
  end, answer = _read_line(text, start)
  denial = _NOT.match(answer)
  return end, answer[denial.end() if denial else 0 :], bool(denial)


def _first_accepted(
  answers: Iterable[tuple[int, str, bool]],
) -> tuple[int, str] | None:
  """Returns the first answer that is not denied; None without answers."""
  # Each entry has a position, an answer, and whether the answer is denied. The
  # last answer of the text comes first.
  denied: set[str] = set()
  last_position = None
  for position, answer, is_rejected in answers:
    identity = answer.strip("$*_() .").lower()
    if not is_rejected:
      # The answer is empty if the text denies the same one further on.
      return position, "" if identity in denied else answer
    denied.add(identity)
    last_position = last_position or position
  # All answers are denied.
  return None if last_position is None else (last_position, "")


def _read_line(text: str, start: int) -> tuple[int, str]:
  """Returns the end of the line of an answer, and the line's first sentence."""
  end, line = _next_line(text, start)
  sentence_end = _SENTENCE_END.search(line)
  return end, strip_markup(
    line[: sentence_end.start()] if sentence_end else line
  )


def _next_line(text: str, start: int) -> tuple[int, str]:
  """Returns end and text of the first line from `start` that can answer."""
  while True:
    end = text.find("\n", start)
    line = text[start:] if end < 0 else text[start:end]
    # Blank lines and headings such as `Final Answer` are skipped.
    if end < 0 or not (_BLANK_LINE.fullmatch(line) or _HEADING.fullmatch(line)):
      break
    start = end + 1
  # Marks of Markdown before the text are cut off.
  return len(text) if end < 0 else end, line.strip(" \t\r").lstrip("*:#>_` \t")


def strip_markup(answer: str) -> str:
  """Returns an answer without the markup around all of it.

  The markup is bold and code type of Markdown, dollar signs and brackets of
  formulas, and commands such as `\\boxed{}` and `\\text{}`.
  """
  for _ in range(8):  # nested markup
    previous = answer
    answer = answer.strip(" \t\r*_`")
    for opening, closing in _PAIRS:
      content = answer[len(opening) : -len(closing)]
      if (
        answer.startswith(opening)
        and answer.endswith(closing)
        and len(answer) >= len(opening) + len(closing)
        and opening not in content
      ):
        answer = content.strip()
    command = _COMMAND.match(answer)
    if command and answer.endswith("}"):
      content = answer[command.end() : -1]
      if _is_balanced(content):
        answer = content
    if answer == previous:
      break
  return answer


def _is_balanced(text: str) -> bool:
  """Returns True if each brace has a partner."""
  depth = 0
  for character in re.sub(r"\\[{}]", "", text):
    depth += (character == "{") - (character == "}")
    if depth < 0:
      return False
  return depth == 0


def _boxes(text: str) -> Iterator[tuple[int, int, int, int]]:
  """Yields start and end of each complete box, and of its content."""
  # (start of the box or brace, start of its content, whether it is a box)
  opened: list[tuple[int, int, bool]] = []
  for match in _BRACES.finditer(text):
    if match["bare"]:  # a box without braces, such as `\boxed 5`
      yield (*match.span(), *match.span("bare"))
    elif match["box"] or match["brace"] == "{":
      opened.append((*match.span(), bool(match["box"])))
    elif match["brace"] and opened:
      start, content_start, is_box = opened.pop()
      if is_box:
        yield start, match.end(), content_start, match.start()


def _is_copied(text: str, start: int, end: int, prompt: str) -> bool:
  """Returns True if `text[start:end]` is part of a copy of the prompt."""
  string, prompt_length = text[start:end], len("".join(prompt.split()))
  needed = min(_MIN_COPIED, prompt_length - len("".join(string.split())))
  position = prompt.find(string)  # in the prompt
  # For each occurrence of the string in the prompt, count the equal characters
  # to its left and to its right.
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
