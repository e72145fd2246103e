"""Tests of `rewards.likelihood.variational`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rewards.likelihood import (
  variational,
)

variational = compiled.functions(variational)

PRIOR = np.array([0.6, 0.3, 0.1])
POSTERIOR = np.array([0.1, 0.2, 0.7])


@pytest.mark.worked_example("function:variational.divergence")
def test_the_divergence_is_unbiased_and_never_negative():
  """Both forms' expectations are KL(p' || p), over a vocabulary of three."""
  composite = (PRIOR + POSTERIOR) / 2
  exact = np.sum(composite * np.log(composite / PRIOR))
  prior, posterior = np.log(PRIOR)[:, None], np.log(POSTERIOR)[:, None]
  mask = jnp.ones((3, 1), bool)
  for from_prior, chance in ((True, PRIOR), (False, POSTERIOR)):
    each = variational.divergence(
      prior, posterior, jnp.full(3, from_prior), mask
    )[:, 0]
    assert (each >= 0).all()
    np.testing.assert_allclose(np.sum(chance * each), exact, rtol=1e-5)


def test_equal_templates_are_on_policy():
  logs = jnp.log(PRIOR)[:, None]
  mask = jnp.ones((3, 1), bool)
  for alpha in (0.0, 0.3, 1.0):
    ratio = variational.log_ratios(logs, logs, logs, logs, mask, alpha)
    np.testing.assert_allclose(ratio, 0, atol=1e-6)
  same = variational.divergence(logs, logs, jnp.ones(3, bool), mask)
  np.testing.assert_allclose(same, 0, atol=1e-6)
  with pytest.raises(
    ValueError, match=r"alpha = 2 .* nearest valid value is 1"
  ):
    variational.log_ratios(logs, logs, logs, logs, mask, 2.0)


@pytest.mark.worked_example("function:variational.log_ratios")
def test_the_ratio_is_the_composite_over_what_sampled():
  prior, posterior = np.log(PRIOR)[:, None], np.log(POSTERIOR)[:, None]
  mask = jnp.ones((3, 1), bool)
  result = variational.log_ratios(posterior, prior, prior, posterior, mask, 0.2)
  behavior = 0.2 * PRIOR + 0.8 * POSTERIOR
  expected = np.log((PRIOR + POSTERIOR) / 2 / behavior)
  np.testing.assert_allclose(result[:, 0], expected, rtol=1e-5)


def test_each_template_learns_by_its_share_of_the_composite():
  """d log p' / d log p = p / (p + q)."""
  prior, posterior = np.log(PRIOR)[:, None], np.log(POSTERIOR)[:, None]
  mask = jnp.ones((3, 1), bool)

  def total(new):
    return variational.log_ratios(new, posterior, prior, posterior, mask).sum()

  result = jax.grad(total)(jnp.asarray(prior, jnp.float32))[:, 0]
  np.testing.assert_allclose(result, PRIOR / (PRIOR + POSTERIOR), rtol=1e-5)


@pytest.mark.worked_example(
  "function:variational.log_ratios", "function:variational.divergence"
)
def test_tokens_of_two_templates_by_hand():
  """p = 0.6 and q = 0.2 of the new policy, and 0.3 and 0.1 of the old one."""
  new_p, new_q, old_p, old_q = (
    jnp.log(jnp.array([x, jnp.nan])) for x in (0.6, 0.2, 0.3, 0.1)
  )
  mask = jnp.array([True, False])
  arguments = new_p, new_q, old_p, old_q, mask
  # log (0.4 / 0.2), and with alpha 1/4 log (0.4 / (0.3 / 4 + 0.1 3 / 4)).
  value = variational.log_ratios(*arguments)
  np.testing.assert_allclose(value, [np.log(2), 0], rtol=1e-5)
  value = variational.log_ratios(*arguments, 0.25)
  np.testing.assert_allclose(value, [np.log(0.4 / 0.15), 0], rtol=1e-5)
  # From the prior w log w - w + 1 with w = p' / p = 2/3, and from the
  # posterior v log(p' / p) + v - 1 with v = p' / q = 2.
  value = variational.divergence(new_p, new_q, jnp.array(True), mask)
  expected = 2 / 3 * np.log(2 / 3) + 1 / 3
  np.testing.assert_allclose(value, [expected, 0], rtol=1e-4)
  value = variational.divergence(new_p, new_q, jnp.array(False), mask)
  expected = 2 * np.log(2 / 3) + 1
  np.testing.assert_allclose(value, [expected, 0], rtol=1e-4)
