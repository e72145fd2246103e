"""Instructions of IFEval: texts at each limit, and just beyond it."""

import pytest

from rewards.verifiers import ifeval

# checker, arguments, texts that obey, texts that do not
CASES = [
  ("keywords_existence", (["a", "b"],), ["b a"], ["a", "b"]),
  ("keyword_frequency", ("a", 2, "more than"), ["a a a"], ["a a"]),
  ("forbidden_words", (["cat", "dog"],), ["a fox"], ["a cat", "a dog"]),
  ("letter_frequency", ("A", 2, "more than"), ["aAa"], ["aA"]),
  # Nine in ten letters.
  ("response_language", ("el",), ["αβγδεζηθι z"], ["αβγδεζηθ z", "z", "1"]),
  ("response_language", ("ko",), ["안 書"], ["書", "안 abc"]),
  ("number_sentences", (2, "at most"), ["So.", "So. Go."], ["So. Go. We."]),
  ("number_paragraphs", (2,), ["a\n***\nb"], ["a", "***\na", "a *** b *** c"]),
  ("number_words", (2, "less than"), ["a"], ["a b", "a b c"]),
  (
    "nth_paragraph_first_word",
    (2, 1, "So"),
    ["so a\n\nb"],
    ["a so\n\nb", "b\n\nso", "so", "so\n\na\n\nb"],
  ),
  ("nth_paragraph_first_word", (1, 0, "so"), [], ["so"]),
  ("nth_paragraph_first_word", (1, 2, "so"), [], ["so"]),
  ("number_placeholders", (1,), ["[a]", "[a] [b]"], ["[]", "a"]),
  ("postscript", ("P.S.",), ["a\n ps: b", "P.S. a"], ["a p.s. b", "PSA b"]),
  ("number_bullet_lists", (1,), ["a\n- b", "* a"], ["- a\n- b", "--- a"]),
  ("constrained_response", (["a b", "c"],), ["so c"], ["a b c", "a"]),
  ("number_highlighted_sections", (1,), ["**a** *b*", "*a*"], ["* *", "a"]),
  (
    "multiple_sections",
    ("Part", 1),
    ["# Part 1", "Part 1\nPart 2"],
    ["a Part 1"],
  ),
  ("json_format", (), ["[1]", "{}", "```\n[]\n```"], ['"a"', "[1", "1"]),
  ("title", (), ["<< >> <<a>>"], ["<< >>", "<<a"]),
  ("two_responses", (), ["a ****** b"], ["a ****** a", "a", "a ******"]),
  ("repeat_prompt", ("So it is.",), ["so IT is. b"], ["So it is. ", "b So it"]),
  ("end_checker", ("The end.",), ["So. the END.' "], ["The end", "The end. A"]),
  ("capital_word_frequency", (1, "more than"), ["A B c"], ["A b"]),
  ("english_capital", (), ["ABCDEFGHI Д"], ["ABCDEFGH Д", "A b", "1"]),
  # U+0250 is the first letter that is not counted as Latin.
  ("english_lowercase", (), ["abcdefghi\u0250"], ["ab\u0250", "aB", "1"]),
  ("no_comma", (), ["a; b"], ["a, b"]),
  (
    "quotation",
    (),
    ['"a"', "\u201ca\u201d", ' "a b"\n'],
    ['""', '"a', 'a"', 'a"b"', '"a"b', '"', "'a'"],
  ),
]
IDS = [f"{case[0]}-{index}" for index, case in enumerate(CASES)]


@pytest.mark.parametrize(("name", "arguments", "yes", "no"), CASES, ids=IDS)
def test_texts_at_a_limit_and_just_beyond_it(name, arguments, yes, no):
  checker = getattr(ifeval, name)
  assert [text for text in yes if checker(text, *arguments) is not True] == []
  assert [text for text in no if checker(text, *arguments) is not False] == []


def test_a_language_without_a_script_of_its_own_is_refused():
  with pytest.raises(ValueError, match="unknown script of language 'de'"):
    ifeval.response_language("a", "de")
