"""Constraints: cases from the instructions' words, audits, the cards' rules."""

import gc
import inspect
import random
import time

import pytest

from rewards.verifiers import Item, constraints, text_units

ALPHABET = "abcdefghijklmnopqrstuvwxyz"
# name, arguments, texts that obey, texts that do not
CASES = [
  (
    "keywords:existence",
    {"keywords": ["red", "fox"]},
    ["The Fox is red."],
    ["A fox.", "Foxes are reddish."],
  ),
  (
    "keywords:frequency",
    {"keyword": "ah", "frequency": 2, "relation": "at least"},
    ["Ah, ah!", "ah ah ah"],
    ["Ah.", "aha aha"],
  ),
  (
    "keywords:frequency",
    {"keyword": "ah", "frequency": 2, "relation": "less than"},
    ["Ah.", "no"],
    ["Ah, ah!"],
  ),
  (
    "keywords:forbidden_words",
    {"forbidden_words": ["cat"]},
    ["A category."],
    ["A Cat."],
  ),
  (
    "keywords:letter_frequency",
    {"letter": "o", "let_frequency": 3, "let_relation": "at least"},
    ["Ooo"],
    ["oo"],
  ),
  ("language:response_language", {"language": "ko"}, ["안녕하세요."], ["Hi."]),
  (
    "language:response_language",
    {"language": "ja"},
    ["これは本です。"],
    ["书。"],
  ),
  ("language:response_language", {"language": "el"}, ["Καλημέρα."], ["Kali."]),
  (
    "length_constraints:number_sentences",
    {"num_sentences": 3, "relation": "at least"},
    ["One. Two! Three?", "At 3.5 m. Dr. No and J. Q. Doe came. Why?"],
    ["One. Two!", "1.2.3.4", "... ... ..."],
  ),
  (
    "length_constraints:number_paragraphs",
    {"num_paragraphs": 2},
    ["First.\n***\nSecond."],
    ["First.\n\nSecond.", "a\n***\nb\n***\nc", "a\n***\n"],
  ),
  (
    "length_constraints:number_words",
    {"num_words": 4, "relation": "less than"},
    ["Don't be well-known."],
    ["one two three four"],
  ),
  (
    "length_constraints:nth_paragraph_first_word",
    {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "Weekend"},
    ["Hello.\n\nweekend is here."],
    ["Weekend.\n\nHello.", "a\n\nweekend\n\nb"],
  ),
  (
    "detectable_content:number_placeholders",
    {"num_placeholders": 2},
    ["Dear [name], at [place]"],
    ["Dear [name]", "[] []"],
  ),
  (
    "detectable_content:postscript",
    {"postscript_marker": "P.S."},
    ["Bye.\nP.S. Call me.", "P. S. yes"],
    ["Bye.", "We talk p.s. no", "x\nP.S."],
  ),
  (
    "detectable_content:postscript",
    {"postscript_marker": "P.P.S"},
    ["Bye.\nP.P.S. Call me."],
    ["Bye.\nP.S. Call me."],
  ),
  (
    "detectable_format:number_bullet_lists",
    {"num_bullets": 2},
    ["* a\n* b", "- a\ntext\n  - b"],
    ["* a", "* a\n* b\n* c", "**a** b\n**c** d"],
  ),
  (
    "detectable_format:constrained_response",
    {},
    ["My answer is no."],
    ["No.", "My answer is yes. My answer is no."],
  ),
  (
    "detectable_format:number_highlighted_sections",
    {"num_highlights": 2},
    ["*a* and **b c**"],
    ["*a*", "* a\n* b", "** ** * *"],
  ),
  (
    "detectable_format:multiple_sections",
    {"section_spliter": "SECTION", "num_sections": 2},
    ["SECTION 1\na\nSECTION 2\nb"],
    ["SECTION 1\na", "section 1 section 2"],
  ),
  (
    "detectable_format:json_format",
    {},
    ['{"a": [1]}', '```json\n{"a": 1}\n```'],
    ["a", "{a: 1}", '{"a": 1} done', "1", "[" * 10**5],
  ),
  ("detectable_format:title", {}, ["<<Joy>>\nx"], ["<Joy>", "<<>>", "<< >>a"]),
  (
    "combination:two_responses",
    {},
    ["One.\n******\nTwo."],
    ["One. ****** One.", "One.", "a ****** b ****** c"],
  ),
  (
    "combination:repeat_prompt",
    {"prompt_to_repeat": "Why is it so?"},
    ["Why is it so? Because."],
    ["Because.", "Why is it so?", "So: Why is it so? Because."],
  ),
  (
    "startend:end_checker",
    {"end_phrase": "Is that all?"},
    ["Yes. Is that all?", '"Is that all?"'],
    ["Is that all? Yes."],
  ),
  ("startend:quotation", {}, ['"All of it."'], ['"Half" of it', 'x"', '""']),
  (
    "change_case:capital_word_frequency",
    {"capital_frequency": 2, "capital_relation": "at least"},
    ["I SAY"],
    ["I say"],
  ),
  ("change_case:english_capital", {}, ["ALL OF IT."], ["All", "ДА"]),
  ("change_case:english_lowercase", {}, ["all of it."], ["All", "да"]),
  ("punctuation:no_comma", {}, ["One two."], ["One, two."]),
  (
    "count:word_count_range",
    {"min_words": 2, "max_words": 3},
    ["a b", "a b c"],
    ["a", "a b c d"],
  ),
  ("count:unique_word_count", {"N": 2}, ["a b a"], ["a A a."]),
  ("count:conjunctions", {"small_n": 2}, ["a and b or c"], ["and and"]),
  ("count:numbers", {"N": 2}, ["1,000.5 of 3"], ["1", "1 2 3", "two 2"]),
  ("count:pronouns", {"N": 2}, ["I see you."], ["See you."]),
  ("count:punctuation", {}, ["a. b, c! d? e; f: g?!"], ["a. b, c; d: e?!"]),
  (
    "count:words_japanese",
    {"N": 2},
    ["one 二 three 四"],
    ["one two", "one"],
  ),
  (
    "count:keywords_multiple",
    {f"keyword{i + 1}": k for i, k in enumerate("abcde")},
    ["a b b c c c d d d d d e e e e e e e"],
    ["a b c d e"],
  ),
  ("count:lowercase_counting", {"N": 1}, ["ONE two"], ["one two"]),
  ("count:count_unique", {}, ["each word once"], ["word by Word"]),
  ("ratio:stop_words", {"percentage": 50}, ["the fox"], ["of the fox"]),
  ("ratio:sentence_type", {}, ["Ab. Bc. Cd?"], ["Ab. Bc?", "Ab. Bc."]),
  ("ratio:sentence_balance", {}, ["Ab. Bc! Cd?"], ["Ab. Bc!", "Ab"]),
  (
    "ratio:sentence_words",
    {},
    ["Ab cd. Ef gh. Ij kl."],
    ["Ab cd. Ab gh. Ij kl.", "Abc cd. Ef gh. Ij kl.", "Ab cd. Ef gh."],
  ),
  (
    "ratio:overlap",
    {"reference_text": "a b c d x y z", "percentage": 50},
    ["a b c q"],
    ["a b c d", "a b"],
  ),
  ("words:alphabet", {}, ["xenon yes zoo apple"], ["apple cat", "1 2 3"]),
  ("words:vowel", {}, ["a fine bid"], ["a quote in", "a\nb"]),
  ("words:consonants", {}, ["Strong arms"], ["Strong air"]),
  (
    "words:palindrome",
    {},
    ["level radar civic kayak madam refer rotor solos stats tenet"],
    ["level radar civic", "aba " * 10],
  ),
  ("words:prime_lengths", {}, ["to the three"], ["a", "four", "word by"]),
  ("words:repeats", {"small_n": 2}, ["row row"], ["row Row row"]),
  ("words:last_first", {}, ["I see it. It is so. So what."], ["I see. It is."]),
  ("words:paragraph_last_first", {}, ["go on, go\nso so"], ["go on"]),
  ("words:no_consecutive", {}, ["red fox runs"], ["red rat"]),
  (
    "words:keywords_specific_position",
    {"keyword": "fox", "n": 2, "m": 3},
    ["One. The red fox."],
    ["The red fox.", "One. Fox the red.", "One. Two."],
  ),
  (
    "words:words_position",
    {"keyword": "fox"},
    ["the fox and fox ran"],
    ["the fox ran off", "fox a b fox"],
  ),
  (
    "sentence:alliteration_increment",
    {},
    ["See red. Big bears. Two tall trees."],
    ["Big bears. Two tall.", "Big bears. See red."],
  ),
  (
    "sentence:increment",
    {"small_n": 1},
    ["One. Two b. A b c."],
    ["One. A b c."],
  ),
  (
    "sentence:keyword",
    {"word": "fox", "N": 2},
    ["One. A fox."],
    ["A fox. One.", "A fox."],
  ),
  (
    "format:parentheses",
    {},
    ["a ([{((b))}])"],
    ["((((b))))", "(((((b", "([)]" * 9],
  ),
  (
    "format:options",
    {"options": "yes/no/maybe"},
    ["Maybe.", "yes"],
    ["yes no", "yes/no/maybe", "sure"],
  ),
  (
    "format:options",
    {"options": "I know or I don't know"},
    ["I don't know."],
    ["I know or I don't know"],
  ),
  ("format:newline", {}, ["one\ntwo"], ["one two"]),
  ("format:emoji", {}, ["Hi 😀. You! 🎉"], ["Hi 😀. You!", "Hi."]),
  ("format:line_indent", {}, ["a\n b\n   c"], ["a\nb", "a"]),
  ("format:list", {"sep": "!?!?"}, ["!?!? a\n!?!? b"], ["!?!? a", "- a\n- b"]),
  (
    "format:sub-bullets",
    {},
    ["* a\n  - b\n* c\n  - d\n  - e"],
    ["* a\n* b\n  - c", "* a", "- a"],
  ),
  ("format:title_case", {}, ["The Red Fox"], ["The red Fox", "THE Fox"]),
  ("format:no_whitespace", {}, ["one-two"], ["one two"]),
  (
    "custom:sentence_alphabet",
    {},
    [" ".join(f"{letter.upper()}b." for letter in ALPHABET)],
    ["Ab. Bb.", " ".join(f"{letter.upper()}b." for letter in ALPHABET[::-1])],
  ),
  (
    "custom:date_format_list",
    {},
    ["1999-12-31, 2000-02-29"],
    ["1999-2-1", "1999-02-29", "1999-12-31 and 2000-01-01"],
  ),
  (
    "repeat:repeat_span",
    {"prompt_to_repeat": "a b c d e", "n_start": 1, "n_end": 3},
    ["b c d"],
    ["a b c d e", "b c"],
  ),
  ("copy:copy", {"prompt_to_repeat": "Say it."}, ["say it."], ["I say it."]),
  ("keywords:word_once", {"keyword": "fox"}, ["A fox."], ["fox fox", "none"]),
  (
    "keywords:word_count_different_numbers",
    {"keyword1": "a", "keyword2": "b"},
    ["a b b"],
    ["a b", "b b"],
  ),
  ("keywords:exclude_word_harder", {"keyword": "fox"}, ["A cat"], ["A fox"]),
  ("keywords:palindrome", {}, ["at noon"], ["at one", "a I"]),
  ("keywords:start_end", {}, ["So it is so."], ["So it is.", "So"]),
  ("keywords:no_adjacent_consecutive", {}, ["bat ant"], ["ant bat"]),
  (
    "keywords:keyword_specific_position",
    {"keyword": "fox", "n": 1, "m": 1},
    ["Fox here."],
    ["A fox here."],
  ),
  (
    "letters:letter_counting",
    {"N": 4, "relation": "exactly"},
    ["a1 bcd!"],
    ["abc"],
  ),
  (
    "first_word:first_word_sent",
    {"first_word": "so"},
    ["So it is. So what?"],
    ["So it is. Now what?"],
  ),
  ("first_word:first_word_answer", {"first_word": "so"}, ["So."], ["Not so."]),
  (
    "last_word:last_word_sent",
    {"last_word": "so"},
    ["Be it so. Not so?"],
    ["Be it so. Not me."],
  ),
  ("last_word:last_word_answer", {"last_word": "so"}, ["Not so!"], ["So not"]),
  ("paragraphs:paragraphs2", {}, ["a\n\nb"], ["a\nb", "a\n\nb\n\nc"]),
  ("punctuation:punctuation_dot", {}, ["One!"], ["One."]),
  ("punctuation:punctuation_exclamation", {}, ["One."], ["One!"]),
  (
    "detectable_format:bigram_wrapping",
    {},
    ["<<I am>> <<at home>>"],
    ["<<I am>> at home", "<<I>>"],
  ),
  ("detectable_format:square_brackets", {}, ["[I] [am]"], ["[I] am", "[I am]"]),
  (
    "detectable_format:sentence_hyphens",
    {},
    ["It is.-So what?"],
    ["It is. So what?", "It is.- So what?"],
  ),
  (
    "own:word_lengths",
    {"shortest": 2, "longest": 3},
    ["to the"],
    ["a the", "to four"],
  ),
  ("own:alternating_case", {}, ["aLtErN 1 a"], ["Alt", "a"]),
  ("own:acrostic", {"word": "Sun"}, ["So\n* up\nnow"], ["So\nnow", "sun"]),
  ("own:increasing_sentences", {}, ["One. Two b."], ["One b. Two b.", "One."]),
]
IDS = [f"{case[0]}-{index}" for index, case in enumerate(CASES)]


