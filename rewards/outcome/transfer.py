"""Transfer: a reward for thoughts that another model can continue.

The policy's thought is cut at a random place and a frozen receiver continues
it. The receiver's success is a reward for the reasoning rather than the answer:
reasoning that only the policy itself can use earns nothing.

No registered reward calls these functions yet.

Usage in a sampler, with the receiver as a parameter set:
  prefix = transfer.kept_tokens(thought_lengths, fractions, answer_starts)
  part = batch.extend(batch.parameter_sets["receiver"], rollout, prefix, 4)
  scores = transfer.transferred(correct, part.correct.reshape(P, S, 4))

Source: Robust Reasoning via Transfer Reward (RLTR), 2025. From its abstract:
the sum and its weight are our reading.
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
  """Number of tokens of a thought that the receiver sees, floor(tau length).

  Args:
    lengths: `[...]` int, number of tokens of the thought.
    fractions: `[...]` tau in [0, 1], drawn for every sample.
    answer_starts: `[...]` int, position where the answer is first stated, -1 if
      it is not. The receiver sees at most the tokens before it, since otherwise
      any thought transfers. None means that no thought states its answer.

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
  """R = 1[right] + weight r + format, r the receiver's share of right answers.

  A wrong answer may have a helpful thought and then earns up to the weight. To
  prevent this, gate r (`combine.Term.gates`). With a weight below 1 no wrong
  answer scores above a right one. A thought that states the answer transfers
  best, and an empty one earns what the receiver achieves alone.

  Args:
    correct: `[...]` verdicts of the policy; 1 is right.
    continued: `[..., M]` verdicts of M continuations; unknown ones (-1) do not
      count, and r is 0 without a verdict.
    weight: lambda; 0 gives the outcome and the format.
    format_scores: `[...]`.

  Returns:
    `[...]` float32.
  """
  has_verdict = jnp.asarray(continued) >= 0
  right = base.is_right(continued).astype(jnp.float32)
  share = masked.mean(right, has_verdict)
  return base.is_right(correct) + weight * share + format_scores
