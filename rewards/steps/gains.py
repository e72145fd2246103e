"""Gains: the change of the chance of success by each reasoning step.

V_k is the chance of success after step k. It is estimated from continuations
(`process.prefix_values`) by the policy or by another policy (a prover), from
answers that the policy is forced to give after step k, or by a judge of steps.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def step_gains(after: Array, before: Array, mask: Array) -> Array:
  """Returns V_k - V_{k-1}, where V before the first step is that of the prompt.

  The sum of the gains is V after the last step minus V of the prompt. Once
  success is certain, further steps gain nothing, which favors short
  completions. With continuations by the policy itself, the gain is the
  advantage of the step, and the expected policy gradient is that of the
  outcome.

  Source: Setlur et al. 2024, Rewarding Progress (PAV), with a prover's V; Qu et
  al. 2025, Optimizing Test-Time Compute via Meta Reinforcement Fine-Tuning
  (MRT), with the policy forced to answer.

  Args:
    after: `[..., K]`, V after each of K steps.
    before: `[...]`, V of the prompt.
    mask: `[..., K]` bool, True for the steps that exist, which are the first of
      each sample.

  Returns:
    `[..., K]` float32, 0 for steps that do not exist.
  """
  after = base.zero_outside(after, mask)
  start = jnp.asarray(before, jnp.float32)[..., None]
  start = jnp.broadcast_to(start, after[..., :1].shape)
  earlier = jnp.concatenate([start, after[..., :-1]], -1)
  return base.zero_outside(after - earlier, mask)


def best_of(chance: Array, tries: int) -> Array:
  """Returns 1 - (1 - V)^n, the chance that one of n continuations succeeds.

  The best of n continuations is the prover that PAV proposes. Its chances of
  success differ between prefixes from which the policy alone rarely succeeds,
  and are not 1 for every prefix.

  Source: Setlur et al. 2024 (PAV), n = 4.

  Args:
    chance: `[...]` V of one continuation, in [0, 1].
    tries: n, number of continuations.

  Returns:
    `[...]` float32.
  """
  return 1.0 - (1.0 - jnp.asarray(chance, jnp.float32)) ** tries


@transform(
  takes="none", gives="step", needs=(base.STEP_VALUES, base.PROMPT_VALUES)
)
def gains(_, rollout: types.Rollout, *, tries: int = 1) -> Array:
  """Returns `step_gains` of the values of the sampler `prefix_values`.

  Args:
    tries: n. The values V become `best_of(V, n)`, those of a prover that
      continues n times and keeps the best. PAV uses 4.
  """
  before = rollout.extras[base.PROMPT_VALUES][:, None]  # [P, 1]
  after = rollout.extras[base.STEP_VALUES]  # [P, S, K]
  mask = base.step_scores(rollout)[1]
  return step_gains(best_of(after, tries), best_of(before, tries), mask)
