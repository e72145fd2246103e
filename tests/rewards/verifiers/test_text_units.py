"""Units of text: where a sentence, a paragraph and a phrase end."""

import pytest

from rewards.verifiers import text_units


@pytest.mark.parametrize(
  ("text", "sentences"),
  [
    ("So. Go! Up? At\u2026 Us", ["So.", "Go!", "Up?", "At\u2026", "Us"]),
    ("So\u3002 Go", ["So\u3002", "Go"]),
    ("Then he met Dr. No. So it is.", ["Then he met Dr. No.", "So it is."]),
    ("He and I. We saw J. Doe.", ["He and I.", "We saw J. Doe."]),
    ("Cats, dogs etc.\n\nSo", ["Cats, dogs etc.", "So"]),
    ("Yes.no\n\nOne line\ntwo", ["Yes.no", "One line\ntwo"]),
    ("('So.') Go.", ["('So.')", "Go."]),
    ("?! So. -- . Go", ["So.", "Go"]),
    ("", []),
  ],
)  # fmt: skip
def test_a_sentence_ends_at_a_mark_before_a_space(text, sentences):
  assert text_units.sentences(text) == sentences


def test_lines_keep_their_indentation():
  assert text_units.lines("a\n \n  b \n") == ["a", "  b "]


def test_a_phrase_occurs_as_whole_words_in_any_case():
  assert text_units.occurrences("red fox", "Red fox, red foxes, a RED FOX") == 2
  assert text_units.occurrences("a.b", "a.b axb a.b") == 2
  assert text_units.occurrences("fox", "") == 0


@pytest.mark.parametrize(
  ("relation", "results"),
  [
    ("at least", [False, True, True]),
    ("at most", [True, True, False]),
    ("exactly", [False, True, False]),
    ("less than", [True, False, False]),
    ("more than", [False, False, True]),
  ],
)
def test_the_count_is_on_the_left_of_the_relation(relation, results):
  counts = [text_units.compare(count, relation, "4") for count in (3, 4, 5)]
  assert counts == results
