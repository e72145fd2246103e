"""Compares answers as strings: exact, normalized, by pattern, by letter.

The answer of a completion is the content of its last `<answer>...</answer>`;
without these tags, the answer after the last mark such as `Answer:` or `the
answer is`, or in a later `\\boxed{...}` (`answers` has the rules); without any
of these, the whole text. Text inside of thoughts (`<think>...</think>`) does
not count. `Item.meta["answers"]` may list further references; an answer that
matches one of them is right. An answer that names the same thing in other words
is wrong: `NYC` for `New York City`.

  exact       the strings are equal, without spaces at their ends
  normalized  the strings are equal after SQuAD's normalization: lower case,
              without punctuation, without `a`, `an`, `the`, with single spaces
  pattern     the reference is a regular expression that matches the whole
              answer
  choice      the letters are equal, and the answer has one letter only: `A or
              B` is no answer, and neither is a letter that the answer denies:
              `It can't be B`, `I rule out B`, `B is wrong`

The regular expressions of `pattern` come from the data, not from the policy,
and run without a time limit. An answer of more than 1000 characters matches no
expression. Nested repetitions such as `(a+)+` can still take exponential time;
run them in a worker that can be killed (`pool.Pool`).

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

from rewards.verifiers import (
  Item,
  Outcome,
  after_thoughts,
  answer_id,
  answers,
  unscored,
)
from rewards.verifiers.denials import is_denied

LETTERS = "ABCDEFGHIJ"  # MMLU-Pro has ten options
_MAX_CHARACTERS = 1000  # longer answers match no pattern and have no letter
_ARTICLE = re.compile(r"\b(?:a|an|the)\b")
_PUNCTUATION = str.maketrans("", "", string.punctuation)
# Characters around a letter that do not count: `(B)`, `**B.**`, `$B$`.
_OUTER_CHARACTERS = string.whitespace + "()[]{}*_`'\"$.,:;"
# Matches the command of `\boxed{B}` and `\text{B}`, without the braces.
_LATEX_COMMAND = re.compile(r"\\(?:boxed|text|textbf|mathrm|mathbf)\s*(?=\{)")
# Matches a capital that stands alone: the B of `(B) Paris`, not of `B's`.
_LETTER = re.compile(r"(?<![\w'\u2019-])[A-Z](?![\w'\u2019-])")
# Matches `A` and `I` as words (`A dog`, `I think`), not `A is` or `A and B`.
_ARTICLE_OR_PRONOUN = re.compile(
  r"[AI]\s+(?!(?:is|and|or|not|nor|but|because|since|as)\b)[a-z]"
)
# Matches text before a later letter of a list: `or ` and `, (`, as in `B or A`.
_LIST_SEPARATOR = re.compile(r"(?:\b(?:or|and|not|nor)|[,/&])[\s(*]*$")


def final_answer(text: str, prompt: str = "") -> str:
  """Returns the answer of a completion, stripped; "" if there is none.

  Args:
    text: text of the policy.
    prompt: the prompt; boxes and marks copied from it are skipped.
  """
  text = after_thoughts(text)
  tagged = answers.tagged_answer(text)
  if tagged is not None:
    return tagged
  marked = answers.marked_answer(text, prompt)
  box = answers.boxed_answer(text, prompt)
  # A box within the line of the mark belongs to that answer.
  if box and (marked is None or box[0] >= marked[0]):
    return answers.strip_markup(box[1])
  return marked[1] if marked else text.strip()


def normalize(text: str) -> str:
  """Returns a text after SQuAD's normalization: `The U.S.` -> `us`."""
  text = text.lower().translate(_PUNCTUATION)
  return " ".join(_ARTICLE.sub(" ", text).split())


def letter(text: str, letters: str = LETTERS) -> str:
  """Returns the option that an answer chooses; "" for none or several.

  `B`, `b`, `(B)`, `**B.**`, `B) Paris`, `\\boxed{B}` and `option B` choose `B`.
  `not B`, `all but B`, `it cannot be B` and `B is wrong` choose none.

  Args:
    text: an answer; with more than 1000 characters it chooses none.
    letters: the capital letters of the options. An answer with another letter
      chooses none.
  """
  if len(text) > _MAX_CHARACTERS:
    return ""
  text = _LATEX_COMMAND.sub("", text)
  stripped_text = text.strip(_OUTER_CHARACTERS)
  if len(stripped_text) == 1:
    return stripped_text.upper() if stripped_text.upper() in letters else ""
  candidates = set()
  for match in _LETTER.finditer(text):
    if is_denied(text, *match.span()):
      return ""
    # In `B or A since ...` the A is an option, in `A dog` an article.
    in_list = match[0] == "A" and _LIST_SEPARATOR.search(text, 0, match.start())
    if in_list or not _ARTICLE_OR_PRONOUN.match(text, match.start()):
      candidates.add(match[0])
  return (
    candidates.pop()
    if len(candidates) == 1 and candidates <= set(letters)
    else ""
  )


