"""Finds out whether a text denies an answer that it names: `it can't be B`.

A denial stands before the answer (`not B`, `all but B`, `I rule out option B`)
or after it, with a verb (`B is wrong`, `B cannot be the answer`, `B has been
eliminated`, `5 apples is too low`). It is part of the answer's clause: `B,
since it does not melt` and `It is not hard: B` deny nothing. A doubt is no
denial: `I think B`, `probably B`.

Usage:
  is_denied("It can't be B.", 12, 13)
"""

from __future__ import annotations

import re

_WINDOW = 80  # characters before and after an answer that are searched
# Characters around an answer that belong to it: `(B)`, `**B**`, `"B"`.
_OPENING, _CLOSING = r"[\s(\[{*_\"'$\\]", r"[)\]}*_\"'$\\]"
_NOT = (
  r"(?:cannot|can\snot|not|never"
  r"|(?:is|was|are|ca|could|wo|would|should|does|did|must|might)n['\u2019]t)"
)
# Matches a denial before an answer, up to the answer: `not the option (`.
_BEFORE = re.compile(
  r"(?:\b(?:cannot|not|nor|neither|never|except|excluding|without|unlike"
  r"|(?:all|any\w*|every\w*|none)\sbut|rul(?:e|es|ed|ing)\sout"
  r"|(?:eliminat|exclud|reject|discard|dismiss)\w+|cross(?:ed|ing)?\sout"
  r"|instead\sof|rather\sthan|other\sthan)|n['\u2019]t)"
  rf"(?:{_OPENING}+(?:the|an?|option|choice|answer|letter|candidate|possibility"
  r"|be|been|is|was|it|its|it['\u2019]s|that|this|to|say|choose|pick|select"
  r"|think|believe|go|with|for|either|both|possibly|right|correct|of)\b){0,6}"
  rf"{_OPENING}+$",
  re.I,
)
_VERB = (
  r"(?:is|are|was|be|been|can|could|may|might|must|will|would|should|has|have"
  r"|had|does|did|seems?|looks?|appears?)"
)
# Words between `is` and a denial, and between `not` and what it denies.
_BETWEEN = (
  r"(?:\s(?:be|been|to|clearly|definitely|certainly|obviously|surely|also"
  r"|therefore|thus|then|just|simply|completely|quite|even|really|a|an|the|my"
  r"|our))*"
)
# Matches a denial after an answer, up to its last word: `(B) is clearly wrong`.
_AFTER = re.compile(
  rf"{_CLOSING}{{0,4}}"
  r"(?:\sout\b(?!\sof)"  # I rule B out
  r"|[?,.;:!]?\s?(?:no,|no\swait|wait\b|oops|scratch\sthat)"
  r"|(?:,?\s(?:which|but|though|although)(?:\s(?:it|that|this))?)?"
  # Up to three words of the answer, as in `5 red apples is wrong`.
  r"(?:\s\(?(?!(?:and|or|so|since|because|while|whereas|but|as|if|then|hence"
  rf"|thus|which|that|than|not)\b)[a-z'\u2019]{{2,}}\)?){{0,3}}?{_CLOSING}{{0,4}}"
  rf"\s(?:{_VERB}{_BETWEEN}\s(?:wrong|incorrect|false|impossible|invalid"
  r"|untrue|ruled\sout|out(?!\sof)|eliminated|excluded|rejected|discarded"
  r"|dismissed|unlikely|implausible"
  r"|too\s(?:big|large|high|many|much|small|low|little|few))\b"
  rf"|(?:{_VERB}\s)?{_NOT}{_BETWEEN}"
  r"(?:\s(?:right|correct|true|possible|valid|it|answer|option|choice|solution"
  r"|work|fit|hold|acceptable|plausible|likely)\b|\s?(?:[.,;!)]|$))))",
  re.I,
)


def is_denied(text: str, start: int, end: int) -> bool:
  """Returns True if a text denies the answer `text[start:end]`."""
  before = re.sub(r"\s+", " ", text[max(start - _WINDOW, 0) : start])
  after = re.sub(r"\s+", " ", text[end : end + _WINDOW])
  return bool(_BEFORE.search(before) or _AFTER.match(after))
