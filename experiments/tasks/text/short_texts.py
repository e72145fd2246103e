r"""Short texts that obey one to three rules, generated from templates.

  Write about rain. Use only lower case letters. Do not use any commas.

A problem is a topic and a combination of rules. Programs check the rules: they
are constraints of IFEval and IFBench (`rewards.verifiers.constraints`). The
score is the share of the problem's rules that a completion obeys, and a
completion is right if it obeys all of them. The score does not depend on the
topic: a text without meaning can be right. The task reads no files.

Every problem can be solved, because the task writes a solution: the rules of a
combination rewrite a sentence one after another. All orders are tried, and a
combination for which none gives a right text is left out, such as capital and
lower case letters.

Held-out problems have topics that no train problem has, and combinations of two
or three rules that no train problem has. Single rules are in both splits.

Usage:
  python -m experiments.evaluate --policy FOLDER \
    --task "short_texts(rules_at_once=(2,))"
"""

from __future__ import annotations

import dataclasses
import itertools
import random
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import constraints, text_units
from rl import UsageError, registry

# Every fifth topic is held out.
TOPICS = (
  *("rain", "bread", "the sea", "dogs", "trains"),
  *("school", "winter", "coffee", "music", "football"),
  *("birds", "trees", "mountains", "rivers", "the moon"),
  *("stars", "gardens", "bicycles", "books", "libraries"),
  *("markets", "soup", "apples", "cheese", "sleep"),
  *("dreams", "friends", "family", "birthdays", "holidays"),
  *("beaches", "snow", "wind", "fire", "lamps"),
  *("windows", "kitchens", "clocks", "letters", "paper"),
  *("paint", "dance", "theatre", "films", "museums"),
  *("castles", "bridges", "boats", "horses", "fish"),
  *("bees", "chess", "summer", "tea", "cats"),
  *("islands", "forests", "shoes", "villages", "maps"),
)
# Texts that `Rule.rewrite` turns into solutions.
_SENTENCES = (
  "I like it very much, and my sister does too.",
  "People talk about it.",
)


@dataclasses.dataclass(frozen=True)
class Rule:
  """A rule that a program checks.

  Attributes:
    request: sentence of the prompt.
    constraint: the constraint, in the form of `rewards.verifiers.constraints`.
    rewrite: function of a text that tries to return one that obeys the rule.
  """

  request: str
  constraint: Mapping[str, Any]
  rewrite: Callable[[str], str]


def number_of_words(relation: str, number: int) -> Mapping[str, Any]:
  """Returns the constraint of, for example, "at most" so many words."""
  name = "length_constraints:number_words"
  return {"name": name, "num_words": number, "relation": relation}


def _sentences(number: int) -> Mapping[str, Any]:
  """Returns the constraint of exactly so many sentences."""
  name = "length_constraints:number_sentences"
  return {"name": name, "num_sentences": number, "relation": "exactly"}


def _first_sentences(count: int) -> Callable[[str], str]:
  """Returns a function that cuts or repeats a text to `count` sentences."""

  def rewrite(text: str) -> str:
    pieces = itertools.cycle(text_units.sentences(text))
    return " ".join(itertools.islice(pieces, count))

  return rewrite


