"""Verifiable instructions beyond IFEval, as checkers of a text.

They are those of IFBench and of its training set (IF-RLVR) that need no tagger,
list of names or syllables, with their names and arguments, and a few of our own
(`own:`). The docstring of a checker states the condition on the text. The
checkers were written from the descriptions and use the words and sentences of
`rewards.verifiers.text_units`. They differ from the benchmark's code in some
decisions: punctuation is never part of a word, a number such as `1,000.5` is
one number, and the alphabet may start at any letter but every word must follow
it.

Left out are instructions that need more than the text: person names, pronouns
and verbs by a tagger, syllables, European capitals, and templates that fit only
one prompt.

Usage:
  CHECKERS["words:repeats"]("row row row", small_n=2) is False

Source: Pyatkin et al. 2025, "Generalizing Verifiable Instruction Following".
"""

from __future__ import annotations

import collections
import datetime
import itertools
import re
import string
import unicodedata
from collections.abc import Iterator, Sequence

from rewards.verifiers import text_units
from rewards.verifiers.ifeval import Checker

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
_NUMBER = re.compile(r"[0-9]+(?:[.,][0-9]+)*")
_OPENING = {"(": ")", "[": "]", "{": "}"}


def word_count_range(text: str, min_words: int, max_words: int) -> bool:
  """Has from `min_words` to `max_words` words."""
  return min_words <= len(text_units.words(text)) <= max_words


def unique_word_count(text: str, N: int) -> bool:
  """Has at least N different words."""
  return len(set(_lower(text))) >= N


def only_unique_words(text: str) -> bool:
  """Has no word twice."""
  return limited_repeats(text, 1)


def limited_repeats(text: str, small_n: int) -> bool:
  """Has no word more than `small_n` times."""
  return max(collections.Counter(_lower(text)).values(), default=0) <= small_n


def stop_word_share(text: str, percentage: float) -> bool:
  """At most `percentage` percent of the words are stop words."""
  words = _lower(text)
  count = sum(word in STOP_WORDS for word in words)
  return bool(words) and 100 * count <= percentage * len(words)


def two_statements_a_question(text: str) -> bool:
  """Has two statements for each question, and at least one question."""
  kinds = _endings(text)
  return kinds["."] == 2 * kinds["?"] > 0


def balanced_sentences(text: str) -> bool:
  """Has equal numbers of statements, questions and exclamations, above 0."""
  kinds = _endings(text)
  return kinds["."] == kinds["?"] == kinds["!"] > 0


def conjunctions(text: str, small_n: int) -> bool:
  """Has at least `small_n` different coordinating conjunctions."""
  return len(set(_lower(text)).intersection(COORDINATING)) >= small_n


def numbers(text: str, N: int) -> bool:
  """Has exactly N numbers in digits."""
  return len(_NUMBER.findall(text)) == N


def pronouns(text: str, N: int) -> bool:
  """Has at least N pronouns of a list of 70."""
  return sum(word in PRONOUNS for word in _lower(text)) >= N


def trigram_overlap(text: str, reference_text: str, percentage: float) -> bool:
  """The share of trigrams in the reference is `percentage`, up to 2 points."""
  trigrams, reference_trigrams = _trigrams(text), _trigrams(reference_text)
  if not trigrams:
    return False
  return (
    abs(100 * len(trigrams & reference_trigrams) / len(trigrams) - percentage)
    <= 2
  )


def alphabet(text: str) -> bool:
  """Each word starts with the next letter of the alphabet; A follows Z."""
  return _in_sequence(word[0] for word in _lower(text))


def sentence_alphabet(text: str) -> bool:
  """Has 26 sentences that start with A, B, C and so on."""
  starts = [_lower(sentence)[0][0] for sentence in text_units.sentences(text)]
  return "".join(starts) == string.ascii_lowercase


def three_vowels(text: str) -> bool:
  """Has one paragraph with at most three different vowels."""
  vowels = set("aeiou").intersection(text.lower())
  return len(text_units.lines(text)) == 1 and len(vowels) <= 3


def consonant_clusters(text: str) -> bool:
  """Every word has two adjacent consonants."""
  cluster = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
  return all(cluster.search(word) for word in _lower(text))


