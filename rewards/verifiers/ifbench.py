"""Verifiable instructions beyond IFEval's, as checkers of a text.

Those of IFBench and of its training set (IF-RLVR) that need no tagger, no list
of names and no syllables, under the names and arguments that they have there,
and a few of our own (`own:`). Written from the descriptions, on the words and
sentences of `rewards.verifiers.text_units`. What is decided otherwise than
there: punctuation is never part of a word, numbers are read whole (`1,000.5` is
one), the alphabet may begin anywhere but must be obeyed by every word.

Left out, since they need more than the text: person names, pronouns and verbs
of a tagger, syllables, European capitals, and the templates that only fit one
prompt.

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
  """Between so many and so many words."""
  return min_words <= len(text_units.words(text)) <= max_words


def unique_word_count(text: str, N: int) -> bool:
  """At least N different words."""
  return len(set(_lower(text))) >= N


def only_unique_words(text: str) -> bool:
  """No word twice."""
  return limited_repeats(text, 1)


def limited_repeats(text: str, small_n: int) -> bool:
  """No word more than n times."""
  return max(collections.Counter(_lower(text)).values(), default=0) <= small_n


def stop_word_share(text: str, percentage: float) -> bool:
  """At most so many percent of the words are stop words."""
  found = _lower(text)
  count = sum(word in STOP_WORDS for word in found)
  return bool(found) and 100 * count <= percentage * len(found)


def two_statements_a_question(text: str) -> bool:
  """Two declarative sentences to each question, and a question."""
  kinds = _endings(text)
  return kinds["."] == 2 * kinds["?"] > 0


def balanced_sentences(text: str) -> bool:
  """As many statements as questions as exclamations, and some."""
  kinds = _endings(text)
  return kinds["."] == kinds["?"] == kinds["!"] > 0


def conjunctions(text: str, small_n: int) -> bool:
  """At least n different coordinating conjunctions."""
  return len(set(_lower(text)).intersection(COORDINATING)) >= small_n


def numbers(text: str, N: int) -> bool:
  """Exactly N numbers in digits."""
  return len(_NUMBER.findall(text)) == N


def pronouns(text: str, N: int) -> bool:
  """At least N pronouns, counted from a list of 70."""
  return sum(word in PRONOUNS for word in _lower(text)) >= N


def trigram_overlap(text: str, reference_text: str, percentage: float) -> bool:
  """So many percent, two more or less, of its trigrams are the reference's."""
  own, other = _trigrams(text), _trigrams(reference_text)
  if not own:
    return False
  return abs(100 * len(own & other) / len(own) - percentage) <= 2


def alphabet(text: str) -> bool:
  """Each word begins with the next letter of the alphabet; A follows Z."""
  return _in_sequence(word[0] for word in _lower(text))


def sentence_alphabet(text: str) -> bool:
  """26 sentences, which begin with A, B, C and so on to Z."""
  starts = [_lower(sentence)[0][0] for sentence in text_units.sentences(text)]
  return "".join(starts) == string.ascii_lowercase


def three_vowels(text: str) -> bool:
  """One paragraph with at most three different vowels."""
  vowels = set("aeiou").intersection(text.lower())
  return len(text_units.lines(text)) == 1 and len(vowels) <= 3


def consonant_clusters(text: str) -> bool:
  """Two consonants stand side by side in every word."""
  cluster = re.compile("[bcdfghjklmnpqrstvwxyz]{2}")
  return all(cluster.search(word) for word in _lower(text))


def increasing_alliteration(text: str) -> bool:
  """Each sentence alliterates longer than the one before it."""
  longest = []
  for sentence in text_units.sentences(text):
    initials = [word[0] for word in _lower(sentence)]
    runs = (len(list(run)) for _, run in itertools.groupby(initials))
    longest.append(max(runs))
  return all(a < b for a, b in itertools.pairwise(longest))


def ten_palindromes(text: str) -> bool:
  """Ten words of five letters or more that are palindromes."""
  return sum(len(w) > 4 and w == w[::-1] for w in _lower(text)) >= 10


def palindrome(text: str) -> bool:
  """A word of three letters or more that is a palindrome."""
  return any(len(w) > 2 and w == w[::-1] for w in _lower(text))


def all_punctuation(text: str) -> bool:
  """Every one of `. , ! ? ; :`, and the interrobang beside them."""
  bang = re.search(r"\?!|!\?|\u203d", text)
  if bang is None:
    return False
  rest = text[: bang.start()] + text[bang.end() :]
  return set(".,!?;:") <= set(rest)