def item(text, *rules, prompt="?"):
  return Item(prompt, text, "", {"constraints": list(rules)})


def rule(name, arguments):
  return {"name": name, **arguments}


@pytest.mark.parametrize(("name", "arguments", "yes", "no"), CASES, ids=IDS)
@pytest.mark.worked_example("function:constraints.verify")
def test_the_instruction_means_what_it_says(name, arguments, yes, no):
  constraints.validate([rule(name, arguments)])
  for text in yes:
    assert constraints.obeys(text, rule(name, arguments)), text
  for text in no:
    assert not constraints.obeys(text, rule(name, arguments)), text


@pytest.mark.parametrize(
  ("name", "arguments", "yes", "no"),
  [case for case in CASES if any(type(v) is int for v in case[1].values())],
)
def test_an_integer_may_be_written_as_a_float(name, arguments, yes, no):
  floats = {
    key: float(value) if type(value) is int else value
    for key, value in arguments.items()
  }
  constraints.validate([rule(name, floats)])
  for texts, verdict in ((yes, 1), (no, 0)):
    outcomes = constraints.verify([item(t, rule(name, floats)) for t in texts])
    assert [outcome.verdict for outcome in outcomes] == [verdict] * len(texts)


@pytest.mark.parametrize(
  ("name", "arguments", "message"),
  [
    (
      "length_constraints:number_paragraphs",
      {"num_paragraphs": 2.5},
      "'num_paragraphs' must be of the type int, not 2.5",
    ),
    ("count:numbers", {"N": "2"}, "'N' must be of the type int, not '2'"),
    ("count:numbers", {"N": True}, "'N' must be of the type int, not True"),
    ("count:numbers", {"N": float("nan")}, "the type int, not nan"),
    ("ratio:stop_words", {"percentage": "5"}, "the type float, not '5'"),
    ("keywords:word_once", {"keyword": 3}, "the type str, not 3"),
    ("keywords:existence", {"keywords": "fox"}, "Sequence.* not 'fox'"),
    ("format:options", {"options": [1, 2]}, r"Sequence.* not \[1, 2\]"),
    (
      "length_constraints:number_words",
      {"num_words": 2, "relation": "at leest"},
      "unknown relation 'at leest'; did you mean 'at least'?",
    ),
  ],
)
def test_a_value_of_another_type_is_refused(name, arguments, message):
  inputs = rule(name, arguments)
  with pytest.raises(ValueError, match=message):
    constraints.validate([inputs])
  assert constraints.verify([item("A fox.", inputs)])[0].verdict == -1


