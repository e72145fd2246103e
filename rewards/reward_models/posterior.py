"""Posterior reward: the judge's score of a thought counts for right answers."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def posterior_scores(
  correct: Array,
  thought_scores: Array,
  format_scores: Array | float = 0.0,
) -> Array:
  """Returns format + outcome + outcome * thought score.

  The outcome is 1 for right answers, else 0.

  Source: Fan et al. 2025, Posterior-GRPO: Rewarding Reasoning Processes in Code
  Generation.

  Args:
    correct: `[...]` verdicts; 1 is right, others count as wrong.
    thought_scores: `[...]` in [0, 1], scores of a judge of reasoning; not read,
      and possibly NaN, for answers that are not right.
    format_scores: `[...]` in {0, 1}.

  Returns:
    `[...]` float32 in [0, 3].
  """
  right = base.is_right(correct)
  return format_scores + jnp.where(
    right, 1.0 + base.zero_outside(thought_scores, right), 0.0
  )


@transform(takes="none", gives="sample")
def posterior(_, rollout: types.Rollout, *, thoughts: str) -> Array:
  """Returns `posterior_scores`, with format score 1 for finished completions.

  Args:
    thoughts: name of the component with a judge's scores of the thoughts.
  """
  return posterior_scores(
    rollout.correct,
    base.read_component(rollout, thoughts),
    rollout.finished.astype(jnp.float32),
  )
