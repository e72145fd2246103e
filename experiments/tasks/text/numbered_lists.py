r"""Numbered lists in which every item obeys a rule, generated from templates.

  Write a numbered list of four animals. Write every item in capital letters.

A completion is right if it has as many items as the prompt demands, numbered
from 1 on, each of which obeys the rule, and no two of which are equal
(`rewards.verifiers.numbered_list`). Whether the items are animals is not
checked. The task reads no files.

With `steps=True` each line is a step: an item that obeys the rule scores 1, a
blank line 0, and any other line -1. The last line scores 1 if the list is
right, and else -1. A program that scores single lines does not see how many
items the prompt demands, so a method that sums the scores of steps is paid for
longer lists.

Held-out problems have subjects that no train problem has.

Usage:
  python -m experiments.evaluate --policy FOLDER --task numbered_lists
"""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from experiments.tasks.task import Task
from experiments.tasks.text import text_task
from experiments.tasks.text.text_task import Example, TextOptions
from rewards.verifiers import numbered_list
from rl import registry

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
NUMBERS = ("three", "four", "five")  # of items, from 3 on
# Items that the rules rewrite to solutions.
_ITEMS = ("wood", "stone", "water", "glass", "paper")


@dataclasses.dataclass(frozen=True)
class Rule:
  """A rule for every item of a list.

  Attributes:
    request: sentence of the prompt.
    constraint: the constraint, in the form of `rewards.verifiers.constraints`.
    rewrite: changes one word to an item that obeys the rule.
  """

  request: str
  constraint: Mapping[str, Any]
  rewrite: Callable[[str], str]


RULES: Mapping[str, Rule] = {
  "capitals": Rule(
    "Write every item in capital letters.",
    {"name": "change_case:english_capital"},
    str.upper,
  ),
  "one_word": Rule(
    "Every item is one word.",
    {
      "name": "length_constraints:number_words",
      "num_words": 1,
      "relation": "exactly",
    },
    str,
  ),
  "at_most_three_words": Rule(
    "Every item has at most three words.",
    {
      "name": "length_constraints:number_words",
      "num_words": 3,
      "relation": "at most",
    },
    lambda word: f"some {word}",
  ),
  "at_least_five_words": Rule(
    "Every item has at least five words.",
    {
      "name": "length_constraints:number_words",
      "num_words": 5,
      "relation": "at least",
    },
    lambda word: f"all the {word} we need",
  ),
  "begins_with_my": Rule(
    'Begin every item with the word "My".',
    {"name": "first_word:first_word_answer", "first_word": "my"},
    lambda word: f"My {word}",
  ),
}


@text_task.with_text_options(
  prompt_length=96, completion_length=96, vocab_size=512
)
def numbered_lists(
  options: TextOptions,
  rules: Sequence[str] = tuple(RULES),
) -> Task:
  """Numbered lists of three to five items that obey a rule.

  Args:
    options: settings of all text tasks.
    rules: names in `RULES`.

  Raises:
    ValueError: if a rule is unknown, or `text_task.build` refuses the problems.
  """
  for name in rules:
    if name not in RULES:
      raise ValueError(registry.describe_unknown("rule", name, RULES))
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
    description=f"rules={len(rules)}",
  )


def _examples(subjects: Sequence[str], rules: Sequence[str]) -> list[Example]:
  """Returns a problem for each subject, number of items and rule."""
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
  random.Random(0).shuffle(examples)  # the same order in every run
  return examples


def _score_line(line: str, example: Example) -> float:
  return numbered_list.score_line(line, example.meta["constraint"])
