"""Transforms over steps: the array functions of `step_rewards`, lifted.

Beside them stand the reductions of step scores to one outcome reward (with
`min_steps`, `last_step` and `sum_steps` of `transforms`), and the subsets that
whitening leaves out, for `among`.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.methods.process import step_rewards
from rl.transforms import lift, step_ends, transform

Array = jax.Array


def _steps(rollout: types.Rollout) -> Array:
  return rollout.valid("step")


def _tokens(rollout: types.Rollout) -> Array:
  return rollout.valid("token")


# Rewards of steps.

clip_rewards = lift(step_rewards.clip_rewards, "step", step_mask=_steps)
delta_rewards = lift(step_rewards.delta_rewards, "step", step_mask=_steps)

# Baselines of placed rewards.

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


@transform("token")
def minus_others_mean_return(
  signal: Array, rollout: types.Rollout, *, horizon: int | None = None
) -> Array:
  """G_it - sum_{j != i} sum_t G_jt / ((n - 1) L): the baseline of PURE.

  Args:
    signal: `[P, S, T]` returns-to-go.
    horizon: L, the longest completion in tokens, a constant and not the
      sample's length; None takes the T of the batch.

  A group of one has no baseline: advantage 0.
  """
  valid = rollout.valid("token")
  rows = valid.any(-1)  # a sample without a scored token is no member
  totals = masked.sum(signal, valid)
  n = masked.count(rows, keepdims=True)
  others = masked.sum(totals, rows, keepdims=True) - totals
  length = horizon or signal.shape[-1]
  baseline = others / (jnp.maximum(n - 1, 1.0) * length)
  alone = (n <= 1)[..., None]
  return jnp.where(valid & ~alone, signal - baseline[..., None], 0.0)


# One outcome reward of all steps (Pan et al. 2023, Let's Reinforce Step by
# Step); the fourth of theirs, the minimum, is `transforms.min_steps`.

product_steps = lift(step_rewards.product, "step", "sample", step_mask=_steps)


@transform("step", "sample")
def mean_steps(signal: Array, rollout: types.Rollout) -> Array:
  """Mean over the steps of a sample; 0 of none."""
  return masked.mean(signal, rollout.valid("step"))


@transform("step", "sample")
def max_steps(signal: Array, rollout: types.Rollout) -> Array:
  """The best step of a sample; 0 of none."""
  valid = rollout.valid("step")
  best = masked.max(signal, valid)
  return jnp.where(valid.any(-1), best, 0.0)


# Subsets.


def has_others(rollout: types.Rollout) -> Array:
  """`[P, S]` samples whose group has another one to be compared with."""
  real = rollout.sample_mask
  return real & (masked.count(real, keepdims=True) > 1)


def within_steps(rollout: types.Rollout) -> Array:
  """`[P, S, T]` scored tokens that do not end a step."""
  return rollout.mask & ~step_ends(rollout)
