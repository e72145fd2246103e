"""RS-GRPO: the risk-seeking objective, a log of an exponential mean.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform


@transform(takes="sample")
def risk_seeking(
  signal: jax.Array, rollout: types.Rollout, *, beta: float
) -> jax.Array:
  """Returns (exp(beta R_i) / mean_j exp(beta R_j) - 1) / beta.

  The mean is over the group and includes sample i. For beta = 0 the result is
  R_i - mean R.

  Args:
    signal: `[P, S]` scores R.
    rollout: the rollout.
    beta: inverse temperature, in units of 1 / score.
  """
  valid = rollout.sample_mask
  if beta == 0:
    return advantages.center(signal, valid)
  highest = masked.max(beta * signal, valid, keepdims=True)
  weights = jnp.exp(beta * signal - highest)
  # `center` is exactly 0 in a group of equal scores.
  centered = advantages.center(weights, valid)
  mean = masked.mean(weights, valid, keepdims=True)
  return centered / jnp.where(mean > 0, mean, 1.0) / beta


def rs_grpo(beta: float = 2.0, clip: float = 0.2) -> Method:
  """A_i = (exp(beta R_i) / mean exp(beta R) - 1) / beta: risk-seeking GRPO.

  The objective is E over prompts of (1/beta) log E[exp(beta R)], which for
  beta > 0 lies between the mean score (beta -> 0) and the best score that the
  policy can sample (beta -> infinity). R_i [P, S] is the score of sample i, and
  the mean is over its group of n samples, itself included: A sums to 0, and its
  bias is of order 1/n. With scores of 0 and 1 and beta -> infinity, beta A is
  the advantage of `maxrl`. The loss is PPO-clip, averaged over the tokens of
  all samples, without a KL; the advantage is not divided by a standard
  deviation.
  Source: Risk-Sensitive RL for Alleviating Exploration Dilemmas (RS-GRPO),
  arXiv 2509.24261, with the default of its released code.

  Args:
    beta: inverse temperature, in units of 1 / score. 0 is the mean score.
      Negative values are risk-averse: the objective then lies between the worst
      score and the mean.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), risk_seeking(beta)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
