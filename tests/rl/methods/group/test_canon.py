"""Worked examples of CANON."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods, types

NAN = np.nan
SCORES = [[1, NAN, 0.2, 0.6], [0.3, 0.9, 0.5, 0]]
# 2 right of 6 with a known verdict: mu = 1 - 1/3 if it follows the accuracy.
VERDICTS = [[1, 1, 0, -1], [1, 0, 0, 0]]


def rollout():
  """Groups of three and four samples, with entropies and lengths."""
  entropy = [
    # Means of existing tokens 0.3, 0.25 and 0.4; their sums have another order.
    [[0.2, 0.3, 0.4], [0, 0, 0], [0.25, NAN, 9], [0.5, 0.3, NAN]],
    # Means 0.5, 0.3, 0.5 and 0.7: of the equal ones the first is lower.
    [[0.5, NAN, 9], [0.1, 0.6, 0.2], [0.4, 0.6, 9], [0.8, 0.6, NAN]],
  ]
  extras = {"old/entropy": np.array(entropy)}
  result = clip_example.rollout(SCORES, correct=VERDICTS, extras=extras)
  return result.replace(correct=jnp.asarray(VERDICTS, jnp.int8))


@pytest.mark.worked_example("method:canon")
def test_halves_by_entropy():
  """Low halves are sample 2, and samples 0 and 1, of the two groups."""
  # mu = 1: R - mean of the other half, of means 0.2 and 0.8 in the first group
  # and 0.6 and 0.25 in the second.
  between = np.array([[0.8, 0, -0.6, 0.4], [0.05, 0.65, -0.1, -0.6]])
  clip_example.check_advantages(
    methods.get("canon", mu=1.0), rollout(), between
  )
  # The default is mu = 1/2.
  within = np.array([[0.2, 0, 0, -0.2], [-0.3, 0.3, 0.25, -0.25]])
  clip_example.check_advantages(
    methods.get("canon"), rollout(), (between + within) / 2
  )
  # Low halves times 0.5 in the first summand: means 0.1, 0.8; 0.3, 0.25.
  between = np.array([[0.9, 0, -0.7, 0.5], [-0.1, 0.2, 0.2, -0.3]])
  clip_example.check_advantages(
    methods.get("canon", mu=None, alpha=0.5),
    rollout(),
    2 / 3 * between + 1 / 3 * within,
  )


@pytest.mark.worked_example("method:canon")
def test_entropy_of_the_old_policy():
  """The same halves, by log pi_old of two tokens; less even is lower."""
  p = np.array([[0.25, 0.3, 0.1, 0.3], [0.2, 0.1, 0.22, 0.3]])[..., None]
  # A mean over 7 samples of the sum over tokens / T, T = 3.
  weights = clip_example.mask(rollout()) / 7 / 3
  clip_example.check_clip(
    methods.get("canon", mu=1.0),
    rollout().replace(extras=types.Named()),
    [[0.8, 0, -0.6, 0.4], [0.05, 0.65, -0.1, -0.6]],
    weights,
    0.2,
    0.28,
    old=np.broadcast_to(np.log(p), (2, 4, 3)),
  )


@pytest.mark.worked_example("method:canon")
def test_halves_by_length():
  """Lengths 3, -, 1, 2 and 1, 3, 2, 2: the long halves are discounted."""
  # Low halves: sample 2 (0.2), and samples 0 and 2 (mean 0.4). High halves
  # times 0.5: samples 0 and 3 (mean 0.4), and samples 1 and 3 (mean 0.225).
  between = np.array([[0.3, 0, -0.2, 0.1], [0.075, 0.05, 0.275, -0.4]])
  within = np.array([[0.2, 0, 0, -0.2], [-0.1, 0.45, 0.1, -0.45]])
  m = methods.get("canon", metric="length", mu=None, alpha=0.5)
  advantages = 2 / 3 * between + 1 / 3 * within
  clip_example.check_advantages(m, rollout(), advantages)


def test_equal_scores_and_the_order_of_equal_entropies():
  """The first of equal entropies are in the low half."""
  m = methods.get("canon", mu=1.0)
  # The mean of three scores of 0.9 is not 0.9 in float32.
  rollout = worked_example.rollout(
    [0.9] * 6, extras={"old/entropy": np.ones((1, 6, 1))}
  )
  assert not worked_example.advantages(m, rollout).any()
  # Forty samples, because any sort keeps the order of a few equal values.
  entropy = np.arange(40.0) % 3
  # The 14 samples of entropy 0, and the first 6 of entropy 1.
  is_low = (entropy == 0) | ((entropy == 1) & (np.arange(40) < 18))
  assert is_low.sum() == 20
  rollout = worked_example.rollout(
    1.0 * is_low, extras={"old/entropy": entropy[None, :, None]}
  )
  clip_example.check_advantages(m, rollout, [np.where(is_low, 1, -1)])
