"""The 25 verifiable instructions of IFEval, as functions that check a text.

A checker is a function `(text, **arguments) -> bool`. A checker that compares a
count with a number returns True if the count is in a relation to the number:
"at least", "at most", "exactly", "less than" or "more than" (the argument
`relation`, `let_relation` or `capital_relation`). For an empty text the result
may be True or False; `constraints.obeys` calls no checker for such a text.

The keys of `CHECKERS` and the names of the arguments are those of the
benchmark, whose files thus need no conversion. The checkers were written from
the benchmark's descriptions and differ from its code in some decisions:
keywords are whole words (`cat` is not in `category`), words and sentences are
those of `rewards.verifiers.text_units`, and a language is recognized by its
script alone. A language that shares its script with others raises a UsageError.
Each checker takes time linear in the text, so that no text is slow to judge.

Usage:
  CHECKERS["keywords:existence"]("A red fox.", keywords=["fox"]) is True

Source: Zhou et al. 2023, "Instruction-Following Evaluation for Large Language
Models".
"""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Callable, Sequence

from rewards.verifiers import text_units
from rl import registry

Checker = Callable[..., bool]

# Options of `constrained_response`, from the benchmark.
ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
# ISO code of a language -> first words of the Unicode names of its letters. The
# languages are almost the only ones that use their script.
SCRIPTS = {
  "am": ("ETHIOPIC",),
  "bn": ("BENGALI",),
  "el": ("GREEK",),
  "gu": ("GUJARATI",),
  "he": ("HEBREW",),
  "hy": ("ARMENIAN",),
  "ja": ("HIRAGANA", "KATAKANA", "CJK"),
  "ka": ("GEORGIAN",),
  "km": ("KHMER",),
  "kn": ("KANNADA",),
  "ko": ("HANGUL", "CJK"),
  "lo": ("LAO",),
  "ml": ("MALAYALAM",),
  "my": ("MYANMAR",),
  "or": ("ORIYA",),
  "pa": ("GURMUKHI",),
  "si": ("SINHALA",),
  "ta": ("TAMIL",),
  "te": ("TELUGU",),
  "th": ("THAI",),
  "zh": ("CJK",),
}


def keywords_existence(text: str, keywords: Sequence[str]) -> bool:
  """Returns True if the text contains every keyword."""
  return all(text_units.occurrences(word, text) for word in keywords)


def keyword_frequency(
  text: str, keyword: str, frequency: int, relation: str
) -> bool:
  """Compares the number of occurrences of `keyword` with `frequency`."""
  count = text_units.occurrences(keyword, text)
  return text_units.compare(count, relation, frequency)


def forbidden_words(text: str, forbidden_words: Sequence[str]) -> bool:
  """Returns True if the text contains none of the words."""
  return not any(text_units.occurrences(word, text) for word in forbidden_words)


def letter_frequency(
  text: str, letter: str, let_frequency: int, let_relation: str
) -> bool:
  """Compares the number of occurrences of `letter` with `let_frequency`.

  Capital and lower-case letters are counted together.
  """
  count = text.lower().count(letter.lower())
  return text_units.compare(count, let_relation, let_frequency)


def response_language(text: str, language: str) -> bool:
  """Returns True if nine in ten letters or more belong to a language's script.

  Args:
    text: text to check; without letters the result is False.
    language: a key of `SCRIPTS`, such as "el" for Greek.

  Raises:
    UsageError: `SCRIPTS` does not contain the language, because several
      languages use its script.
  """
  registry.check_known("script of language", language, SCRIPTS)
  letters = [c for c in text if c.isalpha()]
  names = SCRIPTS[language]
  letters_in_script = [
    c for c in letters if unicodedata.name(c, "").startswith(names)
  ]
  # Japanese and Korean also use Chinese characters, but never these alone.
  has_typical_letter = any(
    unicodedata.name(c, "").startswith(names[0]) for c in letters_in_script
  )
  return has_typical_letter and 10 * len(letters_in_script) >= 9 * len(letters)


