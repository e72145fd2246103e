r"""Numbered lists in which every item obeys a rule, generated from templates.

  Write a numbered list of four animals. Write every item in capital letters.

A completion is right if it has the number of items that the prompt demands,
numbered from 1; each item obeys the rule, and no two are equal
(`rewards.verifiers.numbered_list`). Whether the items are animals is not
checked. The task reads no files.

With `steps=True` (`TextOptions.steps`) each line is a step: an item that obeys
the rule scores 1, a blank line 0, and any other line -1. The last line scores 1
if the list is right, and else -1. The score of a line does not depend on the
number of items that the prompt demands, so under a sum of the scores longer
lists get a higher return.

Held-out problems have subjects that no train problem has.

Usage:
  python -m experiments.evaluate --policy FOLDER --task numbered_lists
"""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping, Sequence

from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.short_texts import Rule, number_of_words
from experiments.tasks.text.text_options import Example, TextOptions
from rewards.verifiers import numbered_list
from rl import UsageError, registry

# Every fifth subject is held out.
SUBJECTS = (
  *("animals", "fruits", "colors", "countries", "sports"),
  *("vegetables", "birds", "trees", "cities", "drinks"),
  *("tools", "flowers", "jobs", "hobbies", "rooms of a house"),
  *("things in a kitchen", "things in a school", "musical instruments"),
  *("kinds of weather", "kinds of bread"),
  *("things that are round", "things that are cold", "things that fly"),
  *("parts of a car", "parts of a tree"),
  *("kinds of fish", "kinds of clothes", "toys", "games", "insects"),
  *("oceans and seas", "planets", "metals", "shapes", "herbs"),
  *("things made of wood", "things at a beach", "things in a garden"),
  *("ways to travel", "things to read"),
  *("desserts", "pets", "farm animals", "school subjects", "languages"),
)
NUMBERS = ("three", "four", "five")  # of items; the first is 3
# Words from which solutions are made.
_ITEMS = ("wood", "stone", "water", "glass", "paper")


# `Rule.rewrite` returns an item for a word.
RULES: Mapping[str, Rule] = {
  "capitals": Rule(
    "Write every item in capital letters.",
    {"name": "change_case:english_capital"},
    str.upper,
  ),
  "one_word": Rule(
    "Every item is one word.",
    number_of_words("exactly", 1),
    lambda word: word,
  ),
  "at_most_three_words": Rule(
    "Every item has at most three words.",
    number_of_words("at most", 3),
    lambda word: f"some {word}",
  ),
  "at_least_five_words": Rule(
    "Every item has at least five words.",
    number_of_words("at least", 5),
    lambda word: f"all the {word} we need",
  ),
  "begins_with_my": Rule(
    'Begin every item with the word "My".',
    {"name": "first_word:first_word_answer", "first_word": "my"},
    lambda word: f"My {word}",
  ),
}


@text_options.with_text_options(
  prompt_length=96, completion_length=96, vocab_size=512
)
def numbered_lists(
  options: TextOptions,
  rules: Sequence[str] = tuple(RULES),
) -> Task:
  """Numbered lists of three to five items that obey a rule.

  Args:
    options: settings of all text tasks.
    rules: names in `RULES`; each problem has one of them.

  Raises:
    UsageError: if a rule is unknown, there is none, or `text_task.build`
      refuses the problems.
  """
  if not rules or len(set(rules)) < len(rules):
    raise UsageError(
      f"rules={tuple(rules)} must have one name or more, and no name twice"
    )
  for name in rules:
    registry.check_known("rule", name, RULES)
  shown_rules = len(rules) if len(rules) == len(RULES) else tuple(rules)
  held_out_subjects = SUBJECTS[4::5]
  train_subjects = [s for s in SUBJECTS if s not in held_out_subjects]
  return text_task.build(
    "numbered_lists",
    {
      "train": _examples(train_subjects, rules),
      "test": _examples(held_out_subjects, rules),
    },
    options,
    numbered_list.verify,
    score_line=_score_line,
    description=f"rules={shown_rules}",
  )


def _examples(subjects: Sequence[str], rules: Sequence[str]) -> list[Example]:
  """Returns a problem per subject, number of items and rule."""
  examples = []
  for subject, number, name in itertools.product(subjects, NUMBERS, rules):
    count = 3 + NUMBERS.index(number)
    rule = RULES[name]
    solution = "\n".join(
      f"{i}. {rule.rewrite(word)}"
      for i, word in enumerate(_ITEMS[:count], start=1)
    )
    examples.append(
      Example(
        f"Write a numbered list of {number} {subject}. {rule.request}",
        solution=solution,
        answer=solution,
        meta={"items": count, "constraint": dict(rule.constraint)},
      )
    )
  # The order of the problems is random, and the same in every run.
  random.Random(0).shuffle(examples)
  return examples


def _score_line(line: str, example: Example) -> float:
  """Scores a line by the constraint of the example's items."""
  return numbered_list.score_line(line, example.meta["constraint"])