def test_every_parameter_of_a_checker_has_a_type_that_is_checked():
  for checker in constraints.CHECKERS.values():
    types = dict(checker.__annotations__)
    assert (types.pop("text"), types.pop("return")) == ("str", "bool")
    assert types.keys() == set(list(inspect.signature(checker).parameters)[1:])
    assert set(types.values()) <= set(constraints._TYPES)


def test_every_zeroth_word_is_none():
  inputs = rule("count:words_japanese", {"N": 0})
  assert constraints.verify([item("\u65e5 \u672c", inputs)])[0].verdict == 0


def test_every_checker_has_a_case():
  assert {case[0] for case in CASES} == set(constraints.CHECKERS)
  assert len(constraints.CHECKERS) >= 40


@pytest.mark.worked_example("function:constraints.verify")
def test_score_is_the_share_and_the_verdict_all():
  rules = [
    rule("punctuation:no_comma", {}),
    rule("keywords:existence", {"keywords": ["fox"]}),
    rule(
      "length_constraints:number_words", {"num_words": 3, "relation": "exactly"}
    ),
  ]
  texts = ["A red fox.", "A fox, red.", "Hm, a fox or two.", "a, b"]
  result = constraints.verify([item(text, *rules) for text in texts])
  assert [o.score for o in result] == [1.0, 2 / 3, 1 / 3, 0.0]
  assert [o.verdict for o in result] == [1, 0, 0, 0]


