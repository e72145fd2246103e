"""Coupled variational reinforcement learning (CoVRL): thoughts of two prompts.

The prior p(z | x) of a thought z sees the question x; the posterior
q(z | x, a*) also sees the reference answer a*. Both are the same policy with
two prompt templates. A thought is sampled from the prior with probability
alpha, else from the posterior, and every token is scored under both:

  p'  = (p + q) / 2                  the trained composite
  p_h = alpha p + (1 - alpha) q      the sampling distribution

The importance ratio of a token is p' / p_h. The reward is the log-probability
of the reference answer under the prior's template
(`reference_probability.reference_log_probability`) minus the group's mean.

No registered reward calls these functions yet.

Usage, with log-probabilities of the policy at the start of the training step
(`old`) and of the policy that is differentiated (`new`):
  log_ratio = variational.log_ratios(prior_new, posterior_new, prior_old,
                                     posterior_old, mask)
  penalty = variational.divergence(prior_new, posterior_new, from_prior, mask)

Source: Coupled Variational Reinforcement Learning for Language Model General
Reasoning (CoVRL). The loss term of the paper that raises the log-likelihood of
the reference, on prior samples of positive advantage, is left out.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards import base

Array = jax.Array


def _mixture(first: Array, second: Array, share: float) -> Array:
  """Returns log(share * e^first + (1 - share) * e^second)."""
  log_first, log_second = (
    math.log(x) if x > 0 else -math.inf for x in (share, 1.0 - share)
  )
  return jnp.logaddexp(first + log_first, second + log_second)


def log_ratios(
  prior_new: Array,
  posterior_new: Array,
  prior_old: Array,
  posterior_old: Array,
  mask: Array,
  alpha: float = 0.5,
) -> Array:
  """Returns log p'_new - log p_h of each token, the log importance ratio.

  With alpha 1/2 it is 0 before the first update of a training step.

  Args:
    prior_new: `[..., T]` log-probabilities of the sampled tokens under the
      policy that is differentiated, with the prior's template, in nats.
    posterior_new: `[..., T]`, the same with the posterior's template.
    prior_old: `[..., T]`, under the policy at the start of the training step,
      with the prior's template.
    posterior_old: `[..., T]`, the same with the posterior's template.
    mask: `[..., T]` bool, True for the tokens of the thought.
    alpha: probability that a thought is sampled from the prior.

  Returns:
    `[..., T]` float32, 0 where the mask is False.

  Raises:
    ValueError: `alpha` is outside [0, 1].
  """
  if not 0 <= alpha <= 1:
    raise ValueError(
      f"alpha = {alpha:g} must be a probability between 0 and 1; the nearest "
      f"valid value is {min(max(alpha, 0.0), 1.0):g}"
    )
  logs = (prior_new, posterior_new, prior_old, posterior_old)
  prior_new, posterior_new, prior_old, posterior_old = (
    base.zero_outside(x, mask) for x in logs
  )
  composite = _mixture(prior_new, posterior_new, 0.5)
  behavior = _mixture(prior_old, posterior_old, alpha)
  return jnp.where(mask, composite - behavior, 0.0)


def divergence(
  prior: Array, posterior: Array, from_prior: Array, mask: Array
) -> Array:
  """Estimates KL(p' || p) of each token; the estimate is at least 0.

    token sampled from the prior      w log(p'/p) - w + 1,  w = p'/p
    token sampled from the posterior  v log(p'/p) + v - 1,  v = p'/q

  The estimate is unbiased for a token given its prefix, since the terms 1 - w
  and v - 1 have mean 0: E_p[w] = E_q[v] = 1, if every token that is possible
  under p' is possible under the distribution that sampled.

  Source: CoVRL.

  Args:
    prior: `[..., T]` log-probabilities of the sampled tokens under the prior,
      in nats.
    posterior: `[..., T]`, the same under the posterior.
    from_prior: `[...]` bool, True for samples from the prior.
    mask: `[..., T]` bool, True for the tokens of the thought; all False for
      truncated samples, as in the paper.

  Returns:
    `[..., T]` float32, 0 where the mask is False.
  """
  prior, posterior = (
    base.zero_outside(prior, mask),
    base.zero_outside(posterior, mask),
  )
  sign = jnp.where(jnp.asarray(from_prior)[..., None], 1.0, -1.0)
  gap = _mixture(prior, posterior, 0.5) - prior
  # w = (1 + q/p) / 2 and v = (1 + p/q) / 2.
  weight = 0.5 + 0.5 * jnp.exp(sign * (posterior - prior))
  return jnp.where(mask, weight * gap - sign * (weight - 1.0), 0.0)
