"""Coupled variational reinforcement learning: thoughts from two prompts.

The prior p(z | x) sees the question, the posterior q(z | x, a*) the answer as
well; it is the same policy under two templates. A trajectory is drawn from the
prior with probability alpha, else from the posterior, and every token is scored
under both. Trained is the composite p' = (p + q) / 2, on the ratio to what
sampled, p_h = alpha p + (1 - alpha) q; the reward is the reference answer's
log-probability given the prior's template (`likelihood.log_probability`) less
the group's mean.

Usage, `old` at the step's start and `new` differentiated:
  log_ratio = variational.log_ratios(prior_new, posterior_new, prior_old,
                                     posterior_old, mask)
  penalty = variational.divergence(prior_new, posterior_new, from_prior, mask)

Source: Coupled Variational Reinforcement Learning for Language
Model General Reasoning (CoVRL). Left out, being a loss term of its own: the
log-likelihood of the reference on prior samples of positive advantage.
"""

from __future__ import annotations

import math

import jax
import jax.numpy as jnp

from rewards import elementary
from rewards.inputs import present

Array = jax.Array


def _mixture(first: Array, second: Array, share: float) -> Array:
  """log(share e^first + (1 - share) e^second)."""
  ours, theirs = (
    math.log(x) if x > 0 else -math.inf for x in (share, 1.0 - share)
  )
  return elementary.log_add_exp(first + ours, second + theirs)


def log_ratios(
  prior_new: Array,
  posterior_new: Array,
  prior_old: Array,
  posterior_old: Array,
  mask: Array,
  alpha: float = 0.5,
) -> Array:
  """log p'_new - log p_h of each token; 0 at the start with alpha 1/2.

  Args:
    prior_new, posterior_new: `[..., T]` nats, under the policy that learns.
    prior_old, posterior_old: `[..., T]` nats, at the step's start.
    mask: `[..., T]` bool, tokens of the thought.
    alpha: probability that a trajectory is the prior's.

  Returns:
    `[..., T]` float32, 0 where masked.

  Raises:
    ValueError: alpha is not in [0, 1].
  """
  if not 0 <= alpha <= 1:
    raise ValueError(
      f"alpha = {alpha:g} is a probability, from 0 to 1; nearest: "
      f"{min(max(alpha, 0.0), 1.0):g}"
    )
  logs = (prior_new, posterior_new, prior_old, posterior_old)
  prior_new, posterior_new, prior_old, posterior_old = (
    present(x, mask) for x in logs
  )
  composite = _mixture(prior_new, posterior_new, 0.5)
  behavior = _mixture(prior_old, posterior_old, alpha)
  return jnp.where(mask, composite - behavior, 0.0)


def divergence(
  prior: Array, posterior: Array, from_prior: Array, mask: Array
) -> Array:
  """Estimates KL(p' || p) of each token, unbiased and never negative.

    of a prior sample      w log(p'/p) - w + 1,  w = p'/p
    of a posterior sample  v log(p'/p) + v - 1,  v = p'/q

  Both control variates have mean 0 (E_p[w] = E_q[v] = 1 where p' has no mass
  outside the one that sampled), and with p' = (p + q) / 2 neither form is below
  0. Unbiased for a token given its prefix.

  Source: CoVRL.

  Args:
    prior, posterior: `[..., T]` nats, of the sampled tokens.
    from_prior: `[...]` bool, which template sampled.
    mask: `[..., T]` bool, tokens of the thought; of samples that were cut off
      none, as in the paper.

  Returns:
    `[..., T]` float32, 0 where masked.
  """
  prior, posterior = present(prior, mask), present(posterior, mask)
  sign = jnp.where(jnp.asarray(from_prior)[..., None], 1.0, -1.0)
  gap = _mixture(prior, posterior, 0.5) - prior
  # w = (1 + q/p) / 2 and v = (1 + p/q) / 2.
  weight = 0.5 + 0.5 * jnp.exp(sign * (posterior - prior))
  return jnp.where(mask, weight * gap - sign * (weight - 1.0), 0.0)