def test_texts_vote_by_their_words_and_a_blank_one_does_not_vote():
  texts = ["A fox.", " A fox.\n", "A cat.", " \n"]
  comma = rule("punctuation:no_comma", {})
  fox, same, cat, blank = constraints.verify([item(t, comma) for t in texts])
  assert fox.answer == same.answer == "A fox."
  assert fox.answer_id == same.answer_id != cat.answer_id
  assert min(fox.answer_id, cat.answer_id) >= 0
  assert (blank.answer, blank.answer_id) == ("", -1)


def test_nones_are_not_arguments():
  inputs = {"name": "detectable_format:title", "num_words": None}
  assert constraints.verify([item("<<a>>", inputs)])[0].verdict == 1


@pytest.mark.parametrize(
  ("inputs", "message"),
  [
    ({"name": "keywords:existance"}, "did you mean 'keywords:existence'?"),
    ({}, "unknown constraint None"),
    (
      {"name": "keywords:existence", "keyword": ["a"]},
      "did you mean 'keywords'?",
    ),
    ({"name": "keywords:existence"}, "needs the argument 'keywords'"),
  ],
)
def test_what_cannot_be_checked_is_refused_and_unscored(inputs, message):
  with pytest.raises(ValueError, match=message.replace("?", r"\?")):
    constraints.validate([inputs])
  outcome = constraints.verify([item("A fox.", inputs)])[0]
  assert (outcome.score, outcome.verdict) == (0.0, -1)
  assert outcome.reason


