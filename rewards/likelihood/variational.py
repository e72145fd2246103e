"""Coupled variational reinforcement learning (CoVRL): thoughts of two prompts.

The prior p(z | x) sees the question, the posterior q(z | x, a*) also sees the
answer; both are the same policy with two templates. A trajectory is sampled
from the prior with probability alpha, else from the posterior, and every token
is scored under both:

  p'  = (p + q) / 2                  the trained composite
  p_h = alpha p + (1 - alpha) q      the sampling distribution

The importance ratio is p' / p_h. The reward is the reference answer's
log-probability under the prior's template
(`reference_probability.reference_log_probability`) less the group's mean.

No registered reward calls these functions yet.

Usage, with `old` at the start of the step and `new` differentiated:
  log_ratio = variational.log_ratios(prior_new, posterior_new, prior_old,
                                     posterior_old, mask)
  penalty = variational.divergence(prior_new, posterior_new, from_prior, mask)

Source: Coupled Variational Reinforcement Learning for Language Model General
Reasoning (CoVRL). Left out, being a loss term of its own: the log-likelihood of
the reference on prior samples of positive advantage.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards import base

Array = jax.Array


def _mixture(first: Array, second: Array, share: float) -> Array:
  """log(share e^first + (1 - share) e^second)."""
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
  """log p'_new - log p_h of each token; 0 at a step's start with alpha 1/2.

  Args:
    prior_new: `[..., T]` log-probabilities under the trained policy with the
      prior's template, in nats.
    posterior_new: `[..., T]`, with the posterior's template.
    prior_old: `[..., T]`, under the policy at the start of the step.
    posterior_old: `[..., T]`, with the posterior's template.
    mask: `[..., T]` bool, tokens of the thought.
    alpha: probability that a trajectory comes from the prior.

  Returns:
    `[..., T]` float32, 0 where masked.

  Raises:
    ValueError: `alpha` is outside [0, 1].
  """
  if not 0 <= alpha <= 1:
    raise ValueError(
      f"alpha = {alpha:g} must be a probability in [0, 1]; nearest: "
      f"{min(max(alpha, 0.0), 1.0):g}"
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
  """Estimates KL(p' || p) of each token; unbiased and never negative.

    prior sample      w log(p'/p) - w + 1,  w = p'/p
    posterior sample  v log(p'/p) + v - 1,  v = p'/q

  Both control variates have mean 0 (E_p[w] = E_q[v] = 1 if p' has no mass
  outside the distribution that sampled), and with p' = (p + q) / 2 both forms
  are at least 0. The estimate is unbiased for a token given its prefix.

  Source: CoVRL.

  Args:
    prior: `[..., T]` log-probabilities of the sampled tokens under the prior,
      in nats.
    posterior: `[..., T]`, under the posterior.
    from_prior: `[...]` bool, samples of the prior.
    mask: `[..., T]` bool, tokens of the thought; all False for truncated
      samples, as in the paper.

  Returns:
    `[..., T]` float32, 0 where masked.
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
