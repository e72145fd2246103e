"""Verifiable instructions beyond IFEval, as functions that check a text.

A checker is a function `(text, **arguments) -> bool`. `CHECKERS` contains
instructions of IFBench and of its training set (IF-RLVR), with the benchmark's
names and arguments, and four instructions of this project (`own:`). For an
empty text the result may be True or False; `constraints.obeys` calls no checker
for such a text.

The checkers were written from the benchmark's descriptions and use the words
and sentences of `rewards.verifiers.text_units`. Each takes time linear in the
text, so that no text is slow to judge. They differ from the benchmark's code in
some decisions: punctuation is never part of a word, `1,000.5` is one number,
and in `alphabet` the first word may start with any letter, but each later word
must start with the next letter.

Instructions that need more than the text are left out: those about person
names, parts of speech (which need a tagger), syllables and European capitals,
and templates that fit only one prompt.

Usage:
  CHECKERS["words:repeats"]("row row row", small_n=2) is False

Source: Pyatkin et al. 2025, "Generalizing Verifiable Instruction Following".
"""

from __future__ import annotations

import collections
import datetime
import itertools
import math
import re
import string
import unicodedata
from collections.abc import Iterator, Sequence

from rewards.verifiers import text_units
from rewards.verifiers.ifeval import Checker

# Coordinating conjunctions.
COORDINATING = ("and", "but", "for", "nor", "or", "so", "yet")
_STOP_WORDS = (
  "a about above after again against all am an and any are as at be because "
  "been before being below between both but by can did do does doing down "
  "during each few for from further had has have having he her here hers "
  "herself him himself his how i if in into is it its itself just me more "
  "most my myself no nor not now of off on once only or other our ours "
  "ourselves out over own same she should so some such than that the their "
  "theirs them themselves then there these they this those through to too "
  "under until up very was we were what when where which while who whom why "
  "will with you your yours yourself yourselves"
)
STOP_WORDS = frozenset(_STOP_WORDS.split())
_PRONOUNS = (
  "i me my mine myself we us our ours ourselves you your yours yourself "
  "yourselves he him his himself she her hers herself it its itself they "
  "them their theirs themselves this that these those who whom whose which "
  "what whoever whomever whatever whichever anybody anyone anything "
  "everybody everyone everything nobody nothing somebody someone something "
  "each either neither both all some any none"
)
PRONOUNS = frozenset(_PRONOUNS.split())
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")  # `7`, `3.14`, `1,000.5`
_CLOSING_BRACKETS = {"(": ")", "[": "]", "{": "}"}  # by opening bracket


def word_count_range(text: str, min_words: int, max_words: int) -> bool:
  """Returns True if the text has `min_words` to `max_words` words."""
  return min_words <= len(text_units.words(text)) <= max_words


def unique_word_count(text: str, N: int) -> bool:
  """Returns True if the text has N different words or more."""
  return len(set(_lower_words(text))) >= N


def only_unique_words(text: str) -> bool:
  """Returns True if no word occurs twice."""
  return limited_repeats(text, 1)


def limited_repeats(text: str, small_n: int) -> bool:
  """Returns True if no word occurs more than `small_n` times."""
  return (
    max(collections.Counter(_lower_words(text)).values(), default=0) <= small_n
  )


def stop_word_share(text: str, percentage: float) -> bool:
  """Returns True if at most `percentage` percent of words are stop words."""
  words = _lower_words(text)
  count = sum(word in STOP_WORDS for word in words)
  return bool(words) and 100 * count <= percentage * len(words)


def two_statements_a_question(text: str) -> bool:
  """Returns True if the text has twice as many statements as questions.

  At least one sentence must be a question.
  """
  kinds = _endings(text)
  return kinds["."] == 2 * kinds["?"] > 0


def balanced_sentences(text: str) -> bool:
  """Returns True if the numbers of the kinds of sentences are equal, above 0.

  The kinds are statements, questions and exclamations.
  """
  kinds = _endings(text)
  return kinds["."] == kinds["?"] == kinds["!"] > 0


def conjunctions(text: str, small_n: int) -> bool:
  """Returns True if `small_n` different conjunctions or more occur.

  `COORDINATING` lists the conjunctions that count.
  """
  return len(set(_lower_words(text)).intersection(COORDINATING)) >= small_n


