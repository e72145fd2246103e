"""Answer confidence: the mean probability of the final answer's tokens."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def answer_confidence_scores(log_probs: Array, answer_mask: Array) -> Array:
  """Returns the mean probability of the final answer's tokens.

  If the reasoning already states the answer, the probability is near 1, whether
  the answer is right or wrong. In a long answer many certain tokens hide one
  uncertain token.

  Source: Du et al. 2025, Confidence as a Reward: Transforming LLMs into Reward
  Models (CRew).

  Args:
    log_probs: `[..., T]` log-probabilities of the sampled tokens, in nats.
    answer_mask: `[..., T]` bool, True for the tokens of the final answer.

  Returns:
    `[...]` float32 in [0, 1]; 0 without an answer.
  """
  probabilities = jnp.exp(base.zero_outside(log_probs, answer_mask))
  return masked.mean(probabilities, answer_mask)


def confidence_gaps(
  confidence: Array, correct: Array, valid: Array | None = None
) -> tuple[Array, Array]:
  """Returns confidence gaps of pairs of a right and a wrong sample; O(S^2).

  CRew-DPO trains on the pairs with the largest gaps.

  Args:
    confidence: `[..., S]`, confidence of each sample of a group.
    correct: `[..., S]` verdicts; 1 is right, 0 is wrong, samples with -1 are in
      no pair.
    valid: `[..., S]` bool, True if the sample exists; None: all exist.

  Returns:
    The gaps, `[..., S, S]` float32, and the mask of pairs, `[..., S, S]` bool.
    Entry [i, j] is the confidence of i minus that of j if sample i is right and
    sample j is wrong, else 0, and the mask False.
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
  """Returns `answer_confidence_scores` of the last step's tokens.

  The last reasoning step is taken as the answer. Samples without an answer
  score 0.
  """
  log_probs = rollout.extras[base.LOG_PROBS]
  return answer_confidence_scores(log_probs, _last_step_tokens(rollout))
