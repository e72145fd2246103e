"""GRPO that rewards a right answer more, the less likely it was.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.transforms import chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the old policy (at the start of the training step).
_OLD = scoring.Need("old", scoring.log_probs)


@transform(takes="sample", needs={_OLD})
def discount_likely(
  signal: jax.Array, rollout: types.Rollout, *, beta_rank: float
) -> jax.Array:
  """Returns R_i (1 - beta_rank * rank_i / n) for right samples, else R_i.

  The n samples of a group are ranked by their mean log-prob per token under the
  old policy: rank 0 is the least likely sample and n - 1 the most likely one.
  Of equally likely samples the one with the lower index has the lower rank.
  """
  valid = rollout.sample_mask
  # Mean log-probability of a token, [P, S].
  likelihood = masked.mean(rollout.extras[_OLD], rollout.valid("token"))
  # The argsort of an argsort is the rank. Invalid samples rank last.
  order = jnp.argsort(jnp.where(valid, likelihood, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1)
  n = jnp.maximum(masked.count(valid, keepdims=True), 1.0)
  right = rollout.correct == 1
  factor = jnp.where(right, 1.0 - beta_rank * rank / n, 1.0)
  return signal * factor


def unlikeliness(
  beta_rank: float = 0.25, clip: float = 0.2, beta: float = 0.1
) -> Method:
  """A = z-score of R_i (1 - beta_rank rank_i / n), rank by mean log pi_old.

  R_i [P, S] is the score of sample i, n the size of its group, and pi_old the
  policy at the start of the training step. Rank 0 is the least likely sample of
  the group. The factor applies to samples with a right verdict; the other
  samples keep R_i. Hence a group of right samples only has differing rewards,
  and its most likely samples get negative advantages. The loss is that of
  `grpo`; the default of beta is the paper's, larger than that of `grpo`. The
  paper makes two epochs over a rollout (`plan.epochs` of the config).
  Left out: the paper skips groups whose advantages are below a threshold.
  Source: He et al. 2025, Rewarding the Unlikely.
  Quantity: discount_likely.

  Args:
    beta_rank: largest share of the score that the rank takes away, almost
      reached by the most likely sample.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    beta: weight of the KL; 0 drops the reference and its forward pass.
  """
  return dataclasses.replace(
    grpo(clip, beta),
    advantage=chain(scores(), discount_likely(beta_rank), group_normalize()),
  )
