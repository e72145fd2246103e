"""Tests of `rewards.tasks.countdown`."""

import math
import operator

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from experiments import tasks
from rewards.tasks import closeness, countdown

countdown = compiled.functions(countdown)

SYMBOLS = {"+": operator.add, "-": operator.sub, "*": operator.mul}


def countdown_in_python(text, numbers):
  """The value of a legal line of text, else None."""
  words = text.split()
  if len(words) != 2 * len(numbers) or words.pop() != "<eos>":
    return None
  if any(word not in SYMBOLS for word in words[1::2]):
    return None
  if not all(word.isdigit() for word in words[0::2]):
    return None
  if sorted(map(int, words[0::2])) != sorted(numbers):
    return None
  value = int(words[0])
  for symbol, number in zip(words[1::2], words[2::2], strict=True):
    value = SYMBOLS[symbol](value, int(number))
  return value


@pytest.fixture(scope="module")
def expressions():
  """Random lines over 2, 5, 5: orders and operators, one in three spoilt."""
  rng = np.random.default_rng(0)
  numbers, rows, lengths = [2, 5, 5], [], []
  for i in range(600):
    row = rng.permutation(numbers) + countdown.NUMBER
    row = np.stack([row, rng.integers(countdown.PLUS, countdown.TIMES + 1, 3)])
    row = np.append(row.T.reshape(-1), rng.integers(2, 9, 2))
    row[5] = countdown.EOS
    length = 6
    if i % 3 == 0:
      row[rng.integers(0, 6)] = rng.integers(1, countdown.DIGIT)
      length = rng.integers(5, 8)
    rows.append(row)
    lengths.append(length)
  completions, lengths = np.array(rows, np.int32), np.array(lengths, np.int32)
  values, legal = jax.jit(countdown.expression_value)(
    completions, lengths, jnp.array([5, 2, 5])
  )
  return completions, lengths, np.asarray(values), np.asarray(legal)


def test_countdown_agrees_with_a_reader_of_text(expressions):
  decode = tasks.get("countdown").decode
  judged = 0
  for row, length, value, legal in zip(*expressions, strict=True):
    expected = countdown_in_python(decode(row[:length]), [2, 5, 5])
    assert legal == (expected is not None)
    assert value == (expected or 0)
    judged += legal
  assert 300 < judged < 600  # both kinds were there


def test_no_precedence():
  value = countdown.left_to_right(jnp.array([2, 3, 4]), jnp.array([0, 2]))
  assert value == (2 + 3) * 4


def test_the_tokens_are_six_symbols_nine_numbers_and_ten_digits():
  assert countdown.NUMBER + 1 == 6
  assert countdown.DIGIT == 6 + 9
  assert countdown.VOCAB_SIZE == 6 + 9 + 10


def test_values_of_two_prompts():
  """2 + 3 * 1 and 1 - 2 * 3; 5 * 5 - 2, and 5 - 5 + 5, which is illegal."""
  completions = jnp.array(
    [
      [[7, 3, 8, 5, 6, 1, 1], [6, 4, 7, 5, 8, 1, 9]],
      [[10, 5, 10, 4, 7, 1, 0], [10, 4, 10, 3, 10, 1, 3]],
    ]
  )
  numbers = jnp.array([[[3, 1, 2]], [[2, 5, 5]]])
  values, legal = countdown.expression_value(
    completions, jnp.full((2, 2), 6), numbers
  )
  np.testing.assert_array_equal(values, [[5, -3], [23, 0]])
  np.testing.assert_array_equal(legal, [[True, True], [True, False]])


@pytest.mark.parametrize(
  ("tokens", "length"),
  [
    ([7, 3, 10, 4, 10, 2], 6),  # without EOS
    ([7, 3, 10, 4, 10, 1], 5),  # EOS lies after the end
    ([7, 3, 10, 4, 10, 1], 7),
    ([7, 2, 10, 4, 10, 1], 6),  # = in place of an operator
    ([7, 3, 10, 6, 10, 1], 6),  # a number in place of an operator
    ([7, 3, 10, 4, 9, 1], 6),  # another number than 5
  ],
)
def test_an_illegal_expression_has_the_value_0(tokens, length):
  value, legal = countdown.expression_value(
    jnp.array(tokens), jnp.array(length), jnp.array([2, 5, 5])
  )
  assert not legal
  assert value == 0


def test_an_expression_in_too_little_room_is_illegal():
  numbers = jnp.array([2, 5, 5])
  full = jnp.array([7, 3, 10, 4, 10, 1])  # 2 + 5 - 5 EOS
  capacity = {6: True, 5: False, 4: False}
  for size, expected in capacity.items():
    _, legal = countdown.expression_value(full[:size], jnp.array(size), numbers)
    assert legal == expected


def test_closeness_and_countdown_agree_on_what_is_correct(expressions):
  _, _, values, legal = expressions
  target = np.int32(np.median(values[legal]))
  graded = closeness.closeness(values, legal, target)
  exact = countdown.exact_hit(values, legal, target)
  assert 0 < exact.sum() < legal.sum()
  np.testing.assert_array_equal(graded == 1.0, exact == 1.0)
  np.testing.assert_array_equal(graded > 0.0, legal)


@pytest.fixture(scope="module")
def problems():
  return tasks.get("countdown", count=4).train(jax.random.key(1), 0, 4096)


def test_draws_are_sorted_reachable_and_split_by_their_numbers(problems):
  task = tasks.get("countdown", count=4)
  for sampled, held_out in (
    (problems, False),
    (task.test(256), True),
  ):
    numbers = np.asarray(sampled.facts["numbers"])
    assert (np.diff(numbers) >= 0).all()
    assert numbers.min() == 1
    assert numbers.max() == 9
    rule = (numbers.sum(1) + 3 * (numbers**2).sum(1)) % 7 == 0
    np.testing.assert_array_equal(rule, held_out)
    target = np.asarray(sampled.facts["target"])
    assert target.min() >= 1
    assert target.max() <= 99


def test_a_tenth_of_the_operators_is_drawn_anew(problems):
  task = tasks.get("countdown", count=4)
  gold, _ = task.gold(problems)
  shown, lengths = task.demonstrate(jax.random.key(3), problems)
  _, legal = countdown.expression_value(
    shown, lengths, problems.facts["numbers"]
  )
  assert legal.all()
  np.testing.assert_array_equal(shown[:, ::2], gold[:, ::2])
  # Kept targets favour some operators, so the rate of a change is taken per
  # operator: drawn anew with .1, and then another one.
  kinds, counts = np.unique(np.asarray(gold)[:, 1:-1:2], return_counts=True)
  rates = dict(zip((3, 4, 5), (0.5, 0.3, 0.2), strict=True))
  for kind, count in zip(kinds.tolist(), counts, strict=True):
    here = np.asarray(gold) == kind
    rate = 0.1 * (1 - rates[kind])
    changed = (np.asarray(shown) != gold)[here].mean()
    assert abs(changed - rate) < 4 * math.sqrt(rate * (1 - rate) / count)