def numbers(text: str, N: int) -> bool:
  """Returns True if the text has exactly N numbers, written in digits."""
  return len(_NUMBER.findall(text)) == N


def pronouns(text: str, N: int) -> bool:
  """Returns True if the text has N pronouns or more; see `PRONOUNS`."""
  return sum(word in PRONOUNS for word in _lower_words(text)) >= N


def trigram_overlap(text: str, reference_text: str, percentage: float) -> bool:
  """Returns True if a share of the text's trigrams occurs in a reference.

  A trigram is three words in a row, in lower case. A trigram that occurs twice
  counts once.

  Args:
    text: text to check; with less than three words the result is False.
    reference_text: the reference.
    percentage: the share in percent, which may differ by 2 points.
  """
  trigrams, reference_trigrams = _trigrams(text), _trigrams(reference_text)
  if not trigrams:
    return False
  return (
    abs(100 * len(trigrams & reference_trigrams) / len(trigrams) - percentage)
    <= 2
  )


def alphabet(text: str) -> bool:
  """Returns True if each word starts with the next letter of the alphabet.

  The first word may start with any letter; A follows Z.
  """
  return _in_sequence(word[0] for word in _lower_words(text))


def sentence_alphabet(text: str) -> bool:
  """Returns True if 26 sentences start with A, B, C, ..., Z."""
  starts = [
    _lower_words(sentence)[0][0] for sentence in text_units.sentences(text)
  ]
  return "".join(starts) == string.ascii_lowercase


def three_vowels(text: str) -> bool:
  """Returns True if the text is one line with at most 3 different vowels."""
  vowels = set("aeiou").intersection(text.lower())
  return len(text_units.lines(text)) == 1 and len(vowels) <= 3


def consonant_clusters(text: str) -> bool:
  """Returns True if every word has two adjacent consonants."""
  cluster = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
  return all(cluster.search(word) for word in _lower_words(text))


def increasing_alliteration(text: str) -> bool:
  """Returns True if the alliterations get longer with each sentence.

  The alliteration of a sentence is its longest run of words with one initial.
  """
  longest = []
  for sentence in text_units.sentences(text):
    initials = [word[0] for word in _lower_words(sentence)]
    runs = (len(list(run)) for _, run in itertools.groupby(initials))
    longest.append(max(runs))
  return all(a < b for a, b in itertools.pairwise(longest))


def ten_palindromes(text: str) -> bool:
  """Returns True if ten words of five or more letters are palindromes."""
  return sum(len(w) > 4 and w == w[::-1] for w in _lower_words(text)) >= 10


def palindrome(text: str) -> bool:
  """Returns True if a word of three or more letters is a palindrome."""
  return any(len(w) > 2 and w == w[::-1] for w in _lower_words(text))


def all_punctuation(text: str) -> bool:
  """Returns True if the text has each of `. , ! ? ; :` and an interrobang.

  The interrobang is `?!`, `!?` or U+203D. Its characters do not count as the
  other `?` and `!`.
  """
  interrobang = re.search(r"\?!|!\?|\u203d", text)
  if interrobang is None:
    return False
  other_text = text[: interrobang.start()] + text[interrobang.end() :]
  return set(".,!?;:") <= set(other_text)


def nested_brackets(text: str, depth: int = 5) -> bool:
  """Returns True if brackets are nested at least `depth` deep.

  The brackets are (), [] and {}, and each must be closed by its own kind: `([{`
  followed by `}])` is 3 deep.
  """
  closing: list[str] = []  # the bracket that closes each open bracket
  heights: list[int] = []  # depth of nesting inside each open bracket, from 1
  for character in text:
    if character in _CLOSING_BRACKETS:
      closing.append(_CLOSING_BRACKETS[character])
      heights.append(1)
    elif character in ")]}":
      if not closing or closing.pop() != character:
        closing, heights = [], []  # a wrong bracket: counts from 0 again
        continue
      height = heights.pop()
      if height >= depth:
        return True
      if heights:
        heights[-1] = max(heights[-1], height + 1)
  return False


def prime_lengths(text: str) -> bool:
  """Returns True if the length of every word is a prime number."""
  lengths = {len(word) for word in text_units.words(text)}
  return all(
    n > 1 and all(n % d for d in range(2, math.isqrt(n) + 1)) for n in lengths
  )


