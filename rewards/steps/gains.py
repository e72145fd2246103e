"""Gains: changes of the chance of success by each step.

The chance after each prefix comes from continuations (`process.continuations`)
by the policy, by a prover, or by the policy when it is forced to answer at
once; or from a judge of steps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def step_gains(after: Array, before: Array, mask: Array) -> Array:
  """r_k = V_k - V_{k-1}, with V_0 the chance of success after the prompt.

  The sum of the gains is V_K - V_0. Once the answer is certain, further steps
  earn nothing or less, which shortens completions. With continuations by the
  policy itself, r_k is the advantage of the step, and its gradient has the same
  expectation as that of the outcome.

  Source: Setlur et al. 2024, Rewarding Progress (PAV), with a prover's V; Qu et
  al. 2025, Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning
  (MRT), with the policy forced to answer.

  Args:
    after: `[..., K]` V after each step.
    before: `[...]` V_0.
    mask: `[..., K]` bool, mask of steps; the first n of each sample.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  after = base.zero_outside(after, mask)
  start = jnp.asarray(before, jnp.float32)[..., None]
  start = jnp.broadcast_to(start, after[..., :1].shape)
  earlier = jnp.concatenate([start, after[..., :-1]], -1)
  return base.zero_outside(after - earlier, mask)


def best_of(chance: Array, tries: int) -> Array:
  """1 - (1 - V)^K, the chance that the best of K continuations succeeds.

  This is the prover that PAV proposes. It is strong enough to show differences
  that the policy alone does not turn into success, and not so strong that it
  succeeds from every prefix.

  Source: Setlur et al. 2024 (PAV), K = 4.

  Args:
    chance: `[...]` V of one continuation, in [0, 1].
    tries: K.

  Returns:
    `[...]` float32.
  """
  return 1.0 - (1.0 - jnp.asarray(chance, jnp.float32)) ** tries


@transform(
  takes="none", gives="step", needs=(base.STEP_VALUES, base.PROMPT_VALUES)
)
def gains(_, rollout: types.Rollout) -> Array:
  """Returns `step_gains` of the values that the sampler computes."""
  before = rollout.extras[base.PROMPT_VALUES][:, None]  # [P, 1]
  mask = base.step_scores(rollout)[1]
  return step_gains(rollout.extras[base.STEP_VALUES], before, mask)
