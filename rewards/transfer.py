"""Good reasoning helps another model too: half of a thought, continued by it.

The policy's thought is cut at a random place and a frozen receiver goes on from
there. Its success is a reward of the reasoning, not of the answer: what only
the policy itself can make use of earns nothing.

Usage in a sampling stage, with the receiver in a slot:
  kept = transfer.kept_tokens(thought_lengths, fractions, answer_starts)
  part = sampler.extend(sampler.slots["receiver"], rollout, kept, 4)
  scores = transfer.transferred(correct, part.correct.reshape(P, S, 4))

Source: Robust Reasoning via Transfer Reward (RLTR), 2025. From its abstract:
the sum and its weight are our reading.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right
from rl import masked

Array = jax.Array


def kept_tokens(
  lengths: Array, fractions: Array, answer_starts: Array | None = None
) -> Array:
  """How many tokens of a thought the receiver is shown, floor(tau length).

  Args:
    lengths: `[...]` int tokens of the thought.
    fractions: `[...]` tau in [0, 1], drawn anew for every sample.
    answer_starts: `[...]` int, where the answer is first stated: no more than
      what stands before it is shown, or anything transfers. -1 of a thought
      that does not state it; None: none does.

  Returns:
    `[...]` int32.
  """
  kept = jnp.floor(fractions * lengths).astype(jnp.int32)
  if answer_starts is None:
    return kept
  stated = jnp.asarray(answer_starts) >= 0
  return jnp.where(stated, jnp.minimum(kept, answer_starts), kept)


def transferred(
  correct: Array,
  continued: Array,
  weight: float = 1.0,
  format_scores: Array | float = 0.0,
) -> Array:
  """R = 1[right] + weight r + format, r the receiver's share of right answers.

  A wrong answer may still have a thought that helps, and then earns up to the
  weight; where that is not wanted, put r behind a gate (`combine.Term.gates`).
  Below a weight of 1 no wrong answer beats a right one. Its weaknesses: a
  thought that states the answer transfers best, and an empty one earns what the
  receiver can do by itself.

  Args:
    correct: `[...]` verdicts of the policy, 1 right.
    continued: `[..., M]` verdicts of M continuations; unknown ones (-1) do not
      count, r of none is 0.
    weight: lambda; 0 is the outcome and the format.
    format_scores: `[...]`.

  Returns:
    `[...]` float32.
  """
  known = jnp.asarray(continued) >= 0
  helped = masked.mean(is_right(continued).astype(jnp.float32), known)
  return is_right(correct) + weight * helped + format_scores
