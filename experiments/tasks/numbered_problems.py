"""Training and test problems of tasks whose problems are numbered.

Problems whose id is a multiple of 7 are held out for tests. The others, 1 to 6,
8 to 13, ..., are drawn at random for training.
"""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError

Array = jax.Array

DIVISOR = 7  # ids divisible by it are test problems
POOL = 8192  # random test problems of which `test_ids` takes the distinct ones


def _num_test(num_problems: int) -> int:
  # Multiples of 7 from 0 to num_problems - 1: the quotient rounded up, because
  # 0 is one of them.
  return -(-num_problems // DIVISOR)


@functools.partial(jax.jit, static_argnums=(2, 3))
def train_ids(key: Array, step: Array, n: int, num_problems: int) -> Array:
  """Returns the ids of n training problems, `[n]`.

  Those of fewer problems are the first ones of those of more.

  Args:
    key: PRNG key of the run.
    step: `[]` int, number of the training step.
    n: number of problems.
    num_problems: number of ids, from 0, test problems included.
  """
  key = jax.random.fold_in(key, step)
  keys = jax.vmap(jax.random.fold_in, (None, 0))(key, jnp.arange(n))
  limit = num_problems - _num_test(num_problems)
  # [n], positions in the list of training ids, six between multiples of 7.
  ranks = jax.vmap(lambda key: jax.random.randint(key, (), 0, limit))(keys)
  num_between = DIVISOR - 1
  return ranks // num_between * DIVISOR + ranks % num_between + 1


def test_ids(n: int, num_problems: int, task: str) -> np.ndarray:
  """Returns the ids of the first n test problems, which are distinct, `[n]`.

  Args:
    n: number of problems.
    num_problems: same as in `train_ids`.
    task: name of the task, for the error.

  Raises:
    UsageError: there are fewer test problems.
  """
  draws = np.random.default_rng(0).integers(_num_test(num_problems), size=POOL)
  # Position of the first of equal draws.
  _, distinct = np.unique(draws, return_index=True)
  if n > distinct.size:
    raise UsageError(
      f"n={n} test problems, but {task} has {distinct.size}; ask for 1 to "
      f"{distinct.size}"
    )
  return DIVISOR * draws[np.sort(distinct)[:n]]
