"""Compares answers as strings: exact, normalized, by pattern, by letter.

The answer of a completion is the content of its last `<answer>...</answer>`;
without these tags, the answer after the last mark such as `Answer:` or `the
answer is`, or in a later `\\boxed{...}` (`answer_extraction` has the rules);
without any of these, the whole text. A blank answer is wrong.
`Item.meta["answers"]` may list further references; an answer that matches one
of them is right. An answer that names the same thing in other words is wrong:
`NYC` for `New York City`.

  exact       the strings are equal, without spaces at their ends
  normalized  the strings have the same words, numbers and symbols in the same
              order; case, articles and punctuation do not count, and numbers
              are compared by value (`normalize` has the rules)
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
Comprehension of Text" (normalization). Deviation: SQuAD's script deletes all
ASCII punctuation, so that 1.5 and -15 equal 15 there, and C++ equals C.
"""

from __future__ import annotations

import decimal
import functools
import itertools
import re
import string
import unicodedata
from collections.abc import Callable, Sequence
from typing import NamedTuple

from rewards.verifiers import (
  Item,
  Outcome,
  answer_extraction,
  answer_id,
  unscored,
)
from rewards.verifiers.denials import is_denied

LETTERS = "ABCDEFGHIJ"  # MMLU-Pro has ten options
_MAX_CHARACTERS = 1000  # longer answers match no pattern and have no letter
# Matches no-break and thin spaces between thousands: `12 345`.
_THOUSANDS_SPACE = re.compile(r"(?<=\d)[\xa0\u2009\u202f](?=\d{3}(?!\d))")
# Matches text that NFKC may change. It would turn superscripts, subscripts and
# fractions into digits (a square into 2), and U+00B4 into two characters.
_COMPATIBLE = re.compile(
  "[^\xb2-\xb4\xb9\xbc-\xbe\u2070-\u209f\u2150-\u215f\u2189]+"
)
_VARIANTS = str.maketrans(
  {
    **dict.fromkeys("`\xb4\u2018\u2019\u201b\u02bc", "'"),
    **dict.fromkeys("\u2010\u2012\u2013\u2212", "-"),  # en dash, minus sign
    **dict.fromkeys("\u2014\u2015", " - "),  # em dash
    **dict.fromkeys("\u2044\u2215", "/"),
    "%": " percent ",
    "&": " and ",
  }
)
_LONG_DASH = re.compile(r"-{2,}")
_RELATIONS = (("<=", "\u2264"), (">=", "\u2265"), ("!=", "\u2260"))
# Matches the start of a list item or a heading: `* Paris`, `## Paris`.
_BULLET = re.compile(r"^\s*(?:\*|#{1,6})\s+")
# Match `**Paris**` and `$x$`, but neither `2*3*4` nor `$5 and $6`.
_PAIRED_MARKS = [
  re.compile(
    rf"(?<![\w{mark}])[{mark}]{{1,3}}(?=[^\s{mark}])([^{mark}]*)"
    rf"(?<=[^\s{mark}])[{mark}]{{1,3}}(?![\w{mark}])"
  )
  for mark in "*$"
]
_CURRENCIES = "$\xa2\xa3\xa5\u20ac"
# Matches an article and the spaces between it and a word, number or currency,
# but no letter of a list such as `A and B`.
_ARTICLE = re.compile(
  r"(?<![\w./'-])(?:a|an|the)\s+(?!(?:and|or)\b)"
  rf"(?=[\"'\u201c(\[]*[^\W_]|[{_CURRENCIES}])"
)
_TOKEN = re.compile(
  r"(?P<dotted>\d+(?:\.\d+){2,})"  # a date, an address or a version
  r"|(?P<number>(?:(?:\d{1,3}(?:,\d{3})+(?!\d)|\d+)(?:\.\d+)?"
  r"|(?<![\w.])\.\d+)(?:e[-+]?\d{1,9}(?!\w))?)"
  r"|(?P<word>[^\W\d_]+(?:['.][^\W\d_]+)*)"
  r"|(?P<symbol>[)\]}](?=\s*[*/^]))|(?P<mark>\S)"
)
_EXACT = decimal.Context(
  prec=decimal.MAX_PREC, Emin=decimal.MIN_EMIN, Emax=decimal.MAX_EMAX
)
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
    text: text of the policy after its thoughts.
    prompt: the prompt; boxes and marks copied from it are skipped.
  """
  tagged = answer_extraction.tagged_answer(text)
  if tagged is not None:
    return tagged
  marked = answer_extraction.marked_answer(text, prompt)
  box = answer_extraction.boxed_answer(text, prompt)
  # A box within the line of the mark belongs to that answer.
  if box and (marked is None or box[0] >= marked[0]):
    return answer_extraction.strip_markup(box[1])
  return marked[1] if marked else text.strip()


# The samples of a prompt share a reference, and many of them an answer.
@functools.lru_cache(maxsize=1024)
def normalize(text: str) -> str:
  r"""Returns the tokens of a text, by which `normalized` compares answers.

  The tokens are numbers, words and symbols. Spaces between them do not count:
  `5 km` is `5km`, `x > 3` is `x>3`, and `1914 - 18` is `1914-18`.

    numbers   are compared by value: `72.0` is `72`, `1,234` is `1234`, `.5` is
              `0.5`, `007` is `7`, and `5e3` is `5000`. With two full stops or
              more it is a version or a date: `3.10.0` is not `3.1.0`. A `+`
              before a number does not count at the start of the text.
    words     are compared without case, and without the apostrophes and full
              stops inside of them: `cat's` is `cats`, and `U.S.` is `US`.
    symbols   count: `C++` is not `C`, `$5` is not `5`, and `x > 3` is not `x <
              3`. They are `#`, `*`, `@`, `\`, the permille sign and Unicode's
              symbols, such as `+ = < > ^ ~ | $` and the degree sign. A currency
              sign may stand before or after its number. `%` is the word
              percent, and `&` is the word and.
    -         counts next to a number or a symbol, and where it touches only
              one of its neighbors: `-5`, `-x`, `A-`, and `10-20`. Else it is a
              space: `well-known` is `well known`, but not `wellknown`.
    /         counts next to a number or a symbol: `1/2`. Else it is a space.
    :         counts between two numbers: `10:30`. Else it is a space.
    brackets  count after `- * / ^` and before `* / ^`, where they may change a
              value: `2(x)` is `2 x`, but `(1+2)*3` is not `1+2*3`. Else they
              are spaces.
    articles  `a`, `an` and `the` do not count before a space and a word (except
              and, or), a number or a currency sign. `A`, `A+`, `vitamin A` and
              `A or B` keep theirs.

  All other punctuation is a space, such as `, ; ! ? . _` and quotation marks,
  and so are the marks of bold, italic and code type, of a bullet and of a
  heading in Markdown, and the two `$` of LaTeX's `$x$`. Typographic variants
  are equal: quotation marks, dashes, spaces, ligatures, and `<=` for the sign
  of one character. Accents count. A text of punctuation alone is its own token:
  `?`.

  Args:
    text: an answer.

  Returns:
    The tokens, separated by spaces, such as `eiffel tower` or `- 1 / 2`; "" for
    a blank text. Numbers are written in the shortest form of `decimal`.
  """
  text = _THOUSANDS_SPACE.sub(",", text)
  if not text.isascii():
    text = _COMPATIBLE.sub(
      lambda match: unicodedata.normalize("NFKC", match[0]), text
    )
  text = _LONG_DASH.sub(" - ", text.casefold().translate(_VARIANTS))
  for ascii_form, symbol in _RELATIONS:
    text = text.replace(ascii_form, symbol)
  body = _BULLET.sub("", text)
  for paired_marks in _PAIRED_MARKS:
    body = paired_marks.sub(r"\1", body)
  tokens = _tokens(_ARTICLE.sub("", body))
  tokens = [
    token
    for i, token in enumerate(tokens)
    if token.kind != "mark" or _counts(tokens, i)
  ]
  for i, (first, second) in enumerate(itertools.pairwise(tokens)):
    if first.text in _CURRENCIES and second.kind == "number":
      tokens[i : i + 2] = second, first
  has_plus = [token.text for token in tokens[:1]] == ["+"]
  if has_plus and tokens[1:] and tokens[1].kind == "number":
    del tokens[0]
  return " ".join(token.text for token in tokens) or " ".join(text.split())


class _Token(NamedTuple):
  """A token of `normalize`, or a `-`, `/` or `:` that may be one.

  Attributes:
    text: the text that is compared.
    kind: "number", "word", "symbol" or "mark", which is one of `- / :`.
    is_apart: whether a space or other punctuation precedes it.
  """

  text: str
  kind: str
  is_apart: bool


def _tokens(text: str) -> list[_Token]:
  """Splits a text into tokens, without the punctuation that never counts."""
  tokens: list[_Token] = []
  end = 0  # of the previous token
  for match in _TOKEN.finditer(text):
    kind, token = match.lastgroup, match[0]
    if kind == "dotted":
      kind = "number"
      token = ".".join(part.lstrip("0") or "0" for part in token.split("."))
    elif kind == "number":
      token = str(
        _EXACT.create_decimal(token.replace(",", "")).normalize(_EXACT)
      )
    elif kind == "word":
      token = token.replace("'", "").replace(".", "")
    elif kind == "mark" and token not in "-/:":
      is_grouping = token in "([{" and tokens and tokens[-1].text in "-*/^"
      is_symbol = (
        token in "#*@\\\u2030" or unicodedata.category(token)[0] in "SM"
      )
      if not is_grouping and not is_symbol:
        continue
      kind = "symbol"
    tokens.append(_Token(token, kind, match.start() > end))
    end = match.end()
  return tokens


def _counts(tokens: Sequence[_Token], index: int) -> bool:
  """Returns whether one of the marks `- / :` counts."""
  token = tokens[index]
  before, after = tokens[max(index - 1, 0) : index], tokens[index + 1 :][:1]
  kinds = [neighbor.kind for neighbor in (*before, *after)]
  if token.text == ":":
    return kinds == ["number", "number"]
  touches_before = bool(before) and not token.is_apart
  touches_after = bool(after) and not after[0].is_apart
  touches_one = touches_before != touches_after
  return (token.text == "-" and touches_one) or any(
    kind in ("number", "symbol") for kind in kinds
  )


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
  """Compares each completion's answer by its words, numbers and symbols.

  `normalize` returns what is compared.

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
    has_length = 0 < len(answer) <= _MAX_CHARACTERS
    matches = has_length and any(each.fullmatch(answer) for each in patterns)
    identity = answer_id(answer) if answer else -1
    outcomes.append(Outcome(float(matches), int(matches), answer, identity))
  return outcomes


def choice(items: Sequence[Item]) -> list[Outcome]:
  """Compares the letter of each completion's option; see `letter`.

  Args:
    items: completions whose references are letters. `Item.meta["choices"]` may
      list the texts of the options; without it the options are A to J. An
      answer that `normalize` makes equal to one of these texts chooses its
      letter.

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
    if texts and answer and not chosen_letter:
      text = normalize(answer)
      if texts[: len(letters)].count(text) == 1:
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
