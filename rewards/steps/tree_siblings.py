"""Tree siblings: advantages of the branches of a tree of samples.

The samples of a prompt form a tree: a node is a prefix, its B children continue
it (they are siblings), and a leaf is a whole sample.

No registered reward calls these functions yet.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked

Array = jax.Array


def sibling_advantages(values: Array, valid: Array, eps: float = 1e-6) -> Array:
  """Returns (V - m) / (sqrt(m (1 - m)) + eps), m the mean over the siblings.

  The value V of a leaf is its verdict, that of another node the mean value of
  its children (`node_values`). If all siblings have the same value, their
  advantages are 0.

  Source: Yang et al. 2025, TreeRPO: Tree Relative Policy Optimization.

  Open: the division by sqrt(m (1 - m)), for values in [0, 1], is one reading of
  the paper.

  Args:
    values: `[..., B]` V of the children of one node.
    valid: `[..., B]` bool, True for the children that exist.
    eps: added to the denominator.

  Returns:
    `[..., B]` float32, the advantage of all tokens by which a child continues
    its parent; 0 for children that do not exist.
  """
  values = base.zero_outside(values, valid)
  mean = masked.mean(values, valid, keepdims=True)
  varied = valid & ~masked.is_constant(values, valid, keepdims=True)
  spread = jnp.clip(mean * (1.0 - mean), 0.0)
  scale = jnp.sqrt(jnp.where(varied, spread, 1.0)) + eps
  return jnp.where(varied, (values - mean) / scale, 0.0)


def node_values(values: Array, valid: Array) -> Array:
  """Returns the mean value of a node's children, `[..., B] -> [...]`."""
  return masked.mean(base.zero_outside(values, valid), valid)
