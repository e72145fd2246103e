"""Transfer: a reward for thoughts that another model can continue.

The policy's thought is cut at a random token, and a frozen model, the receiver,
continues it. The success of the receiver is a reward for reasoning that another
model can use.

No registered reward calls these functions yet.

Usage in a sampler for S samples of P prompts, with the receiver as a parameter
set of the method and 4 continuations:
  prefix = transfer.kept_tokens(thought_lengths, fractions, answer_starts)
  continued = batch.extend(
    batch.parameter_sets["receiver"], rollout, prefix, 4)
  scores = transfer.transferred(correct, continued.correct.reshape(P, S, 4))

Source: Robust Reasoning via Transfer Reward (RLTR), 2025.

Open: implemented from the abstract; the sum and its weight are guesses.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def kept_tokens(
  lengths: Array, fractions: Array, answer_starts: Array | None = None
) -> Array:
  """Returns how many tokens of a thought the receiver sees.

  It is floor(fraction * length), or fewer if the thought states its answer
  earlier.

  Args:
    lengths: `[...]` int, number of tokens of the thought.
    fractions: `[...]` in [0, 1], drawn at random for every sample.
    answer_starts: `[...]` int, position where the thought first states the
      answer, -1 if it does not. The receiver sees at most the tokens before
      this position, so that it cannot copy the answer. None means that no
      thought states its answer.

  Returns:
    `[...]` int32.
  """
  tokens = jnp.floor(fractions * lengths).astype(jnp.int32)
  if answer_starts is None:
    return tokens
  stated = jnp.asarray(answer_starts) >= 0
  return jnp.where(stated, jnp.minimum(tokens, answer_starts), tokens)


def transferred(
  correct: Array,
  continued: Array,
  weight: float = 1.0,
  format_scores: Array | float = 0.0,
) -> Array:
  """Returns 1[right] + weight * r + format score.

  r is the share of the receiver's continuations that are right. A wrong answer
  with a helpful thought scores up to the weight; a gate (`combine.Term.gates`)
  prevents this. With a weight below 1 and equal format scores, no wrong answer
  scores above a right one. For an empty thought, r is the receiver's success
  without help.

  Args:
    correct: `[...]` verdicts of the policy; 1 is right, others count as wrong.
    continued: `[..., M]` verdicts of M continuations. Unknown verdicts (-1) do
      not count; if all are unknown, r is 0.
    weight: weight of r.
    format_scores: `[...]`, added to the score.

  Returns:
    `[...]` float32.
  """
  has_verdict = jnp.asarray(continued) >= 0
  right = base.is_right(continued).astype(jnp.float32)
  share = masked.mean(right, has_verdict)
  return base.is_right(correct) + weight * share + format_scores