def increasing_alliteration(text: str) -> bool:
  """Each sentence has a longer alliteration than the one before."""
  longest = []
  for sentence in text_units.sentences(text):
    initials = [word[0] for word in _lower(sentence)]
    runs = (len(list(run)) for _, run in itertools.groupby(initials))
    longest.append(max(runs))
  return all(a < b for a, b in itertools.pairwise(longest))


def ten_palindromes(text: str) -> bool:
  """Has ten palindromes of at least five letters."""
  return sum(len(w) > 4 and w == w[::-1] for w in _lower(text)) >= 10


def palindrome(text: str) -> bool:
  """Has a palindrome of at least three letters."""
  return any(len(w) > 2 and w == w[::-1] for w in _lower(text))


def all_punctuation(text: str) -> bool:
  """Has each of `. , ! ? ; :`, and also an interrobang."""
  bang = re.search(r"\?!|!\?|\u203d", text)
  if bang is None:
    return False
  rest = text[: bang.start()] + text[bang.end() :]
  return set(".,!?;:") <= set(rest)


def nested_brackets(text: str, depth: int = 5) -> bool:
  """Has properly nested brackets of any kind, at least `depth` deep."""
  closing: list[str] = []
  heights: list[int] = []  # depth of nesting inside each open bracket
  for character in text:
    if character in _OPENING:
      closing.append(_OPENING[character])
      heights.append(1)
    elif character in ")]}":
      if not closing or closing.pop() != character:
        closing, heights = [], []
        continue
      height = heights.pop()
      if height >= depth:
        return True
      if heights:
        heights[-1] = max(heights[-1], height + 1)
  return False


def prime_lengths(text: str) -> bool:
  """The length of every word is a prime number."""
  lengths = {len(word) for word in text_units.words(text)}
  return all(
    n > 1 and all(n % d for d in range(2, int(n**0.5) + 1)) for n in lengths
  )


def one_of_options(text: str, options: str | Sequence[str]) -> bool:
  """Is one of the options; `yes/no/maybe` means three options."""
  if isinstance(options, str):
    separator = "/" if "/" in options else r"\bor\b|,"
    options = re.split(separator, options)
  answers = [_bare(option) for option in options]
  return _bare(text) in [answer for answer in answers if answer]


def word_a_line(text: str) -> bool:
  """Has one word per line."""
  return all(len(line.split()) == 1 for line in text_units.lines(text))


def emoji_after_sentences(text: str) -> bool:
  """Every sentence has an emoji at its end, before or after the mark."""
  starts = [0, *(end.end() for end in re.finditer(r"[.!?]+(?=\s|$)", text))]
  pieces = [text[a:b] for a, b in itertools.pairwise([*starts, len(text)])]
  after = [_emoji(piece.lstrip()[:1]) for piece in pieces[1:]]
  for index, piece in enumerate(pieces):
    if not text_units.words(piece):
      continue
    inside = _emoji(piece.rstrip(" .!?\n\t\ufe0f\u200d")[-1:])
    if not inside and not (index < len(after) and after[index]):
      return False
  return True


def equal_sentences(text: str) -> bool:
  """Has three sentences of equal numbers of characters, and no word twice."""
  sentences = text_units.sentences(text)
  lengths = {len(sentence) for sentence in sentences}
  return len(sentences) == 3 and len(lengths) == 1 and only_unique_words(text)


def japanese_words(text: str, N: int) -> bool:
  """Every N-th word has Japanese characters or is a number."""
  every = text.split()[N - 1 :: N]
  japanese = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
  return bool(every) and all(
    japanese.search(word) or _bare(word).isdigit() for word in every
  )


def sentence_keyword(text: str, word: str, N: int) -> bool:
  """The N-th sentence contains a word."""
  sentences = text_units.sentences(text)
  return (
    1 <= N <= len(sentences)
    and text_units.occurrences(word, sentences[N - 1]) > 0
  )


def last_word_first(text: str) -> bool:
  """The last word of each sentence is the first word of the next one."""
  sentences = [_lower(sentence) for sentence in text_units.sentences(text)]
  return all(a[-1] == b[0] for a, b in itertools.pairwise(sentences))


