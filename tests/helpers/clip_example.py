"""PPO-clip and REINFORCE by their equations, for worked examples of methods.

Groups have up to six samples of up to three tokens. The second sample of the
first group does not exist; its score is NaN.
"""

import jax.numpy as jnp
import numpy as np

from helpers import worked_example

LENGTHS = np.array([[3, 2, 1, 2, 1, 3], [1, 3, 2, 2, 3, 1], [2, 1, 3, 1, 2, 2]])
# rho, the ratios to the old policy, from 0.6 to 1.4, all distinct.
RATIOS = 1 + 0.4 * np.sin(np.arange(1, 109)).reshape(6, 6, 3)
RATIOS[0, 2, 0], RATIOS[0, 3, 1] = 0.7, 1.35
LONG_RATIOS = 1 + 0.4 * np.sin(np.arange(1, 73)).reshape(3, 6, 4)
LONG_RATIOS[0, 0, 1] = 0.7
ABSENT = (0, 1)


def rollout(scores, **fields):
  """Returns a rollout of groups whose first one lacks its second sample."""
  scores = np.array(scores, np.float32, ndmin=2)
  scores[ABSENT] = np.nan
  p, s = scores.shape
  exists = np.ones((p, s), bool)
  exists[ABSENT] = False
  lengths = np.resize(LENGTHS, (-(-p // 3) * 3, 6))[:p, :s]
  result = worked_example.rollout(
    scores, None if "steps" in fields else lengths, **fields
  )
  return result.replace(sample_mask=jnp.asarray(exists))


def mask(example):
  """Returns the tokens of the samples that exist, as numbers."""
  exists = np.asarray(example.tokens.mask & example.sample_mask[..., None])
  return exists.astype(float)


def clipped(advantages, ratios, low, high, sides="above, below"):
  """- min(rho A, clip(rho, 1 - low, 1 + high) A), and its slope in log rho.

  The slope is 0 where the minimum is the clipped product.
  """
  inside = np.clip(ratios, 1 - low, 1 + high)
  values = -np.minimum(ratios * advantages, inside * advantages)
  above = (advantages > 0) & (ratios > 1 + high)
  below = (advantages < 0) & (ratios < 1 - low)
  for name, cases in (("above", above), ("below", below)):
    assert cases.any() or name not in sides, f"no ratio is {name} the range"
  return values, np.where(above | below, 0.0, -ratios * advantages)


def old_log_probs(example):
  """Returns log pi_old, the same at all tokens."""
  return np.full(example.tokens.mask.shape, np.log(0.2))


def per_token(advantages):
  """Adds an axis of size 1 for the tokens to advantages `[P, S]`."""
  advantages = np.asarray(advantages, float)
  return advantages if advantages.ndim == 3 else advantages[..., None]


def check_clip(
  m,
  example,
  advantages,
  weights,
  low,
  high,
  further=(0.0, 0.0),
  sides="above, below",
  **kwargs,
):
  """Compares the loss and its slopes with those of PPO-clip.

  Args:
    m: the method.
    example: the rollout.
    advantages: `[P, S]` or `[P, S, T]`, or a tuple of those of several terms.
    weights: `[P, S, T]`, weight of each token in the loss.
    low, high: clip range.
    further: loss and slopes of other terms.
    sides: the sides of the range at which some ratio must be clipped.
    **kwargs: further arguments of `worked_example.loss`.
  """
  p, s, t = example.tokens.mask.shape
  ratios = RATIOS[:p, :s, :t] if t <= 3 else LONG_RATIOS[:p, :s, :t]
  old = kwargs.pop("old", old_log_probs(example))
  loss, slopes = worked_example.loss(
    m, example, old + np.log(ratios), old, **kwargs
  )
  target, wanted_slopes = further
  terms = advantages if isinstance(advantages, tuple) else [advantages]
  for of_term in terms:
    values, d_values = clipped(
      per_token(of_term) * (weights > 0), ratios, low, high, sides
    )
    target = target + (weights * values).sum()
    wanted_slopes = wanted_slopes + weights * d_values
  np.testing.assert_allclose(loss, target, rtol=2e-5, atol=1e-6)
  np.testing.assert_allclose(slopes, wanted_slopes, rtol=2e-5, atol=1e-6)


def check_reinforce(m, example, advantages, weights):
  """Compares the loss with the sum of - weight A log pi, and its slopes."""
  p, s, t = example.tokens.mask.shape
  log_probs = -RATIOS[:p, :s, :t]
  loss, slopes = worked_example.loss(m, example, log_probs)
  target = -weights * per_token(advantages)
  np.testing.assert_allclose(loss, (target * log_probs).sum(), rtol=2e-5)
  np.testing.assert_allclose(slopes, target, rtol=2e-5, atol=1e-6)


def check_advantages(m, example, advantages):
  """Compares the advantages of a method with the expected ones."""
  np.testing.assert_allclose(
    worked_example.advantages(m, example), advantages, rtol=2e-5, atol=1e-6
  )


def z_score(scores, exists=None, ddof=1, eps=1e-6):
  """(R - mean R) / (std R + eps) of a row, 0 where a sample does not exist."""
  scores = np.asarray(scores, float)
  exists = np.ones(scores.shape, bool) if exists is None else exists
  present = scores[exists]
  spread = np.sqrt(
    ((present - present.mean()) ** 2).sum() / (len(present) - ddof)
  )
  return np.where(exists, (scores - present.mean()) / (spread + eps), 0.0)
