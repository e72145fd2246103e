"""Phase entropy: right answers score less if the thought has more entropy.

The completion has two phases, the thought and the answer after an end marker.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def first_position(completions: Array, mask: Array, token: int) -> Array:
  """Returns the position of a token's first occurrence; T if there is none.

  Args:
    completions: `[..., T]` int token ids.
    mask: `[..., T]` bool, True for the tokens of the completion.
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
  """Scores right answers 1 minus a charge for the entropy of the thought.

  The charge is max(0, thought - alpha * answer), with the mean entropies of the
  next-token predictions over the tokens of each phase. The end marker is in
  neither phase. Without a marker all tokens are thought, and the entropy of the
  answer is 0. Samples that are not right get their format score.

  Source: Huang et al. 2025, PEAR: Phase Entropy Aware Reward for Efficient
  Reasoning.

  Args:
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    token_entropies: `[..., T]` under the policy that sampled, in nats.
    mask: `[..., T]` bool, True for the tokens of the completion.
    thought_end: `[...]` int, position of the end marker (`first_position`), T
      without a marker.
    format_scores: `[...]`, scores of samples that are not right, in [0, 1).
    alpha: multiple of the answer's entropy that the thought may have without a
      charge.

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
  """Returns `phase_entropy_scores`, with format score 0.

  Args:
    thought_end: id of the token that ends a thought.
    alpha: same as in `phase_entropy_scores`.
  """
  mask = rollout.valid("token")
  return phase_entropy_scores(
    rollout.correct,
    rollout.extras[base.ENTROPY],
    mask,
    first_position(rollout.completions, mask, thought_end),
    alpha=alpha,
  )
