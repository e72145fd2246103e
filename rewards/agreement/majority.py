"""Majority vote: a reward for giving the most common answer of the group.

The reward needs no labels. A policy that gives the same answer to every prompt
scores 1, so monitor the true score and `votes.answer_entropy`, which is then 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.agreement.votes import agreement, vote
from rl import types
from rl.transforms import transform

Array = jax.Array


def majority_scores(
  answer_ids: Array, threshold: float = 0.0, valid: Array | None = None
) -> Array:
  """Returns 1 for the most common answer of the group, else 0.

  If the share of the most common answer is below the threshold, all samples of
  the group score 0. The paper also removes such a group from the KL term of the
  loss; `vote(...).share` tells which groups these are. O(S^2).

  Source: Shafayat et al. 2025, Can Large Reasoning Models Self-Train? (SRT).

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    threshold: smallest share of the most common answer; the paper uses 0.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S]` float32.
  """
  label, share = vote(answer_ids, valid)
  labels = jnp.where(share >= threshold, label, -1)
  return agreement(answer_ids, labels, valid)


@transform(takes="none", gives="sample", needs=(base.ANSWERS,))
def majority(_, rollout: types.Rollout, *, threshold: float = 0.0) -> Array:
  """Returns `majority_scores` of the answers that the task reads.

  Quantity: majority, by group.
  """
  answers = rollout.extras[base.ANSWERS]
  return majority_scores(answers, threshold, rollout.sample_mask)
