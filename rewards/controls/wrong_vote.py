"""Wrong vote: a control reward for giving the most common wrong answer.

Source: Shao et al. 2025, Spurious Rewards: Rethinking Training Signals in RLVR.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.agreement.votes import agreement, vote
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def most_common_wrong_answer(
  answer_ids: Array, correct: Array, valid: Array | None = None
) -> Array:
  """The most common wrong answer of each group; O(S^2).

  The study computes it once with the starting policy and stores it as the
  label. `votes.agreement` then pays for giving it; a label of -1 pays no
  sample.

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    correct: `[..., S]` verdicts; only samples with 0 (wrong) vote.
    valid: `[..., S]` bool, mask of samples; None means all samples.

  Returns:
    `[...]` int32, -1 if no answer is wrong.
  """
  valid = masked.mask_or_ones(answer_ids, valid)
  return vote(answer_ids, valid & (jnp.asarray(correct) == 0)).label


@transform(takes="none", gives="sample", needs=(base.ANSWERS,))
def wrong_vote(_, rollout: types.Rollout) -> Array:
  """1 if the sample gives `most_common_wrong_answer` of its group, else 0.

  The study takes the label from the starting policy. This reward recomputes it
  from every rollout, so the label follows the policy.
  """
  answers, valid = rollout.extras[base.ANSWERS], rollout.sample_mask
  label = most_common_wrong_answer(answers, rollout.correct, valid)
  return agreement(answers, label)