@pytest.mark.parametrize(
  "inputs",
  [
    None,
    [],
    3,
    [3],
    [{"name": "keywords:frequency", "keyword": "a", "frequency": 1,
      "relation": "nearly"}],
    [{"name": "language:response_language", "language": "de"}],
    [{"name": "count:word_count_range", "min_words": "a", "max_words": 3}],
  ],
)  # fmt: skip
def test_unreadable_constraints_are_unscored(inputs):
  wrong = Item("?", "A fox.", "", {"constraints": inputs})
  assert constraints.verify([wrong])[0].verdict == -1
  assert constraints.verify([Item("?", "A fox.", "")])[0].verdict == -1


def test_loose_forgives_an_introduction_a_remark_and_bold_type():
  end = rule("startend:end_checker", {"end_phrase": "the end"})
  few = rule(
    "length_constraints:number_words", {"num_words": 3, "relation": "exactly"}
  )
  for text, inputs in (
    ("It is the end\nHope this helps!", end),
    ("Sure, here it is:\nOne two three", few),
    ("Sure:\nOne two three\nBye now", few),
    ("It is **the end**", end),
  ):
    assert not constraints.obeys(text, inputs)
    assert constraints.obeys_loosely(text, inputs)
    never = rule("keywords:existence", {"keywords": ["quince"]})
    (alone,) = constraints.verify([item(text, inputs)])
    (half,) = constraints.verify([item(text, inputs, never)])
    assert (alone.score, alone.verdict) == (half.score, half.verdict) == (0, 0)
    assert alone.parts == {"strict": 0.0, "loose": 1.0, "all_loose": 1.0}
    assert half.parts == {"strict": 0.0, "loose": 0.5, "all_loose": 0.0}
  assert not constraints.obeys_loosely("One\ntwo three four five\nsix", few)


@pytest.mark.parametrize(("name", "arguments", "yes", "no"), CASES, ids=IDS)
def test_strict_implies_loose(name, arguments, yes, no):
  for text in yes:
    assert constraints.obeys_loosely(text, rule(name, arguments))


@pytest.mark.parametrize(("name", "arguments", "yes", "no"), CASES, ids=IDS)
def test_nothing_said_obeys_nothing(name, arguments, yes, no):
  for text in ("", " \n\t", ".", ":" * 50, "***\n***", "--- ,;", "?!"):
    assert not constraints.obeys(text, rule(name, arguments))
    assert not constraints.obeys_loosely(text, rule(name, arguments))


