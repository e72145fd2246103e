"""Posterior reward: a judge of reasoning counts only if the answer is right."""

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
  """R = R_f + R_o + R_o R_t: the thought counts if the outcome is right.

  Source: Fan et al. 2025, Posterior-GRPO: Rewarding Reasoning Processes in Code
  Generation.

  Args:
    correct: `[...]` verdicts; 1 is right.
    thought_scores: `[...]` in [0, 1], scores of a judge of reasoning. They are
      read for right answers only; others have no effect, also if they are NaN.
    format_scores: `[...]` in {0, 1}.

  Returns:
    `[...]` float32 from 0 to 3.
  """
  right = base.is_right(correct)
  return format_scores + jnp.where(
    right, 1.0 + base.zero_outside(thought_scores, right), 0.0
  )


@transform(takes="none", gives="sample")
def posterior(_, rollout: types.Rollout, *, thoughts: str) -> Array:
  """`posterior_scores`; `thoughts` is the component of a judge of reasoning."""
  return posterior_scores(
    rollout.correct,
    base.read_component(rollout, thoughts),
    rollout.finished.astype(jnp.float32),
  )
