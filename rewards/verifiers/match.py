"""Answers compared as strings: exact, normalised, by pattern, by letter.

The answer of a completion is what its last `<answer>...</answer>` holds;
without one, what follows the last `Answer:` or `answer is` on its line; without
that, all of it. What stands in thoughts is no answer. Further references may
stand in `Item.meta["answers"]`; any of them will do. What this cannot equate is
wrong: `NYC` and `New York City`.

  exact       the same string, outer spaces aside
  normalized  the same after SQuAD's rule: small letters, without punctuation,
              without `a`, `an`, `the`, single spaces
  pattern     the reference is a regular expression that matches all of it
  choice      the same letter, and one letter only: `A or B` is no answer

Patterns are the data's, not the policy's, but a slow one on a long answer has
no time-out here: answers of more than 1000 characters match none, and patterns
that nest repetitions belong in a worker that can be killed.

Usage:
  normalized([Item("?", "Answer: The Eiffel Tower.", "Eiffel tower")])
  choice([Item("?", "The answer is (B).", "B")])[0].verdict == 1

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine
Comprehension of Text" (normalisation).
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from rewards.verifiers import Item, Outcome, answer_id, unscored
from rewards.verifiers.numbers import after_thoughts

LETTERS = "ABCDEFGHIJ"  # as many as MMLU-Pro has
_LONGEST = 1000
_ANSWER = re.compile(r"\banswer\b[\s*_]*(?:is\b\s*:?|:)[\s*_]*", re.I)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DRESS = string.whitespace + "()[]{}*_`'\"$.,:;"
_BOX = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf)\s*(?=\{)")
# A capital on its own, unless it is a word: `A dog`, `I think`; but `B or A`.
_LETTER = re.compile(r"(?<![\w'\u2019-])[A-Z](?![\w'\u2019-])")
_IS_WORD = re.compile(
  r"[AI]\s+(?!(?:is|and|or|not|nor|but|because|since|as)\b)[a-z]"
)
_DENIED = re.compile(
  r"(?:\b(?:not|nor|neither|never|but|except)|n['\u2019]t)"
  r"[\s(\[{*_\"'$]+(?:(?:the|option|choice|answer)[\s(\[{*_\"'$]+){0,3}$",
  re.I,
)
_LISTED = re.compile(r"(?:\b(?:or|and|not|nor)|[,/&])[\s(*]*$")


def final_answer(text: str) -> str:
  """What the completion answers, stripped; empty if it says nothing."""
  text = after_thoughts(text)
  body, tag, _ = text.rpartition("</answer>")
  if tag:
    _, opened, inside = body.rpartition("<answer>")
    return inside.strip() if opened else ""
  marks = list(_ANSWER.finditer(text))
  if not marks:
    return text.strip()
  after = text[marks[-1].end() :].strip()
  return after.split("\n", 1)[0].strip()


def normalize(text: str) -> str:
  """SQuAD's form: in it, answers that differ in typography are equal."""
  text = text.lower().translate(_PUNCTUATION)
  return " ".join(_ARTICLE.sub(" ", text).split())


def letter(text: str, letters: str = LETTERS) -> str:
  """The one letter that an answer gives, or "" if it gives none or several.

  Reads `B`, `b`, `(B)`, `**B.**`, `B) Paris`, `\\boxed{B}`, `option B`. Letters
  outside of `letters` are not options, and then there is no answer either; nor
  is there where it is denied: `not B`, `all but B`, `neither B`.
  """
  if len(text) > _LONGEST:
    return ""
  text = _BOX.sub("", text)
  bare = text.strip(_DRESS)
  if len(bare) == 1:
    return bare.upper() if bare.upper() in letters else ""
  found = set()
  for match in _LETTER.finditer(text):
    if _DENIED.search(text, 0, match.start()):
      return ""
    listed = match[0] == "A" and _LISTED.search(text, 0, match.start())
    if listed or not _IS_WORD.match(text, match.start()):
      found.add(match[0])
  return found.pop() if len(found) == 1 and found <= set(letters) else ""


def exact(items: Sequence[Item]) -> list[Outcome]:
  """Compares answers as they stand; see the module."""
  return [_compared(item, str.strip) for item in items]


def normalized(items: Sequence[Item]) -> list[Outcome]:
  """Compares answers in SQuAD's form; see the module."""
  return [_compared(item, normalize) for item in items]


def pattern(items: Sequence[Item]) -> list[Outcome]:
  """Compares answers with regular expressions; see the module.

  Returns:
    Outcomes in order; the verdict is -1, the score 0, if a reference is empty
    or no pattern.
  """
  outcomes = []
  for item in items:
    answer = final_answer(str(item.completion))
    try:
      patterns = [re.compile(reference) for reference in _references(item)]
    except (re.error, OverflowError, RecursionError):
      patterns = []
    if not patterns:
      outcomes.append(unscored("the reference is no pattern", answer))
      continue
    short = len(answer) <= _LONGEST
    right = short and any(each.fullmatch(answer) for each in patterns)
    identity = answer_id(answer) if answer else -1
    outcomes.append(Outcome(float(right), int(right), answer, identity))
  return outcomes


def choice(items: Sequence[Item]) -> list[Outcome]:
  """Compares the letters of multiple choice; see the module.

  `Item.meta["choices"]`, the texts of the options, says how many there are; an
  answer that is one of these texts, in SQuAD's form, counts as its letter.

  Returns:
    Outcomes in order; the verdict is -1, the score 0, if the reference is not
    one of the letters.
  """
  outcomes = []
  for item in items:
    texts = [normalize(str(text)) for text in _listed(item, "choices")]
    letters = string.ascii_uppercase[: len(texts)] or LETTERS
    answer = final_answer(str(item.completion))
    found = letter(answer, letters)
    said = normalize(answer)
    if said and not found and texts[: len(letters)].count(said) == 1:
      found = letters[texts.index(said)]
    truths = {
      reference.strip(_DRESS).upper() for reference in _references(item)
    }
    known = bool(truths) and all(len(t) == 1 and t in letters for t in truths)
    identity = answer_id(found) if found else -1
    right = found in truths
    outcomes.append(
      Outcome(float(right), int(right), found, identity)
      if known
      else unscored("the reference is no letter", found, identity)
    )
  return outcomes


def _references(item: Item) -> list[str]:
  """The reference and those of `meta["answers"]`, empty ones left out."""
  answers = [item.reference, *_listed(item, "answers")]
  return [str(each) for each in answers if str(each).strip()]


def _listed(item: Item, name: str) -> Sequence[object]:
  values = item.meta.get(name)
  return values if isinstance(values, list | tuple) else ()


def _compared(item: Item, form: Callable[[str], str]) -> Outcome:
  answer = final_answer(str(item.completion))
  found = form(answer)
  truths = {form(reference) for reference in _references(item)} - {""}
  identity = answer_id(found) if found else -1
  if not truths:
    return unscored("an empty reference", answer, identity)
  right = found in truths
  return Outcome(float(right), int(right), answer, identity)