def test_keyword_stuffing_wins_where_only_keywords_are_asked_for():
  """The method's own weakness; a judge or a reward model must be mixed in."""
  expected = rule("keywords:existence", {"keywords": ["red", "fox"]})
  count = rule(
    "length_constraints:number_words", {"num_words": 9, "relation": "at most"}
  )
  texts = ["The fox is red.", "fox red", "fox red " * 50]
  result = constraints.verify([item(text, expected, count) for text in texts])
  assert [o.score for o in result] == [1.0, 1.0, 0.5]


def test_constant_and_echoed_answers_do_not_beat_one_that_obeys():
  rules = [
    rule("keywords:existence", {"keywords": ["fox"]}),
    rule("punctuation:no_comma", {}),
    rule(
      "length_constraints:number_words",
      {"num_words": 12, "relation": "at most"},
    ),
  ]
  prompt = "Say fox, without a comma, in twelve words or fewer, or say less."
  good = constraints.verify([item("A fox.", *rules, prompt=prompt)])[0].score
  for text in (prompt, "Yes.", "word " * 10**4, "fox," * 10):
    outcome = constraints.verify([item(text, *rules, prompt=prompt)])[0]
    assert outcome.score < good


def long_texts(length):
  return {
    "letters": "a" * length,
    "words": "word " * (length // 5),
    "sentences": "No. " * (length // 4),
    "newlines": "a\n\n" * (length // 3),
    "stars": "a" + "*" * length,
    "brackets": "a" + "[" * length,
    "angles": "a" + "<<" * (length // 2),
    "fences": "a" + "```json " * (length // 8),
    "quotes": "a." + "\"'" * (length // 2),
    "spaces": "a" + " " * length + "b",
    "dots": "a" + "." * length,
    "nulls": "a\x00\ud800" * (length // 3),
    "marks": "?!" * (length // 2) + "a",
    "indent": " " * length,
    "postscript": "P.S" + "." * length,
  }


LONG, SHORTER = long_texts(48_000), long_texts(12_000)


def seconds_of(text, inputs):
  """Returns how long this thread works on a verdict."""
  start = time.thread_time()
  outcome = constraints.verify([item(text, inputs)])[0]
  assert outcome.verdict in (0, 1), outcome.reason
  return time.thread_time() - start


@pytest.mark.parametrize("kind", LONG)
def test_the_time_of_long_texts_is_linear_in_their_length(kind):
  """A quarter of a text would take a sixteenth of a quadratic time."""
  rules = {case[0]: rule(*case[:2]) for case in CASES}
  gc.disable()  # a search for unused objects may take longer than a rule
  try:
    for name, inputs in rules.items():
      seconds = seconds_of(LONG[kind], inputs)
      if seconds > 0.2:
        assert seconds < 8 * seconds_of(SHORTER[kind], inputs), name
  finally:
    gc.enable()


def test_never_raises_over_a_text():
  generator = random.Random(0)
  parts = ["a", "B.", "*", "\n", "\n\n", "[", "]", "<<", ">>", '"', "?!", "1,0"]
  parts += ["- ", "P.S. ", "😀", "二", "\x00", "\ud800", "{", "}", "'", " "]
  rules = [rule(*case[:2]) for case in CASES]
  for _ in range(200):
    text = "".join(generator.choices(parts, k=generator.randrange(12)))
    for inputs in rules:
      assert constraints.verify([item(text, inputs)])[0].verdict in (0, 1)
  assert constraints.verify([item(None, rules[0])])[0].verdict == 0
  assert constraints.verify([]) == []


def test_units_of_text():
  assert text_units.words("Don't stop well-known rock'n'roll, 3rd_time") == [
    "Don't", "stop", "well-known", "rock'n'roll", "3rd", "time"
  ]  # fmt: skip
  assert text_units.sentences('He said "no." Then e.g. 3.5 m. Why?\n\nSo') == [
    'He said "no."', "Then e.g. 3.5 m.", "Why?", "So"
  ]  # fmt: skip
  assert text_units.paragraphs("a\nb\n \n\nc\n") == ["a\nb", "c"]
  with pytest.raises(ValueError, match="did you mean 'at least'"):
    text_units.compare(1, "atleast", 1)
