"""Compares answers as strings: exact, normalized, by pattern, by letter.

The answer of a completion is the content of its last `<answer>...</answer>`;
without one, the rest of the line after the last `Answer:` or `answer is`;
without these, the whole text. Text inside of thoughts does not count.
`Item.meta["answers"]` may hold further references; matching one of them is
enough. Different names of the same thing are wrong: `NYC` and `New York City`.

  exact       the same string, without outer spaces
  normalized  the same string after SQuAD's normalization: lower case, without
              punctuation, without `a`, `an`, `the`, with single spaces
  pattern     the reference is a regular expression that matches the whole
              answer
  choice      the same letter, and one letter only: `A or B` is no answer

Patterns come from the data, not from the policy, but they have no time-out
here. Answers of more than 1000 characters match no pattern, and patterns with
nested repetitions belong in a worker that can be killed.

Usage:
  normalized([Item("?", "Answer: The Eiffel Tower.", "Eiffel tower")])
  choice([Item("?", "The answer is (B).", "B")])[0].verdict == 1

Source: Rajpurkar et al. 2016, "SQuAD: 100,000+ Questions for Machine
Comprehension of Text" (normalization).
"""

from __future__ import annotations

import re
import string
from collections.abc import Callable, Sequence

from rewards.verifiers import Item, Outcome, answer_id, unscored
from rewards.verifiers.numbers import after_thoughts

LETTERS = "ABCDEFGHIJ"  # MMLU-Pro has ten options
_LONGEST = 1000  # largest number of characters of an answer
_ANSWER = re.compile(r"\banswer\b[\s*_]*(?:is\b\s*:?|:)[\s*_]*", re.I)
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
_DRESS = string.whitespace + "()[]{}*_`'\"$.,:;"
_BOX = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf)\s*(?=\{)")
# A single capital that is no word: not `A dog` or `I think`, but `B or A`.
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
  """The answer of a completion, stripped; empty if there is none."""
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
  """SQuAD's normalization, which removes differences of typography."""
  text = text.lower().translate(_PUNCTUATION)
  return " ".join(_ARTICLE.sub(" ", text).split())


def letter(text: str, letters: str = LETTERS) -> str:
  """The single letter that an answer gives; "" for none or several.

  It reads `B`, `b`, `(B)`, `**B.**`, `B) Paris`, `\\boxed{B}`, `option B`.
  There is no answer if a letter is not among `letters`, or if it is denied:
  `not B`, `all but B`, `neither B`.
  """
  if len(text) > _LONGEST:
    return ""
  text = _BOX.sub("", text)
  bare = text.strip(_DRESS)
  if len(bare) == 1:
    return bare.upper() if bare.upper() in letters else ""
  candidates = set()
  for match in _LETTER.finditer(text):
    if _DENIED.search(text, 0, match.start()):
      return ""
    listed = match[0] == "A" and _LISTED.search(text, 0, match.start())
    if listed or not _IS_WORD.match(text, match.start()):
      candidates.add(match[0])
  return (
    candidates.pop()
    if len(candidates) == 1 and candidates <= set(letters)
    else ""
  )


def exact(items: Sequence[Item]) -> list[Outcome]:
  """Compares answers without any normalization; see the module."""
  return [_compared(item, str.strip) for item in items]


def normalized(items: Sequence[Item]) -> list[Outcome]:
  """Compares answers with SQuAD's normalization; see the module."""
  return [_compared(item, normalize) for item in items]


def pattern(items: Sequence[Item]) -> list[Outcome]:
  """Compares answers with regular expressions; see the module.

  Returns:
    Outcomes in order. The verdict is -1 if a reference is empty or no pattern.
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

  `Item.meta["choices"]` holds the texts of the options and thus their number.
  An answer that equals one of these texts, after normalization, counts as its
  letter.

  Returns:
    Outcomes in order. The verdict is -1 if the reference is no letter of an
    option.
  """
  outcomes = []
  for item in items:
    texts = [normalize(str(option)) for option in _listed(item, "choices")]
    letters = string.ascii_uppercase[: len(texts)] or LETTERS
    answer = final_answer(str(item.completion))
    chosen = letter(answer, letters)
    text = normalize(answer)
    if text and not chosen and texts[: len(letters)].count(text) == 1:
      chosen = letters[texts.index(text)]
    truths = {
      reference.strip(_DRESS).upper() for reference in _references(item)
    }
    is_letter = bool(truths) and all(
      len(t) == 1 and t in letters for t in truths
    )
    identity = answer_id(chosen) if chosen else -1
    right = chosen in truths
    outcomes.append(
      Outcome(float(right), int(right), chosen, identity)
      if is_letter
      else unscored("the reference is no letter", chosen, identity)
    )
  return outcomes


def _references(item: Item) -> list[str]:
  """The reference and `meta["answers"]`, without empty ones."""
  answers = [item.reference, *_listed(item, "answers")]
  return [str(each) for each in answers if str(each).strip()]


def _listed(item: Item, name: str) -> Sequence[object]:
  values = item.meta.get(name)
  return values if isinstance(values, list | tuple) else ()


def _compared(item: Item, form: Callable[[str], str]) -> Outcome:
  answer = final_answer(str(item.completion))
  normalized_answer = form(answer)
  truths = {form(reference) for reference in _references(item)} - {""}
  identity = answer_id(normalized_answer) if normalized_answer else -1
  if not truths:
    return unscored("an empty reference", answer, identity)
  right = normalized_answer in truths
  return Outcome(float(right), int(right), answer, identity)
