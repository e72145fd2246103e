"""The 25 verifiable instructions of IFEval, as checkers of a text.

A checker is `(text, **arguments) -> bool`; its docstring states the condition
on the text. Names and arguments are those of the benchmark, so its files can be
read without a conversion. The checkers were written from the descriptions and
differ from the benchmark's code in some decisions: keywords are whole words
(`cat` is not in `category`), words and sentences are those of
`rewards.verifiers.text_units`, and a language is recognized by its script
alone, so a language that shares its script with others is refused.

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
from rl import choices

Checker = Callable[..., bool]

ANSWERS = ("My answer is yes.", "My answer is no.", "My answer is maybe.")
# Languages that are nearly alone in using a script: the names of its letters.
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
  """Contains every keyword."""
  return all(text_units.occurrences(word, text) for word in keywords)


def keyword_frequency(
  text: str, keyword: str, frequency: int, relation: str
) -> bool:
  """The number of occurrences of a keyword is in a relation to `frequency`."""
  count = text_units.occurrences(keyword, text)
  return text_units.compare(count, relation, frequency)


def forbidden_words(text: str, forbidden_words: Sequence[str]) -> bool:
  """Contains none of the words."""
  return not any(text_units.occurrences(word, text) for word in forbidden_words)


def letter_frequency(
  text: str, letter: str, let_frequency: int, let_relation: str
) -> bool:
  """The number of occurrences of a letter, in any case, is in a relation."""
  count = text.lower().count(letter.lower())
  return text_units.compare(count, let_relation, let_frequency)


def response_language(text: str, language: str) -> bool:
  """At least nine in ten letters belong to the language's script."""
  if language not in SCRIPTS:
    raise ValueError(choices.unknown("script of language", language, SCRIPTS))
  letters = [c for c in text if c.isalpha()]
  names = SCRIPTS[language]
  in_script = [c for c in letters if unicodedata.name(c, "").startswith(names)]
  # Japanese and Korean also use Chinese characters, but never these alone.
  typical = any(unicodedata.name(c, "").startswith(names[0]) for c in in_script)
  return typical and 10 * len(in_script) >= 9 * len(letters)


def number_sentences(text: str, num_sentences: int, relation: str) -> bool:
  """The number of sentences is in a relation to `num_sentences`."""
  count = len(text_units.sentences(text))
  return text_units.compare(count, relation, num_sentences)


def number_paragraphs(text: str, num_paragraphs: int) -> bool:
  """Has exactly `num_paragraphs` non-empty paragraphs, separated by `***`."""
  pieces = re.split(r"\s?\*\*\*\s?", text.strip())
  return len(pieces) == num_paragraphs and all(p.strip() for p in pieces)


def number_words(text: str, num_words: int, relation: str) -> bool:
  """The number of words is in a relation to `num_words`."""
  count = len(text_units.words(text))
  return text_units.compare(count, relation, num_words)


def nth_paragraph_first_word(
  text: str, num_paragraphs: int, nth_paragraph: int, first_word: str
) -> bool:
  """Has `num_paragraphs` paragraphs, and the n-th one starts with a word."""
  pieces = text_units.paragraphs(text)
  if len(pieces) != num_paragraphs or not 1 <= nth_paragraph <= len(pieces):
    return False
  begins = text_units.words(pieces[nth_paragraph - 1])[:1]
  return [word.lower() for word in begins] == [first_word.lower()]


def number_placeholders(text: str, num_placeholders: int) -> bool:
  """Has at least `num_placeholders` placeholders, such as [address]."""
  return len(re.findall(r"\[[^\[\]]+\]", text)) >= num_placeholders


def postscript(text: str, postscript_marker: str) -> bool:
  """Has a line that starts with the marker P.S. or P.P.S. and continues."""
  letters = [re.escape(c) for c in postscript_marker if c.isalpha()]
  dotted = r"\.?\s?".join(letters) + r"(?![A-Za-z])[.:]*"
  return bool(re.search(rf"^[^\S\n]*{dotted}[^\w\n]*\w", text, re.I | re.M))


def number_bullet_lists(text: str, num_bullets: int) -> bool:
  """Has exactly `num_bullets` lines that start with a bullet, `* ` or `- `."""
  bullets = re.findall(r"^[^\S\n]*[*-](?![*-])[^\S\n]*\S", text, re.M)
  return len(bullets) == num_bullets


def constrained_response(text: str, options: Sequence[str] = ANSWERS) -> bool:
  """Contains exactly one of the options."""
  return sum(option in text for option in options) == 1


def number_highlighted_sections(text: str, num_highlights: int) -> bool:
  """Has at least `num_highlights` sections in `*...*` or `**...**`."""
  pairs = re.findall(r"\*\*([^*\n]+)\*\*|\*([^*\n]+)\*", text)
  marked = [wide or narrow for wide, narrow in pairs]
  return sum(bool(piece.strip()) for piece in marked) >= num_highlights


def multiple_sections(
  text: str, section_spliter: str, num_sections: int
) -> bool:
  """Has at least `num_sections` sections with headings such as `Section 1`."""
  pattern = rf"^[^\S\n#*]*[#*]*[^\S\n]*{re.escape(section_spliter)}\s?[0-9]+"
  return len(re.findall(pattern, text, re.M)) >= num_sections


def json_format(text: str) -> bool:
  """Is one JSON object or list, with or without a code fence."""
  fenced = re.fullmatch(r"\s*```(?:json|JSON)?\s(.*)```\s*", text, re.S)
  try:
    return isinstance(json.loads(fenced[1] if fenced else text), dict | list)
  except (ValueError, RecursionError):
    return False


def title(text: str) -> bool:
  """Has a title in double angle brackets, such as `<<poem of joy>>`."""
  titles = re.findall(r"<<([^<>\n]+)>>", text)
  return any(piece.strip() for piece in titles)


def two_responses(text: str) -> bool:
  """Has two different responses, separated by six asterisks."""
  pieces = [p.strip() for p in re.split(r"\*{6}", text) if p.strip()]
  return len(pieces) == 2 and pieces[0] != pieces[1]


def repeat_prompt(text: str, prompt_to_repeat: str) -> bool:
  """Starts with the prompt, word for word, and continues."""
  text, prompt = text.strip().lower(), prompt_to_repeat.strip().lower()
  return text.startswith(prompt) and bool(text[len(prompt) :].strip())


def end_checker(text: str, end_phrase: str) -> bool:
  """Ends with a phrase; only quotation marks may follow it."""
  text = text.strip().strip("\"'").strip().lower()
  return text.endswith(end_phrase.strip().strip("\"'").lower())


def capital_word_frequency(
  text: str, capital_frequency: int, capital_relation: str
) -> bool:
  """The number of words in capitals is in a relation."""
  count = sum(word.isupper() for word in text_units.words(text))
  return text_units.compare(count, capital_relation, capital_frequency)


def english_capital(text: str) -> bool:
  """Has Latin letters, all of them capitals."""
  return text.isupper() and _latin(text)


def english_lowercase(text: str) -> bool:
  """Has Latin letters, none of them a capital."""
  return text.islower() and _latin(text)


def no_comma(text: str) -> bool:
  """Has no comma."""
  return "," not in text


def quotation(text: str) -> bool:
  """Is enclosed in double quotation marks."""
  text = text.strip()
  return len(text) > 2 and text[0] in '"\u201c' and text[-1] in '"\u201d'


def _latin(text: str) -> bool:
  """At least nine in ten letters are Latin."""
  letters = [c for c in text if c.isalpha()]
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
