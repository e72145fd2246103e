"""Cluster share: a reward equal to the share of the group with the same answer.

The reward needs no labels. A policy that gives the same answer to every prompt
scores 1, so monitor the true score and `votes.answer_entropy`, which is then 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.agreement.votes import answer_entropy, answer_shares
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def cluster_share_scores(
  answer_ids: Array,
  valid: Array | None = None,
  low: float = 0.0,
  high: float = jnp.inf,
) -> Array:
  """Returns the share of the group that gives the same answer.

  If p_c is the policy's probability of answer c, the expected share is about
  sum_c p_c^2, so the reward lowers the entropy of the answers. All samples of a
  group score 0 if no answer occurs twice, or if the entropy of the group's
  answers lies outside [low, high]. O(S^2).

  Source: Zhang et al. 2025, Right Question is Already Half the Answer: Fully
  Unsupervised LLM Reasoning Incentivization (EMPO), on parsed answers; without
  the two conditions it is the soft variant of Shafayat et al. 2025 (SRT).

  Open: the bounds of the paper are unknown; by default they exclude no group.

  Args:
    answer_ids: `[..., S]` int, ids of clusters of equal meaning, -1 for no
      answer.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.
    low: smallest entropy at which a group is rewarded, in nats.
    high: largest entropy at which a group is rewarded, in nats.

  Returns:
    `[..., S]` float32 in [0, 1]; 0 for samples without an answer.
  """
  valid = masked.mask_or_ones(answer_ids, valid)
  shares = answer_shares(answer_ids, valid)
  n = jnp.maximum(masked.count(valid), 1.0)
  # The count of the most common answer is an integer; 1.5 separates 1 from 2.
  repeated = shares.max(-1) * n > 1.5
  entropy = answer_entropy(answer_ids, valid)
  used = repeated & (entropy >= low) & (entropy <= high)
  return jnp.where(used[..., None], shares, 0.0)


@transform(takes="none", gives="sample", needs=(base.ANSWERS,))
def cluster_share(
  _, rollout: types.Rollout, *, low: float = 0.0, high: float = jnp.inf
) -> Array:
  """Returns `cluster_share_scores` of the answers that the task reads."""
  answers = rollout.extras[base.ANSWERS]
  return cluster_share_scores(answers, rollout.sample_mask, low, high)
