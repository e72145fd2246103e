"""Weibull step count: good steps score most if there are about four of them.

The reward is the geometric mean of the steps' probabilities of being right,
times a multiple of a Weibull density of the number of steps, which by default
is largest near four steps.

Source: Li et al. 2024, PSPO*: An Effective Process-supervised Policy
Optimization for Reasoning Alignment, and its released code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.steps.nonlinear import geometric_mean
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


def weibull_shape(
  steps: Array, shape: float = 1.5, scale: float = 8.0, height: float = 10.735
) -> Array:
  """Returns height * (k/l) (n/l)^{k-1} e^{-(n/l)^k}, a scaled Weibull density.

  With the defaults the maximum is about 1, at n = 3.85 steps; in general it is
  at n = l ((k - 1)/k)^{1/k}.

  Args:
    steps: `[...]` n, number of steps.
    shape: k, shape of the Weibull distribution.
    scale: l, scale of the Weibull distribution, in steps.
    height: factor of the density.

  Returns:
    `[...]` float32; 0 without steps.
  """
  steps = jnp.asarray(steps, jnp.float32)
  x = steps / scale
  power = x ** (shape - 1.0)  # x^k is x * power, which saves a second power
  density = shape / scale * power * jnp.exp(-x * power)
  return jnp.where(steps > 0, height * density, 0.0)


def weibull_scores(probabilities: Array, step_mask: Array) -> Array:
  """Returns the geometric mean of the steps times their `weibull_shape`.

  Args:
    probabilities: `[..., K]`, probability that each of K steps is right.
    step_mask: `[..., K]` bool, True for the steps that exist.

  Returns:
    `[...]` float32; 0 for samples with fewer than two steps.
  """
  steps = masked.count(step_mask)
  quality = geometric_mean(probabilities, step_mask)
  return jnp.where(steps > 1, quality * weibull_shape(steps), 0.0)


@transform(takes="none", gives="sample")
def weibull(_, rollout: types.Rollout) -> Array:
  """Returns `weibull_scores` of the task's step scores, mapped to [0, 1]."""
  return weibull_scores(*base.step_probabilities(rollout))
