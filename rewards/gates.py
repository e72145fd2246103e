"""Rewards of the process that count only where the outcome allows it.

A judge of reasoning can be talked round; an outcome is checked. So the judged
part stands behind a gate, and where the gate is closed nothing that it says
changes the reward: its value there may be anything, NaN included, and the
gradient to it is exactly 0.

Usage:
  scores = gates.posterior(correct, thought_scores, format_scores)
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present

Array = jax.Array


def gated_accumulation(
  rewards: Array, levels: Array, thresholds: Array, mask: Array
) -> Array:
  """Step rewards of several levels, each behind all levels of higher priority.

  r_t = sum_i 1[R^(j) > v_j for all j > i] r_t^(i), levels in rising priority:
  the last one (the outcome) always counts, the one before it where the outcome
  exceeds its threshold, and so on. A trajectory that timed out has failed: give
  it the lowest outcome.

  A threshold too low lets the dense levels rule, one too high leaves them
  unused; the paper's values are not known to us.

  Source: Stabilizing Long-term Multi-turn Reinforcement Learning with Gated
  Rewards (G-RA).

  Args:
    rewards: `[..., I, T]` of each level at each step or token.
    levels: `[..., I]` R^(i), of the whole trajectory.
    thresholds: `[I]` v, broadcast against `levels`; the first is not used.
    mask: `[..., T]` bool, steps that exist.

  Returns:
    `[..., T]` float32, 0 where masked.
  """
  passed = levels > thresholds  # NaN is not above anything
  # Open if every later level passed.
  later = jnp.concatenate(
    [passed[..., 1:], jnp.ones_like(passed[..., :1])], -1
  ).astype(jnp.int32)
  opened = jax.lax.cummin(later, axis=later.ndim - 1, reverse=True) > 0
  counted = opened[..., None] & mask[..., None, :]
  return present(rewards, counted).sum(-2)


def posterior(
  correct: Array,
  thought_scores: Array,
  format_scores: Array | float = 0.0,
) -> Array:
  """R = R_f + R_o + R_o R_t: the thought counts where the outcome is right.

  Source: Fan et al. 2025, Posterior-GRPO: Rewarding Reasoning Processes in Code
  Generation.

  Args:
    correct: `[...]` verdicts, 1 right.
    thought_scores: `[...]` in [0, 1], of a model of reasoning's quality; read
      where right only.
    format_scores: `[...]` in {0, 1}.

  Returns:
    `[...]` float32, 0 to 3.
  """
  right = is_right(correct)
  return format_scores + jnp.where(
    right, 1.0 + present(thought_scores, right), 0.0
  )


def concise(
  correct: Array,
  conciseness: Array,
  anneal: Array | float = 1.0,
  difficulty: Array | float = 0.0,
  alpha: float = 1.0,
) -> Array:
  """R = 1[right] (1 + alpha c (s + d)): short reasoning, where it was right.

  Bounded by 1 + alpha (s + d) for c in (0, 1].

  Source: Efficient Reasoning via Reward Model (CRF). The schedule of s and the
  form of d are not known to us; the group's accuracy is a natural d, as easy
  prompts need fewer words.

  Args:
    correct: `[...]` verdicts, 1 right.
    conciseness: `[...]` c, of a model, in [.1, 1]; read where right only.
    anneal: s, a number or an array, of a schedule.
    difficulty: d, broadcast against `correct`.
    alpha: 0 is the verdict.

  Returns:
    `[...]` float32.
  """
  right = is_right(correct)
  bonus = alpha * present(conciseness, right) * (anneal + difficulty)
  return jnp.where(right, 1.0 + bonus, 0.0)
