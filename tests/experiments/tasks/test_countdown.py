"""Countdown by hand: which problems are drawn, their texts and their scores."""

import functools
import itertools
import operator

import jax
import numpy as np
import pytest
from helpers import compiled

from experiments import tasks
from experiments.tasks import countdown as module
from experiments.tasks.task import Problems
from rewards.tasks import countdown as rules

fast = compiled.functions(module)
OPERATORS = (operator.add, operator.sub, operator.mul)


def value_of(numbers, operators):
  """Returns the value of an expression from left to right."""
  pairs = zip(operators, numbers[1:], strict=True)
  return functools.reduce(
    lambda v, p: OPERATORS[p[0]](v, p[1]), pairs, numbers[0]
  )


def is_held_out(numbers):
  return (sum(numbers) + 3 * sum(n * n for n in numbers)) % 7 == 0


@functools.partial(jax.jit, static_argnums=2)
def uniform(key, attempts, count):
  """Returns the random numbers of some attempts to draw a problem."""
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, attempts)
  return jax.vmap(lambda key: jax.random.uniform(key, (2 * count - 1,)))(keys)


def draw(key, count, is_test):
  """Returns the first expression of a sequence that is in the split."""
  for row in np.asarray(uniform(key, np.arange(100), count)):
    numbers = [1 + int(np.float32(9) * u) for u in row[:count]]
    operators = [int(u >= 0.5) + int(u >= 0.8) for u in row[count:]]
    in_range = 1 <= value_of(numbers, operators) <= 99
    if in_range and is_held_out(numbers) == is_test:
      return numbers, operators
  raise AssertionError("no problem in 100 attempts")


@pytest.mark.parametrize("is_test", [False, True])
def test_a_problem_is_the_first_random_expression_in_its_split(is_test):
  count, n = 3, 40
  key = jax.random.key(0) if is_test else jax.random.key(4)
  problems = jax.device_get(module._draw(key, n, count, is_test))
  for i in range(n):
    numbers, operators = draw(jax.random.fold_in(key, i), count, is_test)
    target = value_of(numbers, operators)
    shown = sorted(numbers)
    facts = {name: fact[i].tolist() for name, fact in problems.facts.items()}
    assert facts == {
      "numbers": shown,
      "target": target,
      "order": numbers,
      "operators": operators,
    }
    a, b, c = shown
    assert problems.ids[i] == 10_000 * a + 1000 * b + 100 * c + target
    prompt = f"{a} {b} {c} = d{target // 10} d{target % 10}"
    assert module.decode(problems.prompts[i]) == prompt
  assert problems.prompt_mask.all()
  assert problems.prompt_mask.shape == problems.prompts.shape == (n, 6)


def test_train_problems_of_a_step_have_the_key_of_the_step():
  task = tasks.get("countdown", count=3)
  key = jax.random.key(2)
  expected = module._draw(jax.random.fold_in(key, 7), 40, 3, False)
  jax.tree.map(np.testing.assert_array_equal, task.train(key, 7, 40), expected)


def test_held_out_problems_are_the_distinct_ones_of_a_pool_in_its_order():
  task = tasks.get("countdown", count=3)
  pool = jax.device_get(module._draw(jax.random.key(0), 40, 3, True))
  expected = list(dict.fromkeys(pool.ids.tolist()))
  problems = task.test(len(expected))
  assert problems.ids.tolist() == expected
  assert module.held_out(pool.facts["numbers"]).all()
  everything = module._test_problems(3)
  size = len(everything.ids)
  jax.tree.map(np.testing.assert_array_equal, task.test(size), everything)
  with pytest.raises(
    ValueError, match=rf"n={size + 1} .* has {size}; ask for 1 to {size}$"
  ):
    task.test(size + 1)


