"""Instructions beyond IFEval: texts at each limit, and just beyond it."""

import pytest

from rewards.verifiers import ifbench

PALINDROMES = "level radar civic kayak madam refer rotor solos stats tenet"
BIGRAMS = "a b c d q r"  # its trigrams abc, bcd, cdq and dqr
# checker, arguments, texts that obey, texts that do not
CASES = [
  ("word_count_range", (2, 2), ["a b"], ["a", "a b c"]),
  ("unique_word_count", (2,), ["a B", "a b c"], ["a A"]),
  ("only_unique_words", (), ["a b c"], ["a b A c"]),
  ("limited_repeats", (2,), ["a a b", "a b"], ["b a a a"]),
  ("limited_repeats", (0,), ["..."], ["a"]),
  ("stop_word_share", (25,), ["the red fox ran", "red"], ["the fox ran", "!"]),
  ("stop_word_share", (0,), ["red fox"], ["the red fox ran off"]),
  (
    "two_statements_a_question",
    (),
    ["So. Go. Us?", "So. Go. Up. At. Us? We?"],
    ["So. Go.", "So?", "So. Go. Up. At?", "So. Go? Us?", "!"],
  ),
  (
    "balanced_sentences",
    (),
    ['"Ab." Bc! Cd?', "So. Go. Up! At! Us? We?"],
    ["So. Go! Up! At?", "So. Go. Up! At?", "So. Go! Up? At?", "so"],
  ),
  ("conjunctions", (2,), ["so or not", "and but yet"], ["or Or"]),
  ("numbers", (2,), ["1 and 2.5"], ["1", "1 2 3"]),
  ("pronouns", (2,), ["I saw her and him", "me, myself"], ["me"]),
  # Half of the trigrams are in the reference.
  ("trigram_overlap", ("a b c d", 48), [BIGRAMS], ["a b c d"]),
  ("trigram_overlap", ("a b c d", 52), [BIGRAMS], ["a b c x y z"]),
  ("trigram_overlap", ("a b c d", 53), [], [BIGRAMS]),
  ("trigram_overlap", ("a b c d", 47), [], [BIGRAMS]),
  (
    "trigram_overlap",
    ("a b c", 0),
    ["a x c", "a b x", "x b c", "c b a"],
    ["A b c", "a b"],
  ),
  (
    "alphabet",
    (),
    ["zoo apple bat", "apple", "lone man"],
    ["apple bat dog", "apple cat", "bat ant", "1 apple", "!", "apple apple"],
  ),
  ("three_vowels", (), ["my", "I do see"], ["a fine book", "my\nby"]),
  ("consonant_clusters", (), ["lynx", "ask"], ["ask him", "a"]),
  (
    "increasing_alliteration",
    (),
    ["One two. A big bear ran.", "One. Big bear. Two tall trees ran."],
    ["One. Big bear. Two.", "Big bear. One two.", "One. Two."],
  ),
  (
    "ten_palindromes",
    (),
    [PALINDROMES, PALINDROMES + " level"],
    [PALINDROMES[6:], PALINDROMES[6:] + " noon", PALINDROMES[6:] + " lever"],
  ),
  ("palindrome", (), ["so dad did", "not abba"], ["aa I", "abc", "no"]),
  (
    "all_punctuation",
    (),
    [".,;:!\u203d?", "So?! a. b, c! d? e; f:", "A: b; c! d? e, f. g!?"],
    ["a. b, c! d? e; f:", "a. b, c! e; f: g?!", "a. b, c? e; f: g?!", "?!"],
  ),
  (
    "nested_brackets",
    (),
    ["((((()))))", "[{([{}])}]", "([)" + "{" * 5 + "}" * 5],
    ["(((())))", "(((((]" + ")" * 5, "[[[[(])]]]", "(()()()()())", "a"],
  ),
  ("nested_brackets", (2,), ["([])", "((a)b)", "()(())"], ["()", "()[]{}"]),
  ("nested_brackets", (3,), ["((())())", "(()(()))"], ["(()())"]),
  ("nested_brackets", (1,), ["()", ")()"], ["(", ")", "(]"]),
  (
    "prime_lengths",
    (),
    ["to the", "seven letters", "abcdefghijk"],
    ["a", "four", "nineteen", "ninetieth", "to a", "to four"],
  ),
  (
    "one_of_options",
    ("yes/ no",),
    [" Yes.\n", '"no"', "NO!"],
    ["yes/no", "", "yes no"],
  ),
  ("one_of_options", (["A or B", "c, d"],), ["a or b", "C, d"], ["a", "c"]),
  ("one_of_options", ("red, green or blue",), ["Green", "blue"], ["green or"]),
  ("word_a_line", (), ["one\n\ntwo", " a "], ["one\ntwo three", "a b\nc"]),
  (
    "emoji_after_sentences",
    (),
    ["Hi. 😀 You! 🎉", "Hi 😀.", "Hi ❤\ufe0f.", "A 😀! B. 🎉", "😀"],
    ["A.", "Hi", "😀 Hi.", "Hi 😀. You", "Hi 😀. You. No 🎉.", "Hi. You 😀."],
  ),
  (
    "equal_sentences",
    (),
    ["Ab. Cd. Ef."],
    ["Ab. Cd.", "Ab. Cd. Efg.", "Ab. Cd. Ef. Gh.", "Ab. Cd. Ab."],
  ),
  (
    "japanese_words",
    (2,),
    ["one 二 three かな", "a 2, c 4.", "a カ b"],
    ["one two three 四", "one 二 three four", "二", "a b"],
  ),
  ("japanese_words", (1,), ["二 4"], ["二 b", "a 二"]),
  ("sentence_keyword", ("fox", 1), ["A fox. Not."], ["Not. A fox.", "."]),
  (
    "sentence_keyword",
    ("fox", 2),
    ["So. Fox, fox!"],
    ["Fox.", "Fox. So. Fox."],
  ),
  ("sentence_keyword", ("fox", 0), [], ["A fox.", "So. Fox."]),
  (
    "last_word_first",
    (),
    ["I see it. It is so. So what?", "One."],
    ["I see it. It is. What?", "I see. It is. Is it?"],
  ),
  (
    "paragraphs_close",
    (),
    ["go on go\n***\nso", "Go go"],
    ["go go\ngo on", "go on on\ngo go", "go go on"],
  ),
  (
    "growing_sentences",
    (2,),
    ["So. A b go. A b c d go.", "So."],
    ["So. A b go. A b c go.", "So. A go. A b c go.", "A b go. So."],
  ),
  ("growing_sentences", (0,), ["A go. A go."], ["So. A go."]),
  (
    "increasing_sentences",
    (),
    ["So. A go.", "So. A go. A b c go."],
    ["So.", "So. A go. A go.", "A go. So. A go.", "A go. So."],
  ),
  ("no_same_initials", (), ["a bee", "ab ba", "a"], ["red rat fox", "So so"]),
  (
    "no_following_initials",
    (),
    ["bat ant", "ant cat", "ant ant", "b a"],
    ["ant bat ant", "a b"],
  ),
  (
    "stairs",
    (),
    ["long\n b", "a\n\n b\n   c"],
    ["a\nlonger", "a\n b\nc", " b\na", "  a", "a\n\tb"],
  ),
  (
    "list_with_marker",
    ("-",),
    ["- a\n - b", "-a\n-b\n-c"],
    ["- a\nb", "a - b\nb - c", "a"],
  ),
  (
    "sub_bullets",
    (),
    ["* a\n- b", "* a\nso\n  - b\n  - c\n* d\n  - e", "- a\n* b\n- c"],
    ["* a\n- b\n* c", "* a\n* b\n- c", "* a\n- b\n* c\n* d\n- e", "*a\n-b"],
  ),
  (
    "sub_bullets",
    (),
    ["* a\n- b\n- c\n- d"],
    ["* a\n- b\n- c\n* d", "- a\n- b", "a"],
  ),
  (
    "dates",
    (),
    ["1999-12-31", " 2000-02-29,1999-01-01 "],
    ["1999-02-29", "1999-12-31,", "1999-13-01", "19991231", "a"],
  ),
  (
    "keywords_once_to_five",
    tuple("abcde"),
    ["a b b c c c " + "d " * 5 + "e " * 7],
    [
      "a a b b c c c " + "d " * 5 + "e " * 7,
      "a b b c c c " + "d " * 5 + "e " * 8,
    ],
  ),
  ("keyword_once", ("fox",), ["a FOX"], ["fox fox", "foxes"]),
  ("keywords_once_and_twice", ("a", "b"), ["b a B"], ["a b b b", "a a b b"]),
  ("exclude_word", ("fox",), ["foxes"], ["a fox", "fox fox"]),
  ("keyword_at", ("fox", 1, 1), ["Fox so. Go."], ["A fox.", "So. Fox."]),
  ("keyword_at", ("fox", 2, 2), ["So. A fox."], ["A fox. So.", "So. Fox."]),
  ("keyword_at", ("fox", 0, 1), [], ["Fox.", "So. Fox."]),
  ("keyword_at", ("fox", 1, 0), [], ["Fox.", "A fox.", "Fox fox."]),
  ("keyword_at", ("fox", 1, -1), [], ["Fox a.", "A fox b.", "Fox fox."]),
  (
    "second_words",
    ("Fox",),
    ["a fox b", "a fox b c fox d"],
    ["fox fox", "a fox b cat c", "a cat b fox c", "fox a b fox", "fox"],
  ),
  ("start_end", (), ["So so", "so it is so"], ["so", "so so is", "it so so"]),
  ("first_word_answer", ("So",), ["so it is"], ["it so", "!"]),
  ("first_word_sentences", ("So",), ["So it. So we."], ["So. We.", "We. So."]),
  ("last_word_answer", ("So",), ["be it so"], ["so be it", "!"]),
  ("last_word_sentences", ("So",), ["Be so. So."], ["So. We.", "We. So."]),
  ("letter_count", (2, "at least"), ["a1b", "abc"], ["a12"]),
  ("letter_count", (2, "more than"), ["abc"], ["ab 3"]),
  ("lowercase_words", (1,), ["one TWO", "ONE Two"], ["one two"]),
  ("two_paragraphs", (), ["a\nb\n \nc"], ["a\nb", "a\n\nb\n\nc\n\nd"]),
  ("span", ("a b c d", 0, 1), ["a  b"], ["a", "a b c", "b c"]),
  ("span", ("a b c d", 2, 3), ["c\nd"], ["c", "d"]),
  ("copied", ("Say it. ",), [" say IT."], ["say it", "say it. say it."]),
  (
    "title_case",
    (),
    ["A Red Fox", "3rd Fox", "Iv Ab"],
    ["A red Fox", "AB", "3rd 4th", "A rEd", "aB"],
  ),
  ("no_whitespace", (), ["\na-b\n"], ["a b", "a\tb", " a", "a\nb"]),
  (
    "bigrams_wrapped",
    (),
    ["<<I am>>", "<<I am>> <<at home>>\n"],
    ["<<I am>> <<home>>", "<<a b c d>>", "<<a>>", "<<a b>> c", "a b"],
  ),
  ("square_brackets", (), ["[I]", "[I] [am.]"], ["I [am]", "[]", "[[I]]"]),
  (
    "hyphened_sentences",
    (),
    ["It is.-So?", "A.-B!-C?"],
    ["It is.", "It is.-So? No.", "It is. No.-So?", "A.- B.", "A.-"],
  ),
  ("word_lengths", (2, 3), ["ab abc"], ["ab a", "ab abcd", "a", "abcd"]),
  ("alternating_case", (), ["aB", "1A-b C"], ["A", "aBC", "abA", "1"]),
  ("acrostic", ("Sun",), ["so\n-\nUp now\nno"], ["so\nup", "so\nno\nup"]),
]
IDS = [f"{case[0]}-{index}" for index, case in enumerate(CASES)]


@pytest.mark.parametrize(("name", "arguments", "yes", "no"), CASES, ids=IDS)
def test_texts_at_a_limit_and_just_beyond_it(name, arguments, yes, no):
  checker = getattr(ifbench, name)
  assert [text for text in yes if checker(text, *arguments) is not True] == []
  assert [text for text in no if checker(text, *arguments) is not False] == []


def test_every_letter_of_the_alphabet_starts_a_sentence():
  letters = "abcdefghijklmnopqrstuvwxyz"
  sentences = [f"{letter.upper()}ny x." for letter in letters]
  assert ifbench.sentence_alphabet(" ".join(sentences))
  assert not ifbench.sentence_alphabet(" ".join(sentences[:-1]))
  assert not ifbench.sentence_alphabet(" ".join([*sentences, "Any x."]))
