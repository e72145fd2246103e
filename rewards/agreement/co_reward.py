"""Co-rewarding: each of two wordings of a question labels the other's answers.

The label of a wording is the most common answer to the other wording.
"""

from __future__ import annotations

import jax

from rewards import base
from rewards.agreement.votes import agreement, vote
from rl import types
from rl.transforms import transform

Array = jax.Array


def co_reward_scores(
  original_ids: Array,
  paraphrase_ids: Array,
  original_valid: Array | None = None,
  paraphrase_valid: Array | None = None,
) -> tuple[Array, Array]:
  """Returns 1 for the most common answer to the other wording, else 0.

  A wrong answer that is common for only one wording scores 0. If the samples of
  both wordings are the same, the scores are those of `majority_scores`. If all
  samples of both wordings give the same wrong answer, all score 1. The cost is
  O(S^2 + R^2).

  Source: Zhang et al. 2025, Co-rewarding: Stable Self-supervised RL for
  Eliciting Reasoning in Large Language Models (I).

  Args:
    original_ids: `[..., S]` int, answers to the original wording, -1 for no
      answer.
    paraphrase_ids: `[..., R]` int, answers to the other wording, with the same
      numbering.
    original_valid: `[..., S]` bool, True if the sample exists; None: all exist.
    paraphrase_valid: `[..., R]` bool, the same for the other wording.

  Returns:
    Scores of the samples of both wordings, `[..., S]` and `[..., R]` float32.
  """
  by_original = vote(original_ids, original_valid).label
  by_paraphrase = vote(paraphrase_ids, paraphrase_valid).label
  return (
    agreement(original_ids, by_paraphrase, original_valid),
    agreement(paraphrase_ids, by_original, paraphrase_valid),
  )


@transform(
  takes="none", gives="sample", needs=(base.ANSWERS, base.PARAPHRASE_ANSWERS)
)
def co_reward(_, rollout: types.Rollout) -> Array:
  """Returns `co_reward_scores` of the samples that answer the original wording.

  "task/paraphrase_answer_ids" `[P, S]` holds answers to the other wording.
  Quantity: co_reward, by group.
  """
  original = rollout.extras[base.ANSWERS]
  paraphrase = rollout.extras[base.PARAPHRASE_ANSWERS]
  return co_reward_scores(original, paraphrase, rollout.sample_mask)[0]
