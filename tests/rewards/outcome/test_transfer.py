"""Tests of `rewards.outcome.transfer`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.outcome import transfer

transfer = compiled.functions(transfer)


def test_the_receivers_success_is_added():
  correct = jnp.array([1, 0, 1, 0])
  continued = jnp.array([[1, 1], [1, 0], [-1, 0], [-1, -1]])
  result = transfer.transferred(correct, continued, 0.5)
  np.testing.assert_allclose(result, [1.5, 0.25, 1.0, 0.0])
  reference = transfer.transferred(correct, continued, 0.0, 0.1 * correct)
  np.testing.assert_allclose(reference, 1.1 * correct)


def test_a_receiver_that_is_shown_all_pays_the_verdict():
  correct = jnp.array([1, 0, 1])
  result = transfer.transferred(correct, correct[:, None])
  np.testing.assert_array_equal(result, 2 * correct)


def test_transfer_s_null_audit():
  """Below a weight of 1 a wrong answer never wins, whatever the receiver does;
  its weakness: no thought at all earns what the receiver can do alone."""
  outcomes = jnp.array(list(itertools.product([0, 1], repeat=3)))
  right = transfer.transferred(jnp.ones(8), outcomes, 0.9)
  wrong = transfer.transferred(jnp.zeros(8), outcomes, 0.9)
  assert right.min() > wrong.max()
  empty = transfer.transferred(jnp.array([0]), jnp.array([[1, 1, 0, 1]]))
  np.testing.assert_allclose(empty, 0.75)


@pytest.mark.worked_example("function:transfer.kept_tokens")
def test_the_receiver_is_not_shown_the_answer():
  lengths = jnp.array([10, 10, 10])
  fractions = jnp.array([0.0, 0.55, 1.0])
  np.testing.assert_array_equal(
    transfer.kept_tokens(lengths, fractions), [0, 5, 10]
  )
  result = transfer.kept_tokens(lengths, fractions, jnp.array([8, 3, 8]))
  np.testing.assert_array_equal(result, [0, 3, 8])
  result = transfer.kept_tokens(lengths, fractions, jnp.array([-1, -1, 0]))
  np.testing.assert_array_equal(result, [0, 5, 0])  # not stated, and at once


@pytest.mark.worked_example("function:transfer.transferred")
def test_verdict_share_and_format_by_hand():
  """Shares 1/2, 2/3 and 1 of the continuations that have a verdict."""
  correct = jnp.array([1, 0, -1])
  continued = jnp.array([[1, 0, -1], [1, 1, 0], [-1, 1, -1]])
  # 1[right] + weight * share + format, with weight 1 and no format.
  value = transfer.transferred(correct, continued)
  np.testing.assert_allclose(value, [1.5, 2 / 3, 1], rtol=1e-6)
  value = transfer.transferred(correct, continued, 0.6, 0.05)
  np.testing.assert_allclose(value, [1.35, 0.45, 0.65], rtol=1e-6)