def test_equal_problems_among_the_8192_of_the_pool_count_once(monkeypatch):
  """Each problem of this pool is drawn twice, the largest id first."""

  def draw(key, n, count, is_test):
    del key, count
    assert is_test
    return Problems(None, None, np.arange(n)[::-1] // 2, {})

  monkeypatch.setattr(module, "_draw", draw)
  problems = module._test_problems.__wrapped__(3)
  np.testing.assert_array_equal(problems.ids, np.arange(4096)[::-1])


def test_the_numbers_decide_the_split_in_any_order():
  pairs = np.array(list(itertools.product(range(1, 10), repeat=2)))
  expected = [is_held_out(pair) for pair in pairs.tolist()]
  np.testing.assert_array_equal(module.held_out(pairs), expected)
  assert 5 < sum(expected) < 18


def test_targets_go_from_1_to_99():
  expressions = {
    (2, 3, 2): (0, 1, 3),  # 2 + 3 - 2 = 3
    (2, 3, 4): (0, 1, 1),  # 1
    (2, 3, 5): (0, 1, 0),
    (1, 2, 3): (0, 1, 0),
    (2, 9, 9): (0, 2, 99),
    (5, 6, 9): (0, 2, 99),
    (4, 6, 9): (0, 2, 90),
    (7, 9, 7): (0, 2, 112),
    (9, 3, 9): (0, 2, 108),
    (5, 5, 9): (2, 0, 34),
    (1, 2, 9): (1, 2, -9),
  }
  numbers = np.array(list(expressions))
  operators = np.array([row[:2] for row in expressions.values()])
  targets = np.array([row[2] for row in expressions.values()])
  in_range = (targets > 0) & (targets < 100)
  held_out = np.array([is_held_out(row) for row in numbers.tolist()])
  for is_test in (False, True):
    refused = fast._is_refused(numbers, operators, is_test)
    expected = ~in_range | (held_out != is_test)
    np.testing.assert_array_equal(refused, expected)
  train = ~np.asarray(fast._is_refused(numbers, operators, False))
  assert {1, 99} <= set(targets[train].tolist())


def test_operators_have_their_probabilities():
  numbers = np.array([0, 0.49, 0.5, 0.79, 0.81, 0.99], np.float32)
  operators = fast._operators(numbers)
  np.testing.assert_array_equal(operators, [0, 0, 1, 1, 2, 2])
  assert operators.dtype == np.int32
  assert sum(module.OPERATOR_RATES) == 1


def test_a_tenth_of_the_operators_of_demonstrations_is_drawn_anew():
  """A + becomes - in 3 % and * in 2 % of cases, within 4 standard errors."""
  problems = Problems(
    *(None, None, None),
    facts={
      "order": np.ones((5000, 4), np.int32),
      "operators": np.zeros((5000, 3), np.int32),
    },
  )
  ids, lengths = fast.demonstrate(jax.random.key(0), problems)
  ids = np.asarray(ids)
  assert (np.asarray(lengths) == 8).all()
  assert (ids[:, ::2] == rules.NUMBER + 1).all()
  operators = ids[:, 1:-1:2] - rules.PLUS
  for index, rate in ((1, 0.03), (2, 0.02)):
    sigma = (rate * (1 - rate) / operators.size) ** 0.5
    assert abs((operators == index).mean() - rate) < 4 * sigma


def test_expressions_are_written_with_their_end_token():
  numbers = np.array([[2, 3, 9], [9, 1, 1]], np.int32)
  operators = np.array([[0, 2], [1, 0]], np.int32)
  ids, lengths = fast._write(numbers, operators)
  texts = [module.decode(row) for row in np.asarray(ids)]
  assert texts == ["2 + 3 * 9 <eos>", "9 - 1 + 1 <eos>"]
  assert ids.shape == (2, 6)
  np.testing.assert_array_equal(lengths, [6, 6])
  assert ids.dtype == lengths.dtype == np.int32


def test_every_token_has_its_word():
  words = "<eos> = + - * 1 2 3 4 5 6 7 8 9 d0 d1 d2 d3 d4 d5 d6 d7 d8 d9"
  assert module.decode(np.arange(1, rules.VOCAB_SIZE)) == words
  assert module.decode([0, 6, 0]) == "1"


def test_a_completion_is_judged_by_its_value():
  """The values are 20, 18, -5, none, 0 and 24, of which 20 is the target."""
  task = tasks.get("countdown", count=3)
  texts = [
    ["2 + 3 * 4 <eos>", "4 + 2 * 3 <eos>", "2 - 3 - 4 <eos>"],
    ["2 + 2 + 4 <eos>", "2 + 2 - 4 <eos>", "4 + 2 * 2 <eos>"],
  ]
  ids = np.array([[task.completion_ids(text) for text in row] for row in texts])
  facts = {
    "numbers": np.array([[2, 3, 4], [2, 2, 4]], np.int32),
    "target": np.array([20, 12], np.int32),
  }
  problems = Problems(None, None, np.zeros(2, np.int32), facts)
  lengths = np.array([[6, 6, 6], [5, 6, 6]])  # one without its end token
  judged = jax.jit(task.score)(problems, ids, lengths, lengths > 0)
  np.testing.assert_array_equal(judged.scores, [[1, 0, 0], [0, 0, 1]])
  np.testing.assert_array_equal(judged.correct, [[1, 0, 0], [0, 0, 1]])
  np.testing.assert_array_equal(judged.answer_ids, [[40, 36, 11], [-1, 0, 24]])
  np.testing.assert_array_equal(
    judged.components["legal"], [[1, 1, 1], [0, 1, 1]]
  )


def test_sizes_and_names_follow_from_the_number_of_numbers():
  task = tasks.get("countdown")
  assert task.name == "countdown(count=4)"
  assert (task.prompt_length, task.completion_length) == (7, 8)
  assert task.jittable
  for count, nearest in ((1, 2), (8, 7), (12, 7)):
    with pytest.raises(ValueError, match=f"2 to 7, the nearest is {nearest}"):
      tasks.get("countdown", count=count)
