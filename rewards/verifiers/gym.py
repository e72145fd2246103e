"""Puzzles of reasoning-gym, judged by the scorers of the library.

The answer is the content of the last `<answer>...</answer>` after the thoughts
of a completion, or else the text after the last `####`. The score is that of
the scorer, and the verdict is 1 for the full score. Most scorers pay a little
for an answer of the right form or one that contains the reference. An answer
for which a scorer raises is wrong.

`ALLOWED` holds 77 of the 106 datasets of version 0.1.25. For each of them,
entry i depends on the seed `seed + i` alone, in every process; the scorer gives
the entry's answer the full score, also after a copy and in a new process; and
it does not give the full score to an empty answer, an echo, a list of all
numbers or a text without an answer. Left out are

* those whose scorer runs the answer as Python (`eval`, `parse_expr` of sympy),
  which would let a policy run any code: binary_matrix, countdown,
  intermediate_integration, n_queens, polynomial_multiplication, puzzle24,
  simple_integration, spiral_matrix, string_insertion;
* those that give wrong answers the full score: coin_flip (0, and it hangs on
  1e999999999), complex_arithmetic (nan), game_of_life_halting (anything but the
  other word), gsm_symbolic (the sign does not count), polynomial_equations (any
  text if there is no root), spell_backward (text after the answer does not
  count; the score can exceed 1);
* those whose entries depend on the process, by the order of sets: codeio,
  isomorphic_strings, knight_swap, list_functions, ransom_note, word_ladder; or
  not on the seed and the index alone: acre;
* those without an answer to compare with: boxnet, graph_color,
  propositional_logic, rubiks_cube, rush_hour; bf, which prints dots; composite,
  which is made of others.

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

from rewards.verifiers import Item, Outcome, answer_id, numbers, unscored
from rl import choices

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
  """Returns a dataset of the library; entry i has the seed `seed + i`.

  Raises:
    ValueError: the library is missing, the dataset is not in `ALLOWED`, or the
      dataset does not have the options.
  """
  try:
    import reasoning_gym  # an extra, and slow to import
  except ImportError as error:
    raise ValueError(
      f"reasoning-gym cannot be imported ({error}); install it with "
      "`pip install 'extremum[gym]'`"
    ) from None
  if dataset not in ALLOWED:
    raise ValueError(choices.unknown("dataset", dataset, ALLOWED))
  options = dict(options or {})
  try:
    return reasoning_gym.create_dataset(
      dataset, **options, seed=seed, size=size
    )
  except (AssertionError, TypeError, ValueError) as error:
    message = " ".join(str(error).split())
    raise ValueError(
      f"{dataset} refuses options={options}: {message}"
    ) from None


def extract(completion: str) -> str:
  """The answer of a text, stripped; empty if there is none."""
  completion = numbers.after_thoughts(completion)
  body, closed, _ = completion.rpartition("</answer>")
  _, opened, inside = body.rpartition("<answer>")
  if closed and opened:
    return inside.strip()
  _, mark, rest = completion.rpartition(numbers.MARK)
  return rest.strip() if mark else ""


class Scorer:
  """A verifier for the entries of one dataset, `Item.meta["entry"]`.

  It imports the library at the first call. Use it in a pool: the scorers come
  from many authors, and some do not end for a huge number.
  """

  def __init__(self, dataset: str, options: Mapping[str, Any] | None = None):
    """Creates the scorer without importing the library.

    Args:
      dataset: a name in `ALLOWED`.
      options: settings of the dataset.
    """
    self._arguments = (dataset, dict(options or {}))
    self._library: Any = None

  def __reduce__(self) -> tuple:
    return Scorer, self._arguments

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    """Returns outcomes in order; an item without an entry has verdict -1."""
    if self._library is None:
      dataset, options = self._arguments
      self._library = make(dataset, 0, 1, options)
    return [self._judge(item) for item in items]

  def _judge(self, item: Item) -> Outcome:
    if "entry" not in item.meta:
      return unscored("meta has no 'entry'")
    answer = extract(str(item.completion))
    if not answer:
      return Outcome(0.0, 0, "", -1)
    try:
      with warnings.catch_warnings(action="ignore"):  # numpy's, about a text
        score = float(self._library.score_answer(answer, item.meta["entry"]))
    except Exception:  # a scorer may raise anything for an answer
      score = 0.0
    score = 0.0 if math.isnan(score) else min(max(score, 0.0), 1.0)
    identity = answer_id(" ".join(answer.split()))
    return Outcome(score, int(score == 1), answer, identity)