def one_of_options(text: str, options: str | Sequence[str]) -> bool:
  """Returns True if the text is one of the options.

  Case, and punctuation at the ends, do not count.

  Args:
    text: text to check.
    options: the options, as a list or as one string, such as "yes/no/maybe",
      "yes or no" or "yes, no".
  """
  if isinstance(options, str):
    separator = "/" if "/" in options else r"\bor\b|,"
    options = re.split(separator, options)
  answers = [_strip_punctuation(option) for option in options]
  return _strip_punctuation(text) in [answer for answer in answers if answer]


def word_a_line(text: str) -> bool:
  """Returns True if each line that is not blank has one word."""
  return all(len(line.split()) == 1 for line in text_units.lines(text))


def emoji_after_sentences(text: str) -> bool:
  """Returns True if every sentence has an emoji at its end.

  The emoji may stand before or after the mark that ends the sentence.
  """
  # The first lookbehind makes the search linear in a run of marks.
  ends = re.finditer(r"(?<![.!?])[.!?]+(?=\s|$)", text)
  starts = [0, *(end.end() for end in ends)]
  pieces = [text[a:b] for a, b in itertools.pairwise([*starts, len(text)])]
  # An emoji after the mark of a sentence starts the next piece.
  emoji_after = [_is_emoji(piece.lstrip()[:1]) for piece in pieces[1:]]
  for index, piece in enumerate(pieces):
    if not text_units.words(piece):
      continue
    # U+FE0F and U+200D are invisible parts of an emoji.
    emoji_before = _is_emoji(piece.rstrip(" .!?\n\t\ufe0f\u200d")[-1:])
    if not emoji_before and not (
      index < len(emoji_after) and emoji_after[index]
    ):
      return False
  return True


def equal_sentences(text: str) -> bool:
  """Returns True if the text has three sentences with equal lengths.

  The length is the number of characters. No word may occur twice.
  """
  sentences = text_units.sentences(text)
  lengths = {len(sentence) for sentence in sentences}
  return len(sentences) == 3 and len(lengths) == 1 and only_unique_words(text)


def japanese_words(text: str, N: int) -> bool:
  """Returns True if every N-th word has a Japanese character or is a number.

  A word is a run of characters without spaces. A text with less than N words
  returns False, and so does N < 1.
  """
  nth_words = text.split()[N - 1 :: N] if N >= 1 else []
  # Hiragana, katakana and Chinese characters.
  japanese = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
  return bool(nth_words) and all(
    japanese.search(word) or _strip_punctuation(word).isdigit()
    for word in nth_words
  )


def sentence_keyword(text: str, word: str, N: int) -> bool:
  """Returns True if the N-th sentence contains `word`.

  The first sentence has N = 1.
  """
  sentences = text_units.sentences(text)
  return (
    1 <= N <= len(sentences)
    and text_units.occurrences(word, sentences[N - 1]) > 0
  )


def last_word_first(text: str) -> bool:
  """Returns True if sentences are linked by a common word.

  The first word of each sentence must be the last word of the sentence before.
  """
  sentences = [
    _lower_words(sentence) for sentence in text_units.sentences(text)
  ]
  return all(a[-1] == b[0] for a, b in itertools.pairwise(sentences))


def paragraphs_close(text: str) -> bool:
  """Returns True if the last word of each line equals its first word."""
  lines = [_lower_words(line) for line in text_units.lines(text)]
  return all(line[0] == line[-1] for line in lines if line)


def growing_sentences(text: str, small_n: int) -> bool:
  """Returns True if sentences grow by exactly `small_n` words at a time."""
  lengths = _sentence_lengths(text)
  return all(b == a + small_n for a, b in itertools.pairwise(lengths))


def increasing_sentences(text: str) -> bool:
  """Returns True if each sentence has more words than the previous sentence.

  The text must have at least two sentences.
  """
  lengths = _sentence_lengths(text)
  return len(lengths) > 1 and all(a < b for a, b in itertools.pairwise(lengths))


def no_same_initials(text: str) -> bool:
  """Returns True if no two adjacent words start with the same letter."""
  return all(a[0] != b[0] for a, b in itertools.pairwise(_lower_words(text)))


