"""UCPO: GRPO that spreads probability evenly over the right answers.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rl import UsageError, masked, scoring, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.transforms import chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the old policy (at the start of the training step).
_OLD = scoring.Need("old", scoring.log_probs)


@transform(takes="sample", needs={_OLD})
def inverse_probability(
  signal: jax.Array, rollout: types.Rollout, *, tau: float
) -> jax.Array:
  """Returns A_i ((1 - tau) + tau c u_i) for the c right samples, else A_i.

  u_i is 1 / q_i divided by its sum over the right samples of the group, and q
  the softmax over them of the mean log-prob per token under the old policy. The
  mean of the factor over the right samples is 1.
  """
  right = rollout.sample_mask & (rollout.correct == 1)
  # Mean log-probability of a token, [P, S]. 1 / q is proportional to its
  # exponential with the opposite sign.
  likelihood = masked.mean(rollout.extras[_OLD], rollout.valid("token"))
  u = jax.nn.softmax(jnp.where(right, -likelihood, -jnp.inf), -1, where=right)
  c = masked.count(right, keepdims=True)
  return signal * jnp.where(right, 1 - tau + tau * c * u, 1.0)


def ucpo(tau: float = 0.2, clip: float = 0.2, beta: float = 0.0) -> Method:
  """A = z-score of the score, times c / q_i for right samples, normalised.

  The c right samples of a group have the advantage A_i of `grpo` times (1 -
  tau) + tau c (1 / q_i) / sum_j (1 / q_j). q_i is the share of sample i among
  the right ones: the softmax of their mean log-probs per token under pi_old,
  the policy at the start of the training step. The sum of the advantages of the
  right samples is unchanged, and less likely ones get more of it; with tau = 0
  it is `grpo`. A group with one right sample is that of `grpo`. The loss is
  that of `grpo`.
  Deviation: the paper adds a penalty on the divergence of the policy among
  right answers from the uniform one; the equation here is that of its released
  code, whose default of tau it also is.
  Source: Lochab et al. 2026, Uniform-Correct Policy Optimization: Breaking
  RLVR's Indifference to Diversity (UCPO), arXiv 2605.00365, of which the
  abstract and the released code were read.
  Quantity: inverse_probability.

  Args:
    tau: share of the advantage that is distributed by 1 / q, 0 to 1.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    beta: weight of the KL; 0 drops the reference and its forward pass.

  Raises:
    UsageError: tau is out of range.
  """
  if not 0 <= tau <= 1:
    raise UsageError(f"tau = {tau} must be from 0 to 1; the default is 0.2")
  return dataclasses.replace(
    grpo(clip, beta),
    advantage=chain(scores(), group_normalize(), inverse_probability(tau)),
  )
