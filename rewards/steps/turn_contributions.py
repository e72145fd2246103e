"""Attribution: a learned estimate of each turn's contribution (SPA-RL).

A turn is one action of an agent; K is the number of turns of a sample. A head
of the model estimates the contribution of each turn to the outcome.

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
  """Returns (sum_k c_k - R)^2, the loss of the estimated contributions c_k.

  If outcomes R are sums of true contributions and the turns of a sample vary
  independently, the loss is smallest for the true contributions, up to
  constants that cancel in the sum.

  Source: Wang et al. 2025, SPA-RL: Reinforcing LLM Agents via Stepwise Progress
  Attribution.

  Args:
    contributions: `[..., K]` c, output of the head at each turn's last token.
    mask: `[..., K]` bool, True for the turns that exist.
    outcomes: `[...]` R, outcome of each sample.

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
  """Returns alpha * c_k + beta * 1[the environment accepted action k].

  Every accepted action scores beta, also one that changes nothing.

  Source: Wang et al. 2025 (SPA-RL); the released code has beta = 0.5.
  Deviation: the released data script overwrites c_k; this implementation keeps
  it.

  Open: alpha is unknown; 1 is a guess.

  Args:
    contributions: `[..., K]` c, estimated contribution of each turn.
    grounded: `[..., K]` bool, True if the environment accepted the action.
    mask: `[..., K]` bool, True for the turns that exist.
    alpha: weight of the contributions.
    beta: weight of accepted actions.

  Returns:
    `[..., K]` float32, 0 for turns that do not exist.
  """
  accepted = base.zero_outside(grounded, mask)
  return alpha * base.zero_outside(contributions, mask) + beta * accepted