def paragraphs_close(text: str) -> bool:
  """Each line, a paragraph, ends with its first word."""
  lines = [_lower(line) for line in text_units.lines(text)]
  return all(line[0] == line[-1] for line in lines if line)


def growing_sentences(text: str, small_n: int) -> bool:
  """Each sentence has exactly `small_n` words more than the one before."""
  lengths = _sentence_lengths(text)
  return all(b == a + small_n for a, b in itertools.pairwise(lengths))


def increasing_sentences(text: str) -> bool:
  """Has at least two sentences, each with more words than the one before."""
  lengths = _sentence_lengths(text)
  return len(lengths) > 1 and all(a < b for a, b in itertools.pairwise(lengths))


def no_same_initials(text: str) -> bool:
  """No two adjacent words start with the same letter."""
  return all(a[0] != b[0] for a, b in itertools.pairwise(_lower(text)))


def no_following_initials(text: str) -> bool:
  """No word starts with the letter after the initial of the word before it."""
  pairs = itertools.pairwise(_lower(text))
  return all(ord(b[0]) - ord(a[0]) != 1 for a, b in pairs)


def stairs(text: str) -> bool:
  """Each line is indented more than the one before."""
  lines = text_units.lines(text)
  steps = [len(line) - len(line.lstrip(" ")) for line in lines]
  return len(steps) > 1 and all(a < b for a, b in itertools.pairwise(steps))


def list_with_marker(text: str, sep: str) -> bool:
  """Has at least two lines that start with the marker."""
  begun = [line.lstrip().startswith(sep) for line in text_units.lines(text)]
  return sum(begun) >= 2


def sub_bullets(text: str) -> bool:
  """Has bullets `*`, each with at least one bullet `-` below it."""
  marks = [line.lstrip()[:2] for line in text_units.lines(text)]
  kinds = [mark[0] for mark in marks if mark in ("* ", "- ")]
  runs = ["".join(run) for _, run in itertools.groupby(kinds)]
  tops = [run for run in runs if run[0] == "*"]
  return bool(tops) and kinds[-1] == "-" and all(r == "*" for r in tops)


def dates(text: str) -> bool:
  """Is a list of dates as YYYY-MM-DD, separated by commas."""
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
  """The five keywords occur 1, 2, 3, 5 and 7 times."""
  keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
  counts = [text_units.occurrences(keyword, text) for keyword in keywords]
  return counts == [1, 2, 3, 5, 7]


def keyword_once(text: str, keyword: str) -> bool:
  """The keyword occurs exactly once."""
  return text_units.occurrences(keyword, text) == 1


def keywords_once_and_twice(text: str, keyword1: str, keyword2: str) -> bool:
  """The first keyword occurs once, the second one twice."""
  counts = [text_units.occurrences(k, text) for k in (keyword1, keyword2)]
  return counts == [1, 2]


def exclude_word(text: str, keyword: str) -> bool:
  """The keyword does not occur."""
  return text_units.occurrences(keyword, text) == 0


def keyword_at(text: str, keyword: str, n: int, m: int) -> bool:
  """The m-th word of the n-th sentence is the keyword."""
  sentences = text_units.sentences(text)
  if not 1 <= n <= len(sentences):
    return False
  return _lower(sentences[n - 1])[m - 1 : m] == [keyword.lower()] and m > 0


def second_words(text: str, keyword: str) -> bool:
  """The second word and the second to last word are the keyword."""
  words = _lower(text)
  return len(words) > 2 and words[1] == words[-2] == keyword.lower()


def start_end(text: str) -> bool:
  """The last word equals the first word."""
  words = _lower(text)
  return len(words) > 1 and words[0] == words[-1]


def first_word_answer(text: str, first_word: str) -> bool:
  """Starts with a word."""
  return _lower(text)[:1] == [first_word.lower()]


def first_word_sentences(text: str, first_word: str) -> bool:
  """Each sentence starts with a word."""
  sentences = text_units.sentences(text)
  return all(first_word_answer(sentence, first_word) for sentence in sentences)


def last_word_answer(text: str, last_word: str) -> bool:
  """Ends with a word."""
  return _lower(text)[-1:] == [last_word.lower()]