def number_sentences(text: str, num_sentences: int, relation: str) -> bool:
  """Compares the number of sentences with `num_sentences`."""
  count = len(text_units.sentences(text))
  return text_units.compare(count, relation, num_sentences)


def number_paragraphs(text: str, num_paragraphs: int) -> bool:
  """Returns True if the text has exactly `num_paragraphs` paragraphs.

  The paragraphs are separated by `***`, and none is empty.
  """
  pieces = re.split(r"\s?\*\*\*\s?", text.strip())
  return len(pieces) == num_paragraphs and all(p.strip() for p in pieces)


def number_words(text: str, num_words: int, relation: str) -> bool:
  """Compares the number of words with `num_words`."""
  count = len(text_units.words(text))
  return text_units.compare(count, relation, num_words)


def nth_paragraph_first_word(
  text: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
  """Returns True if a paragraph starts with a word, in any case.

  Args:
    text: text to check; paragraphs are separated by empty lines.
    num_paragraphs: number of paragraphs that the text must have.
    nth_paragraph: number of the paragraph to check; the first one is 1.
    first_word: the word.
  """
  pieces = text_units.paragraphs(text)
  if len(pieces) != num_paragraphs or not 1 <= nth_paragraph <= len(pieces):
    return False
  first_words = text_units.words(pieces[nth_paragraph - 1])[:1]
  return [word.lower() for word in first_words] == [first_word.lower()]


def number_placeholders(text: str, num_placeholders: int) -> bool:
  """Returns True if the text has `num_placeholders` placeholders or more.

  A placeholder is text in square brackets, such as [address].
  """
  return len(re.findall(r"\[[^\[\]]+\]", text)) >= num_placeholders


def postscript(text: str, postscript_marker: str) -> bool:
  """Returns True if a line starts with the marker and continues with a word.

  Args:
    text: text to check.
    postscript_marker: "P.S." or "P.P.S"; dots and spaces are optional, and case
      does not count, in the text: `PS: ...` has the marker "P.S.".
  """
  # "P.S." becomes an expression that matches `P.S. x`, `PS: x` and `p. s. x`.
  letters = [re.escape(c) for c in postscript_marker if c.isalpha()]
  marker_pattern = r"\.?\s?".join(letters) + r"(?![A-Za-z])"
  pattern = rf"^[^\S\n]*{marker_pattern}[^\w\n]*\w"
  return bool(re.search(pattern, text, re.I | re.M))


def number_bullet_lists(text: str, num_bullets: int) -> bool:
  """Returns True if exactly `num_bullets` lines start with a bullet.

  A bullet is `*` or `-`.
  """
  # Matches `* item` and `- item`, but not `** bold` or `---`.
  bullets = re.findall(r"^[^\S\n]*[*-](?![*-])[^\S\n]*\S", text, re.M)
  return len(bullets) == num_bullets


def constrained_response(text: str, options: Sequence[str] = ANSWERS) -> bool:
  """Returns True if the text contains exactly one of the options."""
  return sum(option in text for option in options) == 1


def number_highlighted_sections(text: str, num_highlights: int) -> bool:
  """Returns True if `num_highlights` parts or more are in bold or italic type.

  Such a part is written as `**...**` or `*...*` in one line.
  """
  pairs = re.findall(r"\*\*([^*\n]+)\*\*|\*([^*\n]+)\*", text)
  contents = [bold or italic for bold, italic in pairs]
  return sum(bool(content.strip()) for content in contents) >= num_highlights


def multiple_sections(
  text: str, section_spliter: str, num_sections: int
) -> bool:
  """Returns True if the text has `num_sections` headings or more.

  Args:
    text: text to check.
    section_spliter: the word before the number of a section: with "Section", a
      line that starts with `Section 1` or `# Section 1` is a heading.
    num_sections: smallest number of headings.
  """
  mark = r"^[^\S\n]*(?:[#*]+[^\S\n]*)?"
  pattern = rf"{mark}{re.escape(section_spliter)}\s?[0-9]+"
  return len(re.findall(pattern, text, re.M)) >= num_sections


def json_format(text: str) -> bool:
  """Returns True if the text is one JSON object or list.

  It may be inside of a code fence ("```json {...} ```").
  """
  fence = re.fullmatch(r"\s*```(?:json|JSON)?\s(.*)```\s*", text, re.S)
  try:
    return isinstance(json.loads(fence[1] if fence else text), dict | list)
  except (ValueError, RecursionError):
    return False


def title(text: str) -> bool:
  """Returns True if the text has a title such as `<<poem of joy>>`."""
  titles = re.findall(r"<<([^<>\n]+)>>", text)
  return any(piece.strip() for piece in titles)


def two_responses(text: str) -> bool:
  """Returns True if the text is two different responses.

  They are separated by six asterisks, `******`.
  """
  pieces = [p.strip() for p in re.split(r"\*{6}", text) if p.strip()]
  return len(pieces) == 2 and pieces[0] != pieces[1]


def repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
  """Returns True if the text starts with the prompt and continues.

  Case does not count.
  """
  text, prompt = text.strip().lower(), prompt_to_repeat.strip().lower()
  return text.startswith(prompt) and text != prompt


def end_checker(text: str, end_phrase: str) -> bool:
  """Returns True if the text ends with `end_phrase`.

  Quotation marks may follow the phrase, and case does not count.
  """
  text = text.strip().strip("\"'").strip().lower()
  return text.endswith(end_phrase.strip().strip("\"'").lower())


def capital_word_frequency(
  text: str, capital_frequency: int, capital_relation: str
) -> bool:
  """Compares the number of words in capitals with `capital_frequency`."""
  count = sum(word.isupper() for word in text_units.words(text))
  return text_units.compare(count, capital_relation, capital_frequency)


def english_capital(text: str) -> bool:
  """Returns True if the text has Latin letters, and all are capitals."""
  return text.isupper() and _latin(text)


def english_lowercase(text: str) -> bool:
  """Returns True if the text has Latin letters, and none is a capital."""
  return text.islower() and _latin(text)


def no_comma(text: str) -> bool:
  """Returns True if the text has no comma."""
  return "," not in text


def quotation(text: str) -> bool:
  """Returns True if the text is enclosed in double quotation marks."""
  text = text.strip()
  return len(text) > 2 and text[0] in '"\u201c' and text[-1] in '"\u201d'


def _latin(text: str) -> bool:
  """Returns True if nine in ten letters or more are Latin."""
  letters = [c for c in text if c.isalpha()]
  # Unicode has the Latin letters of European languages below U+0250.
  return 10 * sum(c < "\u0250" for c in letters) >= 9 * len(letters)


CHECKERS: dict[str, Checker] = {
  "keywords:existence": keywords_existence,
  "keywords:frequency": keyword_frequency,
  "keywords:forbidden_words": forbidden_words,
  "keywords:letter_frequency": letter_frequency,
  "language:response_language": response_language,
  "length_constraints:number_sentences": number_sentences,
  "length_constraints:number_paragraphs": number_paragraphs,
  "length_constraints:number_words": number_words,
  "length_constraints:nth_paragraph_first_word": nth_paragraph_first_word,
  "detectable_content:number_placeholders": number_placeholders,
  "detectable_content:postscript": postscript,
  "detectable_format:number_bullet_lists": number_bullet_lists,
  "detectable_format:constrained_response": constrained_response,
  "detectable_format:number_highlighted_sections": number_highlighted_sections,
  "detectable_format:multiple_sections": multiple_sections,
  "detectable_format:json_format": json_format,
  "detectable_format:title": title,
  "combination:two_responses": two_responses,
  "combination:repeat_prompt": repeat_prompt,
  "startend:end_checker": end_checker,
  "startend:quotation": quotation,
  "change_case:capital_word_frequency": capital_word_frequency,
  "change_case:english_capital": english_capital,
  "change_case:english_lowercase": english_lowercase,
  "punctuation:no_comma": no_comma,
}
