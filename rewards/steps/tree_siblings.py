"""Tree siblings: advantages of a tree's branches against their siblings.

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def sibling_advantages(values: Array, valid: Array, eps: float = 1e-6) -> Array:
  """A = (V - m) / (sqrt(m (1 - m)) + eps), with m the mean over the siblings.

  The value V of a node is the mean of its children's values (`node_values`),
  the value of a leaf its verdict. Siblings of equal value get 0. A tree of one
  level is a group with a mean baseline.

  Source: Yang et al. 2025, TreeRPO: Tree Relative Policy Optimization. The
  scale is our reading of the paper's, for values in [0, 1].

  Args:
    values: `[..., B]` V of the children of one node.
    valid: `[..., B]` bool, mask of children.
    eps: added to the scale. Without a scale this is `rl.advantages.center`.

  Returns:
    `[..., B]` float32, for every token of the branch's segment.
  """
  values = base.zero_outside(values, valid)
  mean = masked.mean(values, valid, keepdims=True)
  varied = valid & ~masked.is_constant(values, valid, keepdims=True)
  spread = jnp.clip(mean * (1.0 - mean), 0.0)
  scale = jnp.sqrt(jnp.where(varied, spread, 1.0)) + eps
  return jnp.where(varied, (values - mean) / scale, 0.0)


def node_values(values: Array, valid: Array) -> Array:
  """The value of a node, the mean of its children's, `[..., B] -> [...]`."""
  return masked.mean(base.zero_outside(values, valid), valid)
