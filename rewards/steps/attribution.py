"""Attribution: a learned estimate of each turn's contribution (SPA-RL).

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def attribution_loss(
  contributions: Array, mask: Array, outcomes: Array
) -> Array:
  """(sum_k c_k - R)^2, the loss of an estimator of contributions.

  If outcomes are sums of contributions and the turns vary independently, the
  minimum of the loss is the true contribution of each turn.

  Source: Wang et al. 2025, SPA-RL: Reinforcing LLM Agents via Stepwise Progress
  Attribution.

  Args:
    contributions: `[..., K]` c, output of a head at each turn's last token.
    mask: `[..., K]` bool, mask of turns.
    outcomes: `[...]` R.

  Returns:
    `[...]` float32.
  """
  total = masked.sum(base.zero_outside(contributions, mask), mask)
  return (total - jnp.asarray(outcomes, jnp.float32)) ** 2


def attributed(
  contributions: Array,
  grounded: Array,
  mask: Array,
  alpha: float = 1.0,
  beta: float = 0.5,
) -> Array:
  """r_k = alpha c_k + beta 1[the environment accepted the action].

  Every accepted action earns beta, so a policy can earn by idle actions.

  Source: Wang et al. 2025 (SPA-RL): 0.5 in its code; alpha is our 1. Deviation:
  the released data script overwrites c_k, which is not repeated here.

  Args:
    contributions: `[..., K]` c.
    grounded: `[..., K]` bool, accepted actions.
    mask: `[..., K]` bool, mask of turns.
    alpha: weight of the contributions.
    beta: weight of accepted actions.

  Returns:
    `[..., K]` float32, 0 where masked.
  """
  accepted = base.zero_outside(grounded, mask)
  return alpha * base.zero_outside(contributions, mask) + beta * accepted