def nested_brackets(text: str, depth: int = 5) -> bool:
  """Brackets of any kind, properly closed, five deep."""
  due: list[str] = []
  heights: list[int] = []  # how deep it went inside each open bracket
  for character in text:
    if character in _OPENING:
      due.append(_OPENING[character])
      heights.append(1)
    elif character in ")]}":
      if not due or due.pop() != character:
        due, heights = [], []
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
  """One of the options and nothing else; `yes/no/maybe` is three of them."""
  if isinstance(options, str):
    separator = "/" if "/" in options else r"\bor\b|,"
    options = re.split(separator, options)
  answers = [_bare(option) for option in options]
  return _bare(text) in [answer for answer in answers if answer]


def word_a_line(text: str) -> bool:
  """Each word on a line of its own."""
  return all(len(line.split()) == 1 for line in text_units.lines(text))


def emoji_after_sentences(text: str) -> bool:
  """An emoji at the end of every sentence, before or after its mark."""
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
  """Three sentences of equally many characters, with no word twice."""
  found = text_units.sentences(text)
  lengths = {len(sentence) for sentence in found}
  return len(found) == 3 and len(lengths) == 1 and only_unique_words(text)


def japanese_words(text: str, N: int) -> bool:
  """Every N-th word is in Japanese characters, numbers excepted."""
  every = text.split()[N - 1 :: N]
  japanese = re.compile("[\u3040-\u30ff\u4e00-\u9fff]")
  return bool(every) and all(
    japanese.search(word) or _bare(word).isdigit() for word in every
  )


def sentence_keyword(text: str, word: str, N: int) -> bool:
  """The N-th sentence has a word."""
  found = text_units.sentences(text)
  return 1 <= N <= len(found) and text_units.occurrences(word, found[N - 1]) > 0


def last_word_first(text: str) -> bool:
  """The last word of each sentence is the first of the next."""
  found = [_lower(sentence) for sentence in text_units.sentences(text)]
  return all(a[-1] == b[0] for a, b in itertools.pairwise(found))


def paragraphs_close(text: str) -> bool:
  """Each line, a paragraph, ends with the word that it begins with."""
  found = [_lower(line) for line in text_units.lines(text)]
  return all(line[0] == line[-1] for line in found if line)


def growing_sentences(text: str, small_n: int) -> bool:
  """Each sentence has exactly n words more than the one before."""
  lengths = _sentence_lengths(text)
  return all(b == a + small_n for a, b in itertools.pairwise(lengths))


def increasing_sentences(text: str) -> bool:
  """Two sentences or more, each with more words than the one before."""
  lengths = _sentence_lengths(text)
  return len(lengths) > 1 and all(a < b for a, b in itertools.pairwise(lengths))


def no_same_initials(text: str) -> bool:
  """No two words side by side begin with the same letter."""
  return all(a[0] != b[0] for a, b in itertools.pairwise(_lower(text)))


def no_following_initials(text: str) -> bool:
  """No two words side by side begin with letters that follow each other."""
  pairs = itertools.pairwise(_lower(text))
  return all(ord(b[0]) - ord(a[0]) != 1 for a, b in pairs)


def stairs(text: str) -> bool:
  """Each line is indented more than the one before."""
  found = text_units.lines(text)
  steps = [len(line) - len(line.lstrip(" ")) for line in found]
  return len(steps) > 1 and all(a < b for a, b in itertools.pairwise(steps))


def list_with_marker(text: str, sep: str) -> bool:
  """At least two lines begin with a marker."""
  begun = [line.lstrip().startswith(sep) for line in text_units.lines(text)]
  return sum(begun) >= 2


def sub_bullets(text: str) -> bool:
  """Bullets `*`, each with a bullet `-` or more below it."""
  marks = [line.lstrip()[:2] for line in text_units.lines(text)]
  kinds = [mark[0] for mark in marks if mark in ("* ", "- ")]
  runs = ["".join(run) for _, run in itertools.groupby(kinds)]
  tops = [run for run in runs if run[0] == "*"]
  return bool(tops) and kinds[-1] == "-" and all(r == "*" for r in tops)


def dates(text: str) -> bool:
  """Dates as YYYY-MM-DD, separated by commas, and nothing else."""
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
  """Five keywords occur 1, 2, 3, 5 and 7 times."""
  keywords = (keyword1, keyword2, keyword3, keyword4, keyword5)
  counts = [text_units.occurrences(keyword, text) for keyword in keywords]
  return counts == [1, 2, 3, 5, 7]


def keyword_once(text: str, keyword: str) -> bool:
  """A keyword occurs exactly once."""
  return text_units.occurrences(keyword, text) == 1


def keywords_once_and_twice(text: str, keyword1: str, keyword2: str) -> bool:
  """One keyword occurs once, another twice."""
  counts = [text_units.occurrences(k, text) for k in (keyword1, keyword2)]
  return counts == [1, 2]


def exclude_word(text: str, keyword: str) -> bool:
  """A keyword does not occur."""
  return text_units.occurrences(keyword, text) == 0


