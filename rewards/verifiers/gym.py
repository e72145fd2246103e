"""Puzzles of reasoning-gym, judged by the scorers of the library.

A dataset of the library generates entries (dictionaries with "question" and
"answer") from a seed, and its scorer is the method `score_answer(answer, entry)
-> score in [0, 1]`. The answer of a completion is the content of its last
`<answer>...</answer>`; without these tags, the text after the last `####`. The
verdict is 1 if the score is 1, else 0. Most scorers return a small score for an
answer of the right form or an answer that contains the reference. An answer for
which a scorer raises an error has score 0.

`ALLOWED` lists 77 of the 106 datasets of version 0.1.25. They have these
properties: entry i depends on the number `seed + i` alone, in every process;
the scorer returns 1 for the entry's answer, also for a copy of the entry and in
a new process; it returns less than 1 for an empty answer, a copy of the
question, a list of all numbers and a text without an answer. These datasets are
left out:

* The scorer runs the answer as Python (`eval`, `parse_expr` of sympy), and a
  policy could run any code: binary_matrix, countdown, intermediate_integration,
  n_queens, polynomial_multiplication, puzzle24, simple_integration,
  spiral_matrix, string_insertion.
* The scorer returns 1 for wrong answers: coin_flip (for 0; it does not return
  for 1e999999999), complex_arithmetic (for nan), game_of_life_halting (for any
  word but the wrong one), gsm_symbolic (for a number with the wrong sign),
  polynomial_equations (for any text if there is no root), spell_backward (for
  the answer and further text; the score can exceed 1).
* The entries depend on the order of sets, which differs between processes:
  codeio, isomorphic_strings, knight_swap, list_functions, ransom_note,
  word_ladder.
* The entries depend on more than the seed and the index: acre.
* The entries have no answer to compare with: boxnet, graph_color,
  propositional_logic, rubiks_cube, rush_hour.
* bf, whose answers are dots, and composite, which consists of other datasets.

Usage:
  verify = Pool(Scorer("chain_sum"))
  item = Item(entry["question"], text, entry["answer"], {"entry": entry})

Source: Stojanovski et al. 2025, "REASONING GYM: Reasoning Environments for
Reinforcement Learning with Verifiable Rewards".
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from typing import Any

from rewards.verifiers import (
  Item,
  Outcome,
  answer_id,
  numbers,
  round_ends,
  unscored,
)
from rl import UsageError, registry

# Datasets that training may use; the top of the file has the conditions.
ALLOWED = tuple(
  [
    "ab",
    "advanced_geometry",
    "aiw",
    "arc_1d",
    "arc_agi",
    "base_conversion",
    "basic_arithmetic",
    "binary_alternation",
    "bitwise_arithmetic",
    "caesar_cipher",
    "calendar_arithmetic",
    "chain_sum",
    "circuit_logic",
    "color_cube_rotation",
    "count_bits",
    "count_primes",
    "course_schedule",
    "cryptarithm",
    "decimal_arithmetic",
    "decimal_chain_sum",
    "dice",
    "emoji_mystery",
    "family_relationships",
    "figlet_font",
    "fraction_simplification",
    "futoshiki",
    "game_of_life",
    "gcd",
    "group_anagrams",
    "jugs",
    "kakurasu",
    "knights_knaves",
    "largest_island",
    "lcm",
    "leg_counting",
    "letter_counting",
    "letter_jumble",
    "mahjong_puzzle",
    "manipulate_matrix",
    "maze",
    "mini_sudoku",
    "modulo_grid",
    "needle_haystack",
    "number_filtering",
    "number_format",
    "number_sequence",
    "number_sorting",
    "palindrome_generation",
    "palindrome_partitioning",
    "path_star",
    "pool_matrix",
    "power_function",
    "prime_factorization",
    "products",
    "quantum_lock",
    "rearc",
    "rectangle_count",
    "rotate_matrix",
    "rotten_oranges",
    "self_reference",
    "sentence_reordering",
    "shortest_path",
    "simple_equations",
    "simple_geometry",
    "sokoban",
    "string_manipulation",
    "string_splitting",
    "string_synthesis",
    "sudoku",
    "survo",
    "syllogism",
    "time_intervals",
    "tower_of_hanoi",
    "tsumego",
    "word_sequence_reversal",
    "word_sorting",
    "zebra_puzzles",
  ]
)


def make(
  dataset: str, seed: int, size: int, options: Mapping[str, Any] | None = None
) -> Any:
  """Returns a dataset of the library.

  Args:
    dataset: a name in `ALLOWED`.
    seed: entry i is generated from `seed + i`.
    size: number of entries.
    options: settings of the dataset, such as `{"min_terms": 2}`; None for the
      defaults of the library.

  Raises:
    UsageError: the library is missing, the dataset is not in `ALLOWED`, or it
      rejects the options.
  """
  try:
    import reasoning_gym  # an extra, and slow to import
  except ImportError as error:
    raise UsageError(
      f"reasoning-gym cannot be imported ({error}); install it with "
      "`pip install 'extremum[gym]'`"
    ) from None
  registry.check_known("dataset", dataset, ALLOWED)
  options = dict(options or {})
  try:
    return reasoning_gym.create_dataset(
      dataset, **options, seed=seed, size=size
    )
  except (AssertionError, TypeError, ValueError) as error:
    message = " ".join(str(error).split())
    raise UsageError(
      f"{dataset} refuses options={options}: {message}"
    ) from None


def extract(completion: str) -> str:
  """Returns the answer of a completion, stripped; "" if there is none."""
  body, end_tag, _ = completion.rpartition("</answer>")
  _, start_tag, content = body.rpartition("<answer>")
  if end_tag and start_tag:
    return content.strip()
  _, mark, after_mark = completion.rpartition(numbers.MARK)
  return after_mark.strip() if mark else ""


class Scorer:
  """A verifier for the entries of one dataset, `Item.meta["entry"]`.

  It imports the library at the first call. Use it in a `pool.Pool`, which kills
  a process that takes too long: some scorers do not return for a huge number.
  """

  def __init__(self, dataset: str, options: Mapping[str, Any] | None = None):
    """Creates the scorer without importing the library.

    Args:
      dataset: a name in `ALLOWED`.
      options: settings of the dataset, same as in `make`.
    """
    self._arguments = (dataset, dict(options or {}))
    self._library: Any = None

  def __reduce__(self) -> tuple:
    return Scorer, self._arguments

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    """Scores each completion's answer.

    Args:
      items: completions whose `meta["entry"]` is an entry of the dataset.

    Returns:
      Outcomes in order. The verdict is 1 if the score is 1, else 0, also for a
      completion without an answer, and -1 for an item without an entry.
    """
    if self._library is None:
      dataset, options = self._arguments
      self._library = make(dataset, 0, 1, options)
    return [self._judge(item) for item in items]

  def _judge(self, item: Item) -> Outcome:
    if "entry" not in item.meta:
      return unscored("meta needs an 'entry', the puzzle of the dataset")
    answer = extract(str(item.completion))
    if not answer:
      return Outcome(0.0, 0, "", -1)
    try:
      # NumPy warns about answers that it cannot parse.
      with warnings.catch_warnings(action="ignore"):
        score = float(self._library.score_answer(answer, item.meta["entry"]))
    except Exception:  # a scorer may raise any error
      score = 0.0
    score = 0.0 if math.isnan(score) else min(max(round_ends(score), 0.0), 1.0)
    identity = answer_id(" ".join(answer.split()))
    return Outcome(score, int(score == 1), answer, identity)
