"""COPO: advantages within the group, or across prompts if its answers agree.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

# A need: the extra "task/answer_ids", provided by the task.
# [P, S], equal for samples with the same final answer.
_ANSWERS = scoring.provided("task", "answer_ids")


@transform(takes="sample")
def group_mean_z_score(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Returns the z-score of the group's mean signal among the prompts.

  Every sample of a group has the same value. The standard deviation has ddof 0.
  """
  means = masked.mean(signal, rollout.sample_mask)  # [P]
  z = masked.whiten(means, rollout.valid("prompt"), 0)
  return jnp.where(rollout.sample_mask, z[:, None], 0.0)


@transform(takes="sample", needs={_ANSWERS})
def gate_by_disagreement(
  signal: jax.Array, rollout: types.Rollout, *, gamma: float, rho: float
) -> jax.Array:
  """Multiplies the signal A by sigmoid(gamma (H - rho)).

  H is the entropy of the answers of a group, divided by log n for n samples: 0
  if all answers have the same id, or the group has one sample; 1 if all differ.
  """
  ids, valid = rollout.extras[_ANSWERS], rollout.sample_mask
  n = masked.count(valid, keepdims=True)
  same = (ids[:, :, None] == ids[:, None, :]) & valid[:, None, :]  # [P, S, S]
  # -log of the share of samples with the same answer, [P, S]. Its mean over the
  # samples is the entropy of the answers.
  surprise = jnp.log(jnp.maximum(n, 1.0) / jnp.maximum(same.sum(-1), 1))
  entropy = masked.mean(surprise, valid, keepdims=True)
  normalized_entropy = entropy / jnp.log(jnp.maximum(n, 2.0))
  return signal * jax.nn.sigmoid(gamma * (normalized_entropy - rho))


def copo(gamma: float = 10.0, rho: float = 0.5, clip: float = 0.2) -> Method:
  """L = w L(A_group) + (1 - w) L(A_batch), with a weight w for each prompt.

    A_group  (R_i - mean R) / std R within the group
    A_batch  z-score of the group's mean score among the prompts of the batch
    w        sigmoid(gamma (H - rho)), H the entropy of the group's final
             answers divided by log n

  R_i [P, S] is the score of sample i and n the size of its group. L(A) is
  PPO-clip with advantage A, averaged over the tokens of all samples, without a
  KL. If all samples of a group give one answer, their scores are equal and
  A_group is 0; then the mean score of the group is compared with those of other
  prompts, so that a unanimous wrong answer is pushed down. Answers are compared
  by "task/answer_ids" [P, S]; answers that could not be parsed count as one
  answer if the task gives them one id.
  Open: the form of the gate w, gamma, rho and the aggregation over tokens are
  not known from the paper; they are guesses.
  Source: Han et al. 2025, COPO: Consistency-Aware Policy Optimization.
  Quantity: task/answer_ids, by prompt.

  Args:
    gamma: slope of the gate in H.
    rho: value of H at which both losses have the weight 1/2.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  within = chain(scores(), group_normalize(), gate_by_disagreement(gamma, rho))
  across = chain(
    scores(), group_mean_z_score(), gate_by_disagreement(-gamma, rho)
  )
  loss = policy_gradient(ppo_clip(clip, clip))
  # sigmoid(-x) = 1 - sigmoid(x), so the weights of both terms add up to 1.
  return Method(advantage=within, loss=loss + loss.of(signal=across))