def keyword_at(text: str, keyword: str, n: int, m: int) -> bool:
  """The m-th word of the n-th sentence is a keyword."""
  found = text_units.sentences(text)
  if not 1 <= n <= len(found):
    return False
  return _lower(found[n - 1])[m - 1 : m] == [keyword.lower()] and m > 0


def second_words(text: str, keyword: str) -> bool:
  """The second word and the last but one are the keyword."""
  found = _lower(text)
  return len(found) > 2 and found[1] == found[-2] == keyword.lower()


def start_end(text: str) -> bool:
  """The last word is the first one again."""
  found = _lower(text)
  return len(found) > 1 and found[0] == found[-1]


def first_word_answer(text: str, first_word: str) -> bool:
  """Begins with a word."""
  return _lower(text)[:1] == [first_word.lower()]


def first_word_sentences(text: str, first_word: str) -> bool:
  """Each sentence begins with a word."""
  found = text_units.sentences(text)
  return all(first_word_answer(sentence, first_word) for sentence in found)


def last_word_answer(text: str, last_word: str) -> bool:
  """Ends with a word."""
  return _lower(text)[-1:] == [last_word.lower()]


def last_word_sentences(text: str, last_word: str) -> bool:
  """Each sentence ends with a word."""
  found = text_units.sentences(text)
  return all(last_word_answer(sentence, last_word) for sentence in found)


def letter_count(text: str, N: int, relation: str) -> bool:
  """So many letters."""
  return text_units.compare(sum(c.isalpha() for c in text), relation, N)


def lowercase_words(text: str, N: int) -> bool:
  """At most N words in small letters only."""
  return sum(word.islower() for word in text_units.words(text)) <= N


def two_paragraphs(text: str) -> bool:
  """Two paragraphs, separated by an empty line."""
  return len(text_units.paragraphs(text)) == 2


def span(text: str, prompt_to_repeat: str, n_start: int, n_end: int) -> bool:
  """The words n to m of the prompt, from 0, both included; nothing else."""
  expected = prompt_to_repeat.split()[n_start : n_end + 1]
  return text.split() == expected


def copied(text: str, prompt_to_repeat: str) -> bool:
  """The prompt and nothing else, in any case."""
  return text.strip().lower() == prompt_to_repeat.strip().lower()


def title_case(text: str) -> bool:
  """Every word begins with a capital and goes on in small letters."""
  found = [word for word in text_units.words(text) if word[0].isalpha()]
  return bool(found) and all(
    word[0].isupper() and word[1:] == word[1:].lower() for word in found
  )


def no_whitespace(text: str) -> bool:
  """No space, no tab, no new line."""
  return not any(c.isspace() for c in text.strip("\n"))


def bigrams_wrapped(text: str) -> bool:
  """Words in pairs between double angular brackets: <<I am>> <<at home>>."""
  found = re.findall(r"<<([^<>]*)>>", text)
  bare = re.sub(r"<<[^<>]*>>", "", text)
  return (
    bool(found)
    and not bare.strip()
    and all(len(pair.split()) == 2 for pair in found)
  )


def square_brackets(text: str) -> bool:
  """Every word between square brackets."""
  return all(re.fullmatch(r"\[[^\[\]]+\]", word) for word in text.split())


def hyphened_sentences(text: str) -> bool:
  """Sentences joined by a hyphen, with no space beside it."""
  pieces = re.split(r"(?<=[.!?])-", text.strip())
  return len(pieces) > 1 and all(
    piece == piece.strip() and len(text_units.sentences(piece)) == 1
    for piece in pieces
  )


def no_dot(text: str) -> bool:
  """No full stop."""
  return "." not in text


def no_exclamation(text: str) -> bool:
  """No exclamation mark."""
  return "!" not in text


def word_lengths(text: str, shortest: int, longest: int) -> bool:
  """Every word has between so many and so many letters."""
  return all(shortest <= len(w) <= longest for w in text_units.words(text))


def alternating_case(text: str) -> bool:
  """Capital and small letters take turns."""
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
  """How many sentences end in each mark, closing quotes passed over."""
  found = text_units.sentences(text)
  return collections.Counter(s.rstrip("\"')]*\u201d\u2019")[-1] for s in found)


def _sentence_lengths(text: str) -> list[int]:
  return [len(text_units.words(s)) for s in text_units.sentences(text)]


def _trigrams(text: str) -> set[tuple[str, ...]]:
  found = _lower(text)
  return set(zip(found, found[1:], found[2:], strict=False))


def _in_sequence(letters: Iterator[str]) -> bool:
  places = [string.ascii_lowercase.find(letter) for letter in letters]
  return min(places, default=-1) >= 0 and all(
    b == (a + 1) % 26 for a, b in itertools.pairwise(places)
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
