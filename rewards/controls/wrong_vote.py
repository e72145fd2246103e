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
  """Returns the most common wrong answer of each group; O(S^2).

  The paper computes this answer once, with the policy before training, and
  stores it as the label of the prompt. `votes.agreement` scores a sample 1 if
  it gives the label; for the label -1 all samples score 0.

  Args:
    answer_ids: `[..., S]` int, -1 for no answer.
    correct: `[..., S]` verdicts; only samples with 0 (wrong) vote.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[...]` int32, -1 if no answer is wrong.
  """
  valid = masked.mask_or_ones(answer_ids, valid)
  return vote(answer_ids, valid & (jnp.asarray(correct) == 0)).label


@transform(takes="none", gives="sample", needs=(base.ANSWERS,))
def wrong_vote(_, rollout: types.Rollout) -> Array:
  """Returns 1 for the `most_common_wrong_answer` of the group, else 0.

  Deviation: the paper takes the label from the policy before training; this
  implementation computes it from every rollout, so the label changes with the
  policy.
  """
  answers, valid = rollout.extras[base.ANSWERS], rollout.sample_mask
  label = most_common_wrong_answer(answers, rollout.correct, valid)
  return agreement(answers, label, valid)
