"""Worked example of the optimal token baseline."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods, transforms
from rl.methods.group import optimal_token_baseline

# Probabilities under the old policy; the vocabulary has two tokens.
OLD = 0.5 + 0.4 * np.sin(np.arange(1, 25)).reshape(2, 4, 3)


def equation(scores, mask):
  """A_n = R - sum_j W_jn R_j / sum_j W_jn, sample by sample."""
  # 1 - 2 p + p^2 + (1 - p)^2.
  energy = 1 - 2 * OLD + OLD**2 + (1 - OLD) ** 2
  result = np.zeros(mask.shape)
  for p in range(len(scores)):
    samples = [s for s in range(mask.shape[1]) if mask[p, s].any()]
    tokens = {s: np.flatnonzero(mask[p, s]) for s in samples}
    for s in samples:
      for n, t in enumerate(tokens[s]):
        group = [j for j in samples if len(tokens[j]) > n]
        weights = [energy[p, j, tokens[j][: n + 1]].sum() for j in group]
        baseline = np.average([scores[p][j] for j in group], weights=weights)
        # The tail of the longest sample, which no other sample reaches.
        result[p, s, t] = scores[p][s] - (0 if group == [s] else baseline)
  return result


@pytest.mark.worked_example("method:optimal_token_baseline")
@pytest.mark.parametrize("gap", [False, True])
def test_means_weighted_by_the_gradients_so_far(gap):
  """Groups of 3, 1 and 2, and of 1, 3, 2 and 2 tokens; or with a gap."""
  scores = np.array([[1, 0, 0.2, 0.3], [0.9, 0.1, 0.4, 0]])
  rollout = clip_example.rollout(scores)
  mask = clip_example.mask(rollout) > 0
  if gap:  # A tool wrote the first token of two samples.
    mask[0, 3, 0] = mask[1, 1, 0] = False
    tokens = rollout.tokens.replace(mask=jnp.asarray(mask))
    rollout = rollout.replace(tokens=tokens)
  else:
    expected = equation(scores, mask)
    assert expected[0, 0, 2] == 1
    assert expected[1, 1, 2] == 0.1
  advantages = equation(scores, mask)
  log_probs = np.log(OLD[:, ::-1])  # of the trained policy, in no baseline
  m = methods.get("optimal_token_baseline")
  loss, slopes = worked_example.loss(m, rollout, log_probs, np.log(OLD))
  # - A log pi, summed over tokens, a mean over 7 samples.
  expected = -advantages / 7
  np.testing.assert_allclose(loss, (expected * log_probs).sum(), rtol=2e-5)
  np.testing.assert_allclose(slopes, expected, rtol=2e-5, atol=1e-6)


def apply(scores, lengths, log_probs, squares):
  """Advantages of a group, of given sums of squared probabilities."""
  extras = {"old/log_probs": log_probs, "old/sum_squared_probs": squares}
  rollout = worked_example.rollout(scores, lengths, extras=extras)
  m = methods.get("optimal_token_baseline")
  return worked_example.advantages(m, rollout)


def test_equal_scores_and_a_single_sample_have_no_advantage():
  log_probs = np.log(OLD[:1, :3])
  squares = OLD[:1, :3] ** 2 + (1 - OLD[:1, :3]) ** 2
  a = apply([0.9] * 3, [2, 2, 2], log_probs[..., :2], squares[..., :2])
  assert not a.any()
  # Two samples have no token: a group of one.
  assert not apply([0.9, 0.4, 0.1], [3, 0, 0], log_probs, squares).any()
  # Only the tail of the longest sample, which no other sample reaches.
  a = apply([0.9] * 3, [3, 2, 0], log_probs, squares)
  expected = np.zeros((1, 3, 3))
  expected[0, 0, 2] = 0.9
  np.testing.assert_allclose(a, expected)


def test_tokens_without_a_gradient_have_the_baseline_0():
  """Their probability is 1; rounding may leave a negative squared norm."""
  certain = np.zeros((1, 2, 1))
  for squares in (certain + 1, certain + 1 - 1e-6):
    a = apply([0.9, 0.4], [1, 1], certain, squares)
    np.testing.assert_allclose(a, [[[0.9], [0.4]]], rtol=1e-6)


def test_returns_of_tokens_have_a_baseline_at_each_token():
  """Returns 3, 1 and 5, 4 with s of 0.5, 1 and 1.5, 1."""
  rollout = worked_example.rollout(
    [0, 0],
    [2, 2],
    extras={
      "old/log_probs": np.log([[[0.5, 0.25], [0.25, 0.5]]]),
      "old/sum_squared_probs": [[[0.5, 0.5], [1.0, 1.0]]],
    },
  )
  t = transforms.chain(
    transforms.scores(),
    transforms.broadcast(),
    optimal_token_baseline.minus_optimal_baseline(),
  )
  assert t.gives == "token"
  returns = jnp.array([[[3.0, 1], [5, 4]]])
  minus_baseline = optimal_token_baseline.minus_optimal_baseline()
  actual, _ = minus_baseline.apply(returns, rollout, ())
  first = (0.5 * 3 + 1.5 * 5) / 2
  second = (1.5 * 1 + 2.5 * 4) / 4
  expected = [[[3 - first, 1 - second], [5 - first, 4 - second]]]
  np.testing.assert_allclose(actual, expected, rtol=1e-6)


def test_the_sum_of_squared_probabilities():
  logits = jnp.array([[1.0, -2.0, 0.5], [300.0, 0.0, 300.0]])
  actual = optimal_token_baseline.sum_squared_probs.fn(logits, None)
  p = np.exp([1.0, -2.0, 0.5])
  first = (p**2).sum() / p.sum() ** 2
  np.testing.assert_allclose(actual, [first, 0.5], rtol=1e-6)
  assert optimal_token_baseline.sum_squared_probs.logits


def test_the_weight_of_a_token_is_the_squared_norm_of_its_gradient():
  """The gradient is in the logits; the other sample has s = 1/2."""
  logits = jnp.array([1.0, -2.0, 0.5])
  log_pi, gradient = jax.value_and_grad(lambda z: jax.nn.log_softmax(z)[2])(
    logits
  )
  squares = optimal_token_baseline.sum_squared_probs.fn(logits[None], None)
  norm = float(gradient @ gradient)
  # A second sample of probability 1/2 of two tokens has s = 1/2.
  a = apply(
    [1, 0],
    [1, 1],
    np.array([[[log_pi], [np.log(0.5)]]]),
    np.array([[[squares[0]], [0.5]]]),
  )
  baseline = norm / (norm + 0.5)
  np.testing.assert_allclose(a[0, :, 0], [1 - baseline, -baseline], rtol=1e-5)
