"""Nonlinear step count: good steps earn more the more of them there are.

The reward is the geometric mean m of the steps' probabilities of being right,
times a shape that grows with the number of steps n if the steps are good and
shrinks if they are bad. The paper's code uses m in the shape too, so m counts
twice. As m is a mean, another step as good as the others always raises the
reward, without bound.

Source: Li et al. 2024, PSPO*: An Effective Process-supervised Policy
Optimization for Reasoning Alignment, and its code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


_FREE = 4  # up to this number, more steps are always better


def geometric_mean(probabilities: Array, step_mask: Array) -> Array:
  """(prod_k p_k)^(1/n); 0 if any p_k is 0 or there are no steps.

  Args:
    probabilities: `[..., K]` in [0, 1].
    step_mask: `[..., K]` bool, mask of steps.

  Returns:
    `[...]` float32.
  """
  p = base.zero_outside(probabilities, step_mask)
  some = step_mask.any(-1) & ~(step_mask & (p <= 0)).any(-1)
  mean_log = masked.mean(jnp.log(jnp.where(p > 0, p, 1.0)), step_mask)
  return jnp.where(some, jnp.exp(mean_log), 0.0)


def nonlinear_shape(quality: Array, steps: Array) -> Array:
  """Returns the factor of a mean quality m over n steps.

    n <= 4  m e^{n/2}
    n > 4   m e^2 ((1 - s) + s e^{g (n - 4)}),  s = sigmoid(10 (n - 4)),
            g = 0.1 if m > .88433, -0.1 if 0 < m < .2,
            else 0.1 (m - .21159) / .88433

  Args:
    quality: `[...]` m in [0, 1].
    steps: `[...]` n.

  Returns:
    `[...]` float32, at least 0.
  """
  quality = jnp.asarray(quality, jnp.float32)
  steps = jnp.asarray(steps, jnp.float32)
  beyond = jnp.maximum(steps - _FREE, 0.0)
  base = quality * jnp.exp(0.5 * jnp.minimum(steps, _FREE))
  rate = jnp.where(
    quality > 0.88433,
    0.1,
    jnp.where(quality < 0.2, -0.1, 0.1 * (quality - 0.21159) / 0.88433),
  )
  switch = jnp.where(beyond > 0, jax.nn.sigmoid(10.0 * beyond), 0.0)
  return base * (1.0 - switch + switch * jnp.exp(rate * beyond))


def nonlinear_scores(probabilities: Array, step_mask: Array) -> Array:
  """m `nonlinear_shape`(m, n), with m the geometric mean; 0 for n <= 1.

  Args:
    probabilities: `[..., K]`, probability that each step is right.
    step_mask: `[..., K]` bool, mask of steps.

  Returns:
    `[...]` float32.
  """
  steps = masked.count(step_mask)
  quality = geometric_mean(probabilities, step_mask)
  return jnp.where(steps > 1, quality * nonlinear_shape(quality, steps), 0.0)


@transform(takes="none", gives="sample")
def nonlinear(_, rollout: types.Rollout) -> Array:
  """Returns `nonlinear_scores` of the task's step scores as probabilities."""
  return nonlinear_scores(*base.step_probabilities(rollout))
