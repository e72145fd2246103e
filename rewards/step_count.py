"""Rewards of reasoning by how many steps it takes, and how good they are.

  m = geometric mean of the steps' probabilities of being right

is multiplied by a shape of the number of steps n: `nonlinear` grows with n as
long as the steps are good and shrinks where they are bad, `weibull` has its
mode near four steps. The code's nonlinear shape holds m already, so there it
counts twice.

The weakness of `nonlinear` is the method's own: m is a mean, so a further step
as good as the others always raises the reward, without bound.

Usage:
  scores = step_count.nonlinear(step_probabilities, step_mask)

Source: Li et al. 2024, PSPO*: An Effective Process-supervised Policy
Optimization for Reasoning Alignment, and its code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import present
from rl import masked

Array = jax.Array
_FREE = 4  # steps up to which more are always better


def geometric_mean(probabilities: Array, step_mask: Array) -> Array:
  """(prod_k p_k)^(1/n), 0 if any p_k is 0 or there is no step.

  Args:
    probabilities: `[..., K]` in [0, 1].
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[...]` float32.
  """
  p = present(probabilities, step_mask)
  some = step_mask.any(-1) & ~(step_mask & (p <= 0)).any(-1)
  mean_log = masked.mean(jnp.log(jnp.where(p > 0, p, 1.0)), step_mask)
  return jnp.where(some, jnp.exp(mean_log), 0.0)


def nonlinear_shape(quality: Array, steps: Array) -> Array:
  """What a mean quality m is worth over n steps.

    n <= 4  m e^{n/2}
    n > 4   m e^2 ((1 - s) + s e^{g (n - 4)}),  s = sigmoid(10 (n - 4)),
            g = 0.1 if m > .88433, -0.1 if 0 < m < .2,
            else 0.1 (m - .21159) / .88433

  Args:
    quality: `[...]` m, in [0, 1].
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


def nonlinear(probabilities: Array, step_mask: Array) -> Array:
  """m times `nonlinear_shape` of m, the geometric mean; 0 of one step or none.

  Args:
    probabilities: `[..., K]` that each step is right.
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[...]` float32.
  """
  steps = masked.count(step_mask)
  quality = geometric_mean(probabilities, step_mask)
  return jnp.where(steps > 1, quality * nonlinear_shape(quality, steps), 0.0)


def weibull_shape(
  steps: Array, shape: float = 1.5, scale: float = 8.0, height: float = 10.735
) -> Array:
  """height (k/l) (n/l)^{k-1} e^{-(n/l)^k}, about 1 at its mode.

  The mode is l ((k - 1)/k)^{1/k}, 3.85 steps with the defaults.

  Args:
    steps: `[...]` n.
    shape, scale, height: k, l and the constant C.

  Returns:
    `[...]` float32; 0 of no step.
  """
  steps = jnp.asarray(steps, jnp.float32)
  x = jnp.where(steps > 0, steps, 1.0) / scale
  slope = x ** (shape - 1.0)  # a square root with 1.5; powers are slow
  density = shape / scale * slope * jnp.exp(-x * slope)
  return jnp.where(steps > 0, height * density, 0.0)


def weibull(probabilities: Array, step_mask: Array) -> Array:
  """`weibull_shape` of the number of steps, times their geometric mean.

  Args:
    probabilities: `[..., K]` that each step is right.
    step_mask: `[..., K]` bool, steps that exist.

  Returns:
    `[...]` float32; 0 of one step or none.
  """
  steps = masked.count(step_mask)
  quality = geometric_mean(probabilities, step_mask)
  return jnp.where(steps > 1, quality * weibull_shape(steps), 0.0)
