"""Answer confidence: how likely the policy finds its own final answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def answer_confidence_scores(log_probs: Array, answer_mask: Array) -> Array:
  """Mean probability of the final answer's tokens, given the reasoning.

  An answer that the reasoning repeats word by word is certain, right or wrong.
  In a long answer copied tokens hide the one token that was a guess.

  Source: Du et al. 2025, Confidence as a Reward: Transforming LLMs into Reward
  Models (CRew).

  Args:
    log_probs: `[..., T]` log-probabilities of the sampled tokens, in nats.
    answer_mask: `[..., T]` bool, tokens of the final answer.

  Returns:
    `[...]` float32 in [0, 1]; 0 without an answer.
  """
  probabilities = jnp.exp(base.zero_outside(log_probs, answer_mask))
  return masked.mean(probabilities, answer_mask)


def confidence_gaps(
  confidence: Array, correct: Array, valid: Array | None = None
) -> tuple[Array, Array]:
  """Confidence of the right less that of the wrong sample of each pair; O(S^2).

  CRew-DPO trains on the pairs with the largest gaps.

  Args:
    confidence: `[..., S]`.
    correct: `[..., S]` verdicts; 1 is right, 0 is wrong, samples with -1 are in
      no pair.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    `[..., S, S]` float32, the gaps: entry [i, j] belongs to the right sample i
    and the wrong sample j and is 0 for other pairs; and `[..., S, S]` bool, the
    mask of these pairs.
  """
  correct = jnp.asarray(correct)
  valid = masked.mask_or_ones(correct, valid)
  confidence = base.zero_outside(confidence, valid)
  right, wrong = valid & (correct == 1), valid & (correct == 0)
  pairs = right[..., :, None] & wrong[..., None, :]
  gaps = confidence[..., :, None] - confidence[..., None, :]
  return jnp.where(pairs, gaps, 0.0), pairs


def _last_step_tokens(rollout: types.Rollout) -> Array:
  """Mask of the tokens of each sample's last step, which holds its answer."""
  base.step_scores(rollout)  # raises if the task has no steps
  ids = jnp.where(rollout.valid("token"), rollout.step_ids, -1)
  last = ids.max(-1, keepdims=True)
  answered = base.answered(rollout)[..., None]
  return (ids == last) & (last >= 0) & answered


@transform(takes="none", gives="sample", needs=(base.LOG_PROBS, base.ANSWERS))
def answer_confidence(_, rollout: types.Rollout) -> Array:
  """`answer_confidence_scores` of the last step, which holds the answer."""
  log_probs = rollout.extras[base.LOG_PROBS]
  return answer_confidence_scores(log_probs, _last_step_tokens(rollout))
