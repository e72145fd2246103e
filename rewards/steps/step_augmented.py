"""Step-augmented outcome: the share of right steps beside the verdict."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


@transform(takes="none", gives="sample")
def step_augmented(
  _,
  rollout: types.Rollout,
  *,
  verdict: str = "",
  well_formed: str = "",
  weight: float = 0.4,
) -> Array:
  """Returns 1[well-formed] (w k / n + (1 - w) y), from 0 to 1, `[P, S]`.

  k of the n steps of a sample are right: their step score is positive. y is the
  verdict. A sample without steps has k / n = 0. A policy can raise k / n by
  steps that are right and useless; the reward is then at most w where y is 0.

  Source: SPARK: Stepwise Process-Aware Rewards for Reference-Free Reinforcement
  Learning.

  Args:
    verdict: name of the component with y, such as the answer of a judge; ""
      takes the verdict of the task.
    well_formed: name of the component that is 1 for a sample of the demanded
      form; "" demands none.
    weight: w; the paper uses 0.4.
  """
  scores, mask = base.step_scores(rollout)
  share = masked.mean((scores > 0).astype(jnp.float32), mask)
  right = base.is_right(rollout.correct).astype(jnp.float32)
  y = base.read_component(rollout, verdict) if verdict else right
  reward = weight * share + (1.0 - weight) * y
  if well_formed:
    reward *= base.read_component(rollout, well_formed) > 0
  return reward