def _repeat_to(count: int) -> Callable[[str], str]:
  """Returns a function that repeats a text to at least `count` words."""
  return lambda text: " ".join(
    [text] * -(-count // max(1, len(text_units.words(text))))
  )


def _as_bullets(text: str) -> str:
  """Returns three lines with bullets."""
  pieces = itertools.cycle(text_units.sentences(text))
  return "\n".join(f"* {next(pieces)}" for _ in range(3))


def _append(ending: str) -> Callable[[str], str]:
  """Returns a function that adds words to the end of the last sentence."""
  return lambda text: f"{text.rstrip('.')} {ending}."


def _in_bold(text: str) -> str:
  """Puts the first and the last word into bold type."""
  first, *others = text.split()
  return f"**{first}** {' '.join(others[:-1])} **{others[-1]}**"


RULES: Mapping[str, Rule] = {
  "lower_case": Rule(
    "Use only lower case letters.",
    {"name": "change_case:english_lowercase"},
    str.lower,
  ),
  "capitals": Rule(
    "Use only capital letters.",
    {"name": "change_case:english_capital"},
    str.upper,
  ),
  "no_comma": Rule(
    "Do not use any commas.",
    {"name": "punctuation:no_comma"},
    lambda text: text.replace(",", ""),
  ),
  "no_full_stop": Rule(
    "Do not use any full stops.",
    {"name": "punctuation:punctuation_dot"},
    lambda text: text.replace(".", ""),
  ),
  "without_the": Rule(
    'Do not use the word "the".',
    {"name": "keywords:forbidden_words", "forbidden_words": ["the"]},
    lambda text: re.sub(r"\bthe\b", "a", text, flags=re.I),
  ),
  "without_and": Rule(
    'Do not use the word "and".',
    {"name": "keywords:forbidden_words", "forbidden_words": ["and"]},
    lambda text: re.sub(r"\band\b", "or", text, flags=re.I),
  ),
  "one_sentence": Rule(
    "Write exactly one sentence.",
    _sentences(1),
    _first_sentences(1),
  ),
  "two_sentences": Rule(
    "Write exactly two sentences.",
    _sentences(2),
    _first_sentences(2),
  ),
  "three_sentences": Rule(
    "Write exactly three sentences.",
    _sentences(3),
    _first_sentences(3),
  ),
  "at_most_15_words": Rule(
    "Use at most 15 words.",
    number_of_words("at most", 15),
    _first_sentences(1),
  ),
  "at_most_25_words": Rule(
    "Use at most 25 words.",
    number_of_words("at most", 25),
    _first_sentences(1),
  ),
  "20_to_30_words": Rule(
    "Use 20 to 30 words.",
    {"name": "count:word_count_range", "min_words": 20, "max_words": 30},
    _repeat_to(20),
  ),
  "ending": Rule(
    'End with the words "That is all."',
    # Case does not count, so that the text may be in lower case.
    {"name": "startend:end_checker", "end_phrase": "That is all."},
    lambda text: f"{text} That is all.",
  ),
  "beginning": Rule(
    'Begin with the word "Honestly".',
    {"name": "first_word:first_word_answer", "first_word": "honestly"},
    lambda text: f"Honestly, {text}",
  ),
  "quotes": Rule(
    "Put your whole answer in double quotation marks.",
    {"name": "startend:quotation"},
    lambda text: f'"{text}"',
  ),
  "three_bullets": Rule(
    "Write exactly three bullet points, each on a line that begins with *.",
    {"name": "detectable_format:number_bullet_lists", "num_bullets": 3},
    _as_bullets,
  ),
  "word_water": Rule(
    'Use the word "water".',
    {"name": "keywords:existence", "keywords": ["water"]},
    _append("with water"),
  ),
  "word_often_twice": Rule(
    'Use the word "often" exactly twice.',
    {
      "name": "keywords:frequency",
      "keyword": "often",
      "frequency": 2,
      "relation": "exactly",
    },
    _append("often, often"),
  ),
  "title": Rule(
    "Give it a title in double angle brackets, such as <<title>>.",
    {"name": "detectable_format:title"},
    lambda text: f"<<Notes>>\n{text}",
  ),
  "postscript": Rule(
    "Add a postscript that begins with P.S.",
    {"name": "detectable_content:postscript", "postscript_marker": "P.S."},
    lambda text: f"{text}\nP.S. Write soon.",
  ),
  "bold": Rule(
    "Put at least two words in bold type, such as **word**.",
    {
      "name": "detectable_format:number_highlighted_sections",
      "num_highlights": 2,
    },
    _in_bold,
  ),
  "three_numbers": Rule(
    "Use exactly three numbers, written in digits.",
    {"name": "count:numbers", "N": 3},
    _append("1 2 3"),
  ),
  "title_case": Rule(
    "Begin every word with a capital letter.",
    {"name": "format:title_case"},
    lambda text: text.title(),
  ),
  "same_first_and_last_word": Rule(
    "Begin and end with the same word.",
    {"name": "keywords:start_end"},
    lambda text: f"{text} {text_units.words(text)[0]}.",
  ),
}


@text_options.with_text_options(
  prompt_length=96, completion_length=64, vocab_size=512
)
def short_texts(
  options: TextOptions,
  rules: Sequence[str] = tuple(RULES),
  rules_at_once: Sequence[int] = (1, 2),
  problems: int = 2000,
  held_out: int = 256,
) -> Task:
  """Texts about a topic that obey rules.

  Args:
    options: settings of all text tasks.
    rules: names in `RULES` of the rules that problems have.
    rules_at_once: numbers of rules in a problem, each from 1 to 3. Every number
      has equally many problems in a split, as far as there are enough.
    problems: largest number of train problems.
    held_out: largest number of held-out problems.

  Raises:
    UsageError: if a rule is unknown, a number is out of range, no combination
      is left to train on, or `text_task.build` refuses the problems.
  """
  for name, values in (("rules", rules), ("rules_at_once", rules_at_once)):
    if not values or len(set(values)) < len(values):
      raise UsageError(
        f"{name}={tuple(values)} must have one value or more, and no value "
        "twice"
      )
  for name in rules:
    registry.check_known("rule", name, RULES)
  for count in rules_at_once:
    if count not in (1, 2, 3):
      raise UsageError(f"rules_at_once has {count}; allowed: 1, 2 and 3")
  for name, number in (("problems", problems), ("held_out", held_out)):
    if number < 1:
      raise UsageError(f"{name}={number} must be at least 1")

  held_out_topics = TOPICS[4::5]
  train_topics = [topic for topic in TOPICS if topic not in held_out_topics]
  train, test = [], []  # a list of examples for each number of rules
  for count in rules_at_once:
    solutions = _solutions(rules, count)
    combinations = list(solutions)
    if count == 1:
      train_combinations = test_combinations = combinations
    else:
      test_combinations = combinations[::4]  # every fourth is held out
      train_combinations = [
        names for names in combinations if names not in test_combinations
      ]
    if not train_combinations:
      raise UsageError(
        f"rules={tuple(rules)} have {len(combinations)} combinations of "
        f"{count} that can be obeyed together, of which every fourth is held "
        "out, so that none is left to train on; name more rules"
      )
    train.append(_examples(train_topics, train_combinations, solutions))
    test.append(_examples(held_out_topics, test_combinations, solutions))
  shown_rules = len(rules) if len(rules) == len(RULES) else tuple(rules)
  return text_task.build(
    "short_texts",
    {
      "train": _interleave(train, problems),
      "test": _interleave(test, held_out),
    },
    options,
    constraints.verify,
    parts=("strict", "loose", "all_loose"),
    description=f"rules={shown_rules}, rules_at_once={tuple(rules_at_once)}",
  )


def _solutions(rules: Sequence[str], count: int) -> dict[tuple[str, ...], str]:
  """Returns a solution for each combination that has one."""
  solutions = {}
  for names in itertools.combinations(rules, count):
    text = _solve([RULES[name] for name in names])
    if text:
      solutions[names] = text
  return solutions


def _solve(rules: Sequence[Rule]) -> str:
  """Returns a text that obeys all rules, or "" if none is found."""
  starts = (*_SENTENCES, " ".join(_SENTENCES))
  for order in itertools.permutations(rules):
    for text in starts:
      for rule in order:
        text = rule.rewrite(text)
      if all(constraints.obeys(text, rule.constraint) for rule in rules):
        return text
  return ""


def _examples(
  topics: Sequence[str],
  combinations: Sequence[tuple[str, ...]],
  solutions: Mapping[tuple[str, ...], str],
) -> list[Example]:
  """Returns a problem per topic and combination, in a fixed random order."""
  examples = []
  for topic, names in itertools.product(topics, combinations):
    chosen = [RULES[name] for name in names]
    requests = " ".join(rule.request for rule in chosen)
    solution = solutions[names]
    examples.append(
      Example(
        f"Write about {topic}. {requests}",
        solution=solution,
        answer=solution,
        meta={"constraints": [dict(rule.constraint) for rule in chosen]},
      )
    )
  random.Random(0).shuffle(examples)
  return examples


def _interleave(
  groups: Sequence[Sequence[Example]], limit: int
) -> list[Example]:
  """Returns an example of each group in turn, at most `limit` in all."""
  rounds = itertools.zip_longest(*groups)
  # A group without further examples is passed over.
  examples = (example for turn in rounds for example in turn if example)
  return list(itertools.islice(examples, limit))
