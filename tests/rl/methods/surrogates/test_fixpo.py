"""Worked example of FixPO."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, compiled

from rl import methods
from rl.methods.surrogates import fixpo

fixpo = compiled.functions(fixpo)


def kl(p, q):
  """KL of the two tokens of the vocabulary; p and q are of the first one."""
  return p * np.log(p / q) + (1 - p) * np.log((1 - p) / (1 - q))


@pytest.mark.worked_example("method:fixpo")
@pytest.mark.parametrize(
  ("step", "before", "beta"),
  # KL(before || old) of the largest token is 0.128, 0.087: eps / 2 = 0.1 is in
  # between. Adam's first step has the size of its rate, 0.01.
  [(1, 0.75, 1.01), (1, 0.7, 0.99), (0, 0.75, 1)],
)
def test_ratio_and_divergence(step, before, beta):
  """- rho A + beta KL(pi_old || pi), a mean over tokens."""
  old = clipped_group.OLD
  earlier = np.where(clipped_group.MASK, old, 0.9)
  earlier[0, 1] = before  # pi_old has 0.5 there
  largest = kl(before, 0.5)
  assert (largest > 0.1) == (before > 0.7)
  q = old * clipped_group.RATIOS
  rho, a = clipped_group.RATIOS, clipped_group.Z_SCORES[:, None]
  mask, weights = clipped_group.MASK, clipped_group.TOKEN_MEAN
  divergence = kl(old, np.where(mask, q, 0.5))
  loss = np.sum(weights * (-rho * a + beta * divergence))
  # d KL / d log q = -p + (1 - p) q / (1 - q).
  slope = -old + (1 - old) * q / (1 - np.where(mask, q, 0.5))
  slopes = weights * (-rho * a + beta * slope)
  rollout = clipped_group.group(step=jnp.int32(step))
  clipped_group.check_loss(
    methods.get("fixpo"),
    rollout,
    (loss, slopes),
    other={"before": np.log(earlier)[None]},
  )


@pytest.mark.parametrize("other", [0.005, 0.2])
def test_divergence_with_the_tokens_that_are_not_listed(other):
  """The tokens that are not listed have little probability under one policy."""
  p, q = np.array([0.3, 0.7 - other]), np.array([0.6, 0.399])
  expected = np.sum(p * np.log(p / q)) + other * np.log(other / 0.001)
  actual = fixpo.divergence(jnp.log(p), jnp.log(q))
  np.testing.assert_allclose(actual, expected, rtol=1e-3)


def test_the_divergence_of_a_whole_vocabulary_has_a_gradient_in_p():
  """d/d log p of p (log p - log q) is p (log p - log q + 1)."""
  p, q = np.array([0.25, 0.75]), np.array([0.5, 0.5])
  slope = jax.grad(fixpo.divergence)(jnp.log(p), jnp.log(q))
  np.testing.assert_allclose(slope, p * (np.log(p / q) + 1), rtol=1e-5)


def test_defaults_of_the_trust_region():
  """KL of up to 0.2 nats by the 8 most likely tokens, and 20 passes."""
  m = methods.get("fixpo")
  (further,) = m.further_updates
  assert (further.limit, further.max_passes) == (0.2, 20)
  assert "old/top_ids(8)" in map(str, further.loss.needs)