def no_following_initials(text: str) -> bool:
  """Returns True if no two adjacent initials are adjacent in the alphabet.

  Only increasing order counts: `a bird` returns False, `bird a` returns True.
  """
  pairs = itertools.pairwise(_lower_words(text))
  return all(ord(b[0]) - ord(a[0]) != 1 for a, b in pairs)


def stairs(text: str) -> bool:
  """Returns True if each line is indented by more spaces than the previous.

  The text must have at least two lines.
  """
  lines = text_units.lines(text)
  indents = [len(line) - len(line.lstrip(" ")) for line in lines]
  return len(indents) > 1 and all(a < b for a, b in itertools.pairwise(indents))


def list_with_marker(text: str, sep: str) -> bool:
  """Returns True if two lines or more start with the marker `sep`."""
  lines = text_units.lines(text)
  return sum(line.lstrip().startswith(sep) for line in lines) >= 2


def sub_bullets(text: str) -> bool:
  """Returns True if each bullet `*` has a bullet `-` or more below it.

  The text must have at least one bullet `*`.
  """
  line_starts = [line.lstrip()[:2] for line in text_units.lines(text)]
  bullets = [start[0] for start in line_starts if start in ("* ", "- ")]
  runs = ["".join(run) for _, run in itertools.groupby(bullets)]  # "*", "--"
  top_runs = [run for run in runs if run[0] == "*"]
  return (
    bool(top_runs)
    and bullets[-1] == "-"
    and all(run == "*" for run in top_runs)
  )


