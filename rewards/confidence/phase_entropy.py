"""Phase entropy: right answers pay for a thought less sure than the answer."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def first_position(completions: Array, mask: Array, token: int) -> Array:
  """Position of the first occurrence of a token, T if there is none.

  Args:
    completions: `[..., T]` int.
    mask: `[..., T]` bool, tokens of the completion.
    token: token id, for example of the end of thinking.

  Returns:
    `[...]` int32.
  """
  matches = mask & (completions == token)
  size = completions.shape[-1]
  return jnp.where(matches.any(-1), jnp.argmax(matches, -1), size)


def phase_entropy_scores(
  correct: Array,
  token_entropies: Array,
  mask: Array,
  thought_end: Array,
  format_scores: Array | float = 0.0,
  alpha: float = 1.0,
) -> Array:
  """Right answers pay if the thought has more entropy than the answer.

    P = max(0, mean H of the thought - alpha mean H of the answer)
    R = 1 - P for right answers, else the format score in [0, 1)

  The end marker counts in neither phase. Without a marker all tokens are
  thought and the entropy of the answer is 0. P does not affect wrong samples.

  Source: Huang et al. 2025, PEAR: Phase Entropy Aware Reward for Efficient
  Reasoning.

  Args:
    correct: `[...]` verdicts; 1 is right.
    token_entropies: `[..., T]` under the policy that sampled, in nats.
    mask: `[..., T]` bool, tokens of the completion.
    thought_end: `[...]` int, position of the end marker (`first_position`), T
      without a marker.
    format_scores: `[...]`, scores of samples that are not right.
    alpha: multiple of the answer's entropy that the thought may have.

  Returns:
    `[...]` float32.
  """
  entropies = base.zero_outside(token_entropies, mask)
  positions = jnp.arange(mask.shape[-1])
  end = jnp.asarray(thought_end)[..., None]
  thought = masked.mean(entropies, mask & (positions < end))
  answer = masked.mean(entropies, mask & (positions > end))
  penalty = jnp.maximum(thought - alpha * answer, 0.0)
  right = base.is_right(correct)
  return jnp.where(
    right, 1.0 - base.zero_outside(penalty, right), format_scores
  )


@transform(takes="none", gives="sample", needs=(base.ENTROPY,))
def phase_entropy(
  _, rollout: types.Rollout, *, thought_end: int, alpha: float = 1.0
) -> Array:
  """`phase_entropy_scores`; `thought_end` is the token that ends a thought."""
  mask = rollout.valid("token")
  return phase_entropy_scores(
    rollout.correct,
    rollout.extras[base.ENTROPY],
    mask,
    first_position(rollout.completions, mask, thought_end),
    alpha=alpha,
  )
