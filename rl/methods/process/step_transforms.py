"""Transforms over steps: the array functions of `step_rewards`, lifted.

The module also holds reductions of step scores to one outcome reward, besides
`min_steps`, `last_step` and `sum_steps` of `transforms`, and the subsets of
samples and tokens over which methods whiten, as arguments of `among`.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.methods.process import step_rewards
from rl.transforms import lift, step_ends, transform

Array = jax.Array


def _steps(rollout: types.Rollout) -> Array:
  """Returns a mask `[P, S, K]` of the steps that exist."""
  return rollout.valid("step")


def _tokens(rollout: types.Rollout) -> Array:
  """Returns a mask `[P, S, T]` of the scored tokens of samples that exist."""
  return rollout.valid("token")


# Rewards of steps.

clip_rewards = lift(step_rewards.clip_rewards, "step", step_mask=_steps)
delta_rewards = lift(step_rewards.delta_rewards, "step", step_mask=_steps)


@transform(takes=("step", "token"))
def normalize_in_group(signal: Array, valid: Array, *, eps: float) -> Array:
  """(r - mean) / (std + eps) over all steps, or all tokens, of a group.

  The statistics are over the entries of all samples of the group (ddof 0). A
  group whose entries are all equal has 0.
  """
  flat = (signal.shape[0], -1)  # [P, S K]: the entries of a group on one axis
  z_scores = advantages.group_normalize(
    signal.reshape(flat), valid.reshape(flat), ddof=0, eps=eps
  )
  return z_scores.reshape(signal.shape)


# Baselines of rewards that are placed on tokens.

minus_others_token_rate = lift(
  step_rewards.minus_others_token_rate,
  "token",
  mask=_tokens,
  step_ends=step_ends,
)
minus_others_step_mean = lift(
  step_rewards.minus_others_step_mean,
  "token",
  mask=_tokens,
  step_ends=step_ends,
)


@transform(takes="token")
def minus_others_mean_return(
  signal: Array, rollout: types.Rollout, *, horizon: int | None = None
) -> Array:
  """G_it - sum_{j != i} sum_t G_jt / ((n - 1) L): the baseline of PURE.

  i and j are samples of one group, t is a token, n is the number of samples of
  the group that have a scored token, and L is `horizon`. A group with one such
  sample has 0.

  Args:
    signal: `[P, S, T]` returns-to-go G.
    rollout: the rollout.
    horizon: L, the longest completion in tokens, a constant instead of the
      length of a sample; None takes T, the padded length of the batch.
  """
  valid = rollout.valid("token")
  members = valid.any(-1)  # [P, S], samples with a scored token
  totals = masked.sum(signal, valid)
  n = masked.count(members, keepdims=True)
  others = masked.sum(totals, members, keepdims=True) - totals
  length = horizon or signal.shape[-1]
  baseline = others / (jnp.maximum(n - 1, 1.0) * length)
  is_single = (n <= 1)[..., None]
  return jnp.where(valid & ~is_single, signal - baseline[..., None], 0.0)


# Reductions of all steps to one outcome reward, of Pan et al. 2023, Let's
# Reinforce Step by Step. The minimum of that paper is `transforms.min_steps`.

product_steps = lift(step_rewards.product, "step", "sample", step_mask=_steps)


@transform(takes="step", gives="sample")
def mean_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Returns the mean over the steps of a sample; 0 if it has no steps."""
  return masked.mean(signal, rollout.valid("step"))


@transform(takes="step", gives="sample")
def max_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Returns the largest score among the steps of a sample; 0 without steps."""
  valid = rollout.valid("step")
  largest = masked.max(signal, valid)
  return jnp.where(valid.any(-1), largest, 0.0)


# Subsets of samples and tokens.


def has_others(rollout: types.Rollout) -> Array:
  """Returns a mask `[P, S]` of samples whose group has at least two samples."""
  valid = rollout.sample_mask
  return valid & (masked.count(valid, keepdims=True) > 1)


def within_steps(rollout: types.Rollout) -> Array:
  """Returns a mask `[P, S, T]` of the scored tokens that do not end a step."""
  return rollout.mask & ~step_ends(rollout)