def last_word_sentences(text: str, last_word: str) -> bool:
  """Each sentence ends with a word."""
  sentences = text_units.sentences(text)
  return all(last_word_answer(sentence, last_word) for sentence in sentences)


def letter_count(text: str, N: int, relation: str) -> bool:
  """The number of letters is in a relation to N."""
  return text_units.compare(sum(c.isalpha() for c in text), relation, N)


def lowercase_words(text: str, N: int) -> bool:
  """Has at most N words in lower case."""
  return sum(word.islower() for word in text_units.words(text)) <= N


def two_paragraphs(text: str) -> bool:
  """Has two paragraphs, separated by an empty line."""
  return len(text_units.paragraphs(text)) == 2


def span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
  """Is the words n to m of the prompt, counted from 0, with both ends."""
  expected = prompt_to_repeat.split()[n_start : n_end + 1]
  return text.split() == expected


def copied(text: str, prompt_to_repeat: str) -> bool:
  """Is the prompt, in any case."""
  return text.strip().lower() == prompt_to_repeat.strip().lower()


def title_case(text: str) -> bool:
  """Every word starts with a capital and continues in lower case."""
  words = [word for word in text_units.words(text) if word[0].isalpha()]
  return bool(words) and all(
    word[0].isupper() and word[1:] == word[1:].lower() for word in words
  )


def no_whitespace(text: str) -> bool:
  """Has no space, tab or line break."""
  return not any(c.isspace() for c in text.strip("\n"))


def bigrams_wrapped(text: str) -> bool:
  """Has its words in pairs in double angle brackets: <<I am>> <<at home>>."""
  pairs = re.findall(r"<<([^<>]*)>>", text)
  bare = re.sub(r"<<[^<>]*>>", "", text)
  return (
    bool(pairs)
    and not bare.strip()
    and all(len(pair.split()) == 2 for pair in pairs)
  )


def square_brackets(text: str) -> bool:
  """Every word is in square brackets."""
  return all(re.fullmatch(r"\[[^\[\]]+\]", word) for word in text.split())


def hyphened_sentences(text: str) -> bool:
  """Has its sentences joined by hyphens without spaces."""
  pieces = re.split(r"(?<=[.!?])-", text.strip())
  return len(pieces) > 1 and all(
    piece == piece.strip() and len(text_units.sentences(piece)) == 1
    for piece in pieces
  )


def no_dot(text: str) -> bool:
  """Has no full stop."""
  return "." not in text


def no_exclamation(text: str) -> bool:
  """Has no exclamation mark."""
  return "!" not in text


def word_lengths(text: str, shortest: int, longest: int) -> bool:
  """Every word has from `shortest` to `longest` letters."""
  return all(shortest <= len(w) <= longest for w in text_units.words(text))


def alternating_case(text: str) -> bool:
  """Capitals and lower-case letters alternate."""
  cased = [c.isupper() for c in text if c.isupper() or c.islower()]
  return len(cased) > 1 and all(a != b for a, b in itertools.pairwise(cased))


def acrostic(text: str, word: str) -> bool:
  """The first letters of the lines spell a word."""
  starts = [_lower(line)[:1] for line in text_units.lines(text)]
  return "".join(start[0][0] for start in starts if start) == word.lower()


def _lower(text: str) -> list[str]:
  return [word.lower() for word in text_units.words(text)]


def _bare(text: str) -> str:
  return text.strip(string.punctuation + string.whitespace).lower()


def _endings(text: str) -> collections.Counter[str]:
  """Counts the sentences by their final mark, without closing quotes."""
  sentences = text_units.sentences(text)
  return collections.Counter(
    s.rstrip("\"')]*\u201d\u2019")[-1] for s in sentences
  )


def _sentence_lengths(text: str) -> list[int]:
  return [len(text_units.words(s)) for s in text_units.sentences(text)]


def _trigrams(text: str) -> set[tuple[str, ...]]:
  words = _lower(text)
  return set(zip(words, words[1:], words[2:], strict=False))


def _in_sequence(letters: Iterator[str]) -> bool:
  positions = [string.ascii_lowercase.find(letter) for letter in letters]
  return min(positions, default=-1) >= 0 and all(
    b == (a + 1) % 26 for a, b in itertools.pairwise(positions)
  )


def _emoji(character: str) -> bool:
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