def exact(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's answer with the references, without a change.

  Args:
    items: completions with references; see the top of the file.

  Returns:
    Outcomes in order. The verdict is 1 if the answer equals a reference, 0 if
    it equals none, and -1 if all references are empty.
  """
  return [_compare(item, str.strip) for item in items]


def normalized(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's answer after SQuAD's normalization.

  Args:
    items: completions with references; see the top of the file.

  Returns:
    Outcomes in order. The verdict is 1 if the answer equals a reference, 0 if
    it equals none, and -1 if all references are empty.
  """
  return [_compare(item, normalize) for item in items]


def pattern(items: Sequence[Item]) -> list[Outcome]:
  """Matches each completion's answer with regular expressions.

  Args:
    items: completions whose references are regular expressions.

  Returns:
    Outcomes in order. The verdict is 1 if a reference matches the whole answer,
    0 if none does, and -1 if all references are empty or one of them is not a
    regular expression.
  """
  outcomes = []
  for item in items:
    answer = final_answer(str(item.completion), str(item.prompt))
    try:
      patterns = [re.compile(reference) for reference in _references(item)]
    except (re.error, OverflowError, RecursionError):
      patterns = []
    if not patterns:
      reason = (
        "expected regular expressions as references, "
        f"got {_quote_references(item)}"
      )
      outcomes.append(unscored(reason, answer))
      continue
    is_short = len(answer) <= _MAX_CHARACTERS
    matches = is_short and any(each.fullmatch(answer) for each in patterns)
    identity = answer_id(answer) if answer else -1
    outcomes.append(Outcome(float(matches), int(matches), answer, identity))
  return outcomes


def choice(items: Sequence[Item]) -> list[Outcome]:
  """Compares the letter of each completion's option; see `letter`.

  Args:
    items: completions whose references are letters. `Item.meta["choices"]` may
      list the texts of the options; without it the options are A to J. An
      answer that equals one of these texts after SQuAD's normalization chooses
      its letter.

  Returns:
    Outcomes in order. The verdict is 1 if the letters are equal, 0 if not, and
    -1 if a reference is not the letter of an option.
  """
  outcomes = []
  for item in items:
    texts = [normalize(str(option)) for option in _meta_list(item, "choices")]
    letters = string.ascii_uppercase[: len(texts)] or LETTERS
    answer = final_answer(str(item.completion), str(item.prompt))
    chosen_letter = letter(answer, letters)
    text = normalize(answer)
    if text and not chosen_letter and texts[: len(letters)].count(text) == 1:
      chosen_letter = letters[texts.index(text)]
    truths = {
      reference.strip(_OUTER_CHARACTERS).upper()
      for reference in _references(item)
    }
    is_letter = bool(truths) and all(
      len(truth) == 1 and truth in letters for truth in truths
    )
    identity = answer_id(chosen_letter) if chosen_letter else -1
    is_equal = chosen_letter in truths
    reason = (
      f"expected letters of {letters} as references, "
      f"got {_quote_references(item)}"
    )
    outcomes.append(
      Outcome(float(is_equal), int(is_equal), chosen_letter, identity)
      if is_letter
      else unscored(reason, chosen_letter, identity)
    )
  return outcomes


def _references(item: Item) -> list[str]:
  """Returns the nonempty ones of the reference and `meta["answers"]`."""
  answers = [item.reference, *_meta_list(item, "answers")]
  return [str(each) for each in answers if str(each).strip()]


def _quote_references(item: Item) -> str:
  """Returns the references of an item for a message, at most 100 characters."""
  return repr(_references(item))[:100]


def _meta_list(item: Item, name: str) -> Sequence[object]:
  """Returns `meta[name]`; () if it is missing or not a list."""
  values = item.meta.get(name)
  return values if isinstance(values, list | tuple) else ()


def _compare(item: Item, normalizer: Callable[[str], str]) -> Outcome:
  """Compares an answer with the references, both after `normalizer`."""
  answer = final_answer(str(item.completion), str(item.prompt))
  normalized_answer = normalizer(answer)
  truths = {normalizer(reference) for reference in _references(item)} - {""}
  identity = answer_id(normalized_answer) if normalized_answer else -1
  if not truths:
    reason = f"expected a nonempty reference, got {_quote_references(item)}"
    return unscored(reason, answer, identity)
  is_equal = normalized_answer in truths
  return Outcome(float(is_equal), int(is_equal), answer, identity)
