"""Which numbered problems are for training, and which are held out."""

import jax
import numpy as np
import pytest

from experiments.tasks import numbered_problems


def test_train_problems_are_drawn_from_all_ids_that_7_does_not_divide():
  key = jax.random.key(3)
  allowed = [i for i in range(100) if i % 7]
  ids = numbered_problems.train_ids(key, 5, 40, 100)
  step_key = jax.random.fold_in(key, 5)

  def rank(i):
    place = jax.random.fold_in(step_key, i)
    return jax.random.randint(place, (), 0, len(allowed))

  ranks = jax.vmap(rank)(np.arange(40))
  assert ids.tolist() == [allowed[int(i)] for i in ranks]
  # Fewer problems are the first ones.
  fewer = numbered_problems.train_ids(key, 5, 3, 100)
  np.testing.assert_array_equal(fewer, ids[:3])


@pytest.mark.parametrize("num_problems", [8, 14, 15])
def test_each_train_problem_may_come_up(num_problems):
  ids = numbered_problems.train_ids(jax.random.key(0), 0, 300, num_problems)
  assert set(ids.tolist()) == {i for i in range(num_problems) if i % 7}


def test_held_out_problems_are_the_multiples_of_7_in_the_order_of_a_pool():
  # Each of 0, 7 and 14 is drawn early, so that the pool has all three.
  draws = np.random.default_rng(0).integers(3, size=30)
  expected = [7 * i for i in dict.fromkeys(draws.tolist())]
  assert sorted(expected) == [0, 7, 14]
  np.testing.assert_array_equal(
    numbered_problems.test_ids(3, 20, "this"), expected
  )
  np.testing.assert_array_equal(
    numbered_problems.test_ids(2, 15, "this"), expected[:2]
  )
  with pytest.raises(
    ValueError, match="n=4 test problems, but this has 3; ask for 1 to 3"
  ):
    numbered_problems.test_ids(4, 21, "this")


def test_the_pool_of_held_out_problems_has_8192_draws():
  """Among as many draws of 10^8 problems few are equal."""
  draws = np.random.default_rng(0).integers(10**8, size=8192)
  expected = list(dict.fromkeys(draws.tolist()))
  ids = numbered_problems.test_ids(len(expected), 7 * 10**8, "this")
  np.testing.assert_array_equal(ids, [7 * i for i in expected])
  with pytest.raises(ValueError, match=f"this has {len(expected)};"):
    numbered_problems.test_ids(8193, 7 * 10**8, "this")