def dates(text: str) -> bool:
  """Returns True if the text is a list of dates, separated by commas.

  A date is written as YYYY-MM-DD.
  """
  try:
    for piece in text.strip().split(","):
      if not re.fullmatch(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", piece.strip()):
        return False
      datetime.date.fromisoformat(piece.strip())
  except ValueError:
    return False
  return True


def keywords_once_to_five(
  text: str,
  keyword1: str,
  keyword2: str,
  keyword3: str,
  keyword4: str,
  keyword5: str,
) -> bool:
  """Returns True if the keywords occur 1, 2, 3, 5 and 7 times."""
  keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
  counts = [text_units.occurrences(keyword, text) for keyword in keywords]
  return counts == [1, 2, 3, 5, 7]


def keyword_once(text: str, keyword: str) -> bool:
  """Returns True if the keyword occurs exactly once."""
  return text_units.occurrences(keyword, text) == 1


def keywords_once_and_twice(text: str, keyword1: str, keyword2: str) -> bool:
  """Returns True if `keyword1` occurs once and `keyword2` twice."""
  counts = [text_units.occurrences(k, text) for k in (keyword1, keyword2)]
  return counts == [1, 2]


def exclude_word(text: str, keyword: str) -> bool:
  """Returns True if the keyword does not occur."""
  return text_units.occurrences(keyword, text) == 0


def keyword_at(text: str, keyword: str, n: int, m: int) -> bool:
  """Returns True if the m-th word of the n-th sentence is the keyword.

  The first word and the first sentence have the number 1.
  """
  sentences = text_units.sentences(text)
  if not 1 <= n <= len(sentences):
    return False
  words = _lower_words(sentences[n - 1])
  return 1 <= m <= len(words) and words[m - 1] == keyword.lower()


def second_words(text: str, keyword: str) -> bool:
  """Returns True if the second and the second to last word are the keyword."""
  words = _lower_words(text)
  return len(words) > 2 and words[1] == words[-2] == keyword.lower()


def start_end(text: str) -> bool:
  """Returns True if the last word equals the first word.

  The text must have at least two words.
  """
  words = _lower_words(text)
  return len(words) > 1 and words[0] == words[-1]


def first_word_answer(text: str, first_word: str) -> bool:
  """Returns True if the first word is `first_word`."""
  return _lower_words(text)[:1] == [first_word.lower()]


def first_word_sentences(text: str, first_word: str) -> bool:
  """Returns True if each sentence starts with `first_word`."""
  sentences = text_units.sentences(text)
  return all(first_word_answer(sentence, first_word) for sentence in sentences)


def last_word_answer(text: str, last_word: str) -> bool:
  """Returns True if the last word is `last_word`."""
  return _lower_words(text)[-1:] == [last_word.lower()]


def last_word_sentences(text: str, last_word: str) -> bool:
  """Returns True if each sentence ends with `last_word`."""
  sentences = text_units.sentences(text)
  return all(last_word_answer(sentence, last_word) for sentence in sentences)


def letter_count(text: str, N: int, relation: str) -> bool:
  """Compares the number of letters with N."""
  return text_units.compare(sum(c.isalpha() for c in text), relation, N)


def lowercase_words(text: str, N: int) -> bool:
  """Returns True if at most N words are in lower case."""
  return sum(word.islower() for word in text_units.words(text)) <= N


def two_paragraphs(text: str) -> bool:
  """Returns True if the text has two paragraphs.

  Paragraphs are separated by an empty line.
  """
  return len(text_units.paragraphs(text)) == 2


def span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
  """Returns True if the text is a part of the prompt.

  Args:
    text: text to check; spaces between its words do not count.
    prompt_to_repeat: the prompt.
    n_start: index of the first word, counted from 0.
    n_end: index of the last word.
  """
  expected = prompt_to_repeat.split()[n_start : n_end + 1]
  return text.split() == expected


def copied(text: str, prompt_to_repeat: str) -> bool:
  """Returns True if the text equals the prompt; case does not count."""
  return text.strip().lower() == prompt_to_repeat.strip().lower()


def title_case(text: str) -> bool:
  """Returns True if each word starts with a capital, the only one in it.

  Words that start with a digit do not count.
  """
  words = [word for word in text_units.words(text) if word[0].isalpha()]
  return bool(words) and all(
    word[0].isupper() and word[1:] == word[1:].lower() for word in words
  )


def no_whitespace(text: str) -> bool:
  """Returns True if the text has no space, tab or line break.

  Line breaks at its start and end are ignored.
  """
  return not any(c.isspace() for c in text.strip("\n"))


def bigrams_wrapped(text: str) -> bool:
  """Returns True if the text consists of pairs of words in angle brackets.

  An example is `<<I am>> <<at home>>`.
  """
  pairs = re.findall(r"<<([^<>]*)>>", text)
  text_outside = re.sub(r"<<[^<>]*>>", "", text)
  return (
    bool(pairs)
    and not text_outside.strip()
    and all(len(pair.split()) == 2 for pair in pairs)
  )


def square_brackets(text: str) -> bool:
  """Returns True if each word is in square brackets: `[I] [am]`."""
  return all(re.fullmatch(r"\[[^\[\]]+\]", word) for word in text.split())


def hyphened_sentences(text: str) -> bool:
  """Returns True if the sentences are joined by hyphens: `One.-Two.`.

  The text must have at least two sentences.
  """
  pieces = re.split(r"(?<=[.!?])-", text.strip())
  return len(pieces) > 1 and all(
    piece == piece.strip() and len(text_units.sentences(piece)) == 1
    for piece in pieces
  )


def no_dot(text: str) -> bool:
  """Returns True if the text has no full stop."""
  return "." not in text


def no_exclamation(text: str) -> bool:
  """Returns True if the text has no exclamation mark."""
  return "!" not in text


def word_lengths(text: str, shortest: int, longest: int) -> bool:
  """Returns True if every word has `shortest` to `longest` letters."""
  return all(shortest <= len(w) <= longest for w in text_units.words(text))


def alternating_case(text: str) -> bool:
  """Returns True if capitals and lower-case letters alternate: `HeLlO`.

  The text must have at least two letters.
  """
  is_capital = [c.isupper() for c in text if c.isupper() or c.islower()]
  return len(is_capital) > 1 and all(
    a != b for a, b in itertools.pairwise(is_capital)
  )


def acrostic(text: str, word: str) -> bool:
  """Returns True if the first letters of the lines spell `word`."""
  starts = [_lower_words(line)[:1] for line in text_units.lines(text)]
  return "".join(start[0][0] for start in starts if start) == word.lower()


def _lower_words(text: str) -> list[str]:
  """Returns the words of a text in lower case."""
  return [word.lower() for word in text_units.words(text)]


def _strip_punctuation(text: str) -> str:
  """Returns a text in lower case without punctuation and space at its ends."""
  return text.strip(string.punctuation + string.whitespace).lower()


def _endings(text: str) -> collections.Counter[str]:
  """Counts the sentences by their last character, closing quotes removed."""
  sentences = text_units.sentences(text)
  return collections.Counter(
    s.rstrip("\"')]*\u201d\u2019")[-1] for s in sentences
  )


def _sentence_lengths(text: str) -> list[int]:
  """Returns the number of words of each sentence."""
  return [len(text_units.words(s)) for s in text_units.sentences(text)]


def _trigrams(text: str) -> set[tuple[str, ...]]:
  """Returns the different sequences of three words, in lower case."""
  words = _lower_words(text)
  return set(zip(words, words[1:], words[2:], strict=False))


def _in_sequence(letters: Iterator[str]) -> bool:
  """Returns True if each letter is the alphabet's next one; A follows Z."""
  positions = [string.ascii_lowercase.find(letter) for letter in letters]
  # -1 stands for a character outside of a to z, and for no letters at all.
  return min(positions, default=-1) >= 0 and all(
    b == (a + 1) % 26 for a, b in itertools.pairwise(positions)
  )


def _is_emoji(character: str) -> bool:
  """Returns True if a character is an emoji or a symbol like it, not for ""."""
  return bool(character) and unicodedata.category(character) in ("So", "Sk")


CHECKERS: dict[str, Checker] = {
  "count:word_count_range": word_count_range,
  "count:unique_word_count": unique_word_count,
  "count:conjunctions": conjunctions,
  "count:numbers": numbers,
  "count:pronouns": pronouns,
  "count:punctuation": all_punctuation,
  "count:words_japanese": japanese_words,
  "count:keywords_multiple": keywords_once_to_five,
  "count:lowercase_counting": lowercase_words,
  "count:count_unique": only_unique_words,
  "ratio:stop_words": stop_word_share,
  "ratio:sentence_type": two_statements_a_question,
  "ratio:sentence_balance": balanced_sentences,
  "ratio:sentence_words": equal_sentences,
  "ratio:overlap": trigram_overlap,
  "words:alphabet": alphabet,
  "words:vowel": three_vowels,
  "words:consonants": consonant_clusters,
  "words:palindrome": ten_palindromes,
  "words:prime_lengths": prime_lengths,
  "words:repeats": limited_repeats,
  "words:last_first": last_word_first,
  "words:paragraph_last_first": paragraphs_close,
  "words:no_consecutive": no_same_initials,
  "words:keywords_specific_position": keyword_at,
  "words:words_position": second_words,
  "sentence:alliteration_increment": increasing_alliteration,
  "sentence:increment": growing_sentences,
  "sentence:keyword": sentence_keyword,
  "format:parentheses": nested_brackets,
  "format:options": one_of_options,
  "format:newline": word_a_line,
  "format:emoji": emoji_after_sentences,
  "format:line_indent": stairs,
  "format:list": list_with_marker,
  "format:sub-bullets": sub_bullets,
  "format:title_case": title_case,
  "format:no_whitespace": no_whitespace,
  "custom:sentence_alphabet": sentence_alphabet,
  "custom:date_format_list": dates,
  "repeat:repeat_span": span,
  "copy:copy": copied,
  "keywords:word_once": keyword_once,
  "keywords:word_count_different_numbers": keywords_once_and_twice,
  "keywords:exclude_word_harder": exclude_word,
  "keywords:palindrome": palindrome,
  "keywords:start_end": start_end,
  "keywords:no_adjacent_consecutive": no_following_initials,
  "keywords:keyword_specific_position": keyword_at,
  "letters:letter_counting": letter_count,
  "first_word:first_word_sent": first_word_sentences,
  "first_word:first_word_answer": first_word_answer,
  "last_word:last_word_sent": last_word_sentences,
  "last_word:last_word_answer": last_word_answer,
  "paragraphs:paragraphs2": two_paragraphs,
  "punctuation:punctuation_dot": no_dot,
  "punctuation:punctuation_exclamation": no_exclamation,
  "detectable_format:bigram_wrapping": bigrams_wrapped,
  "detectable_format:square_brackets": square_brackets,
  "detectable_format:sentence_hyphens": hyphened_sentences,
  "own:word_lengths": word_lengths,
  "own:alternating_case": alternating_case,
  "own:acrostic": acrostic,
  "own:increasing_sentences": increasing_sentences,
}
