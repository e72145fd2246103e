"""Step count: the quality of the steps, times a shape of their number.

The reward is the geometric mean m of the steps' probabilities of being right,
times a shape of the number of steps n:

  nonlinear   Many good steps score more than few good steps. Up to four steps
              the shape grows with n; beyond, it grows with n if m is above
              about 0.21 and falls if m is lower. Thus m enters twice, as in the
              released code. Another step as good as the others raises the
              reward of a good sample, without bound.
  weibull     Good steps score most if there are about four of them. The shape
              is a multiple of a Weibull density of n, which by default is
              largest near four steps.

Source: Li et al. 2024, PSPO*: An Effective Process-supervised Policy
Optimization for Reasoning Alignment, and its released code.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


_GROWTH_STEPS = 4  # up to this number of steps the shape always grows


def geometric_mean(probabilities: Array, step_mask: Array) -> Array:
  """Returns (prod_k p_k)^(1/n) over the n steps of a sample.

  Args:
    probabilities: `[..., K]` p in [0, 1] of K steps.
    step_mask: `[..., K]` bool, True for the steps that exist.

  Returns:
    `[...]` float32; 0 if any p_k is 0 or there are no steps.
  """
  p = base.zero_outside(probabilities, step_mask)
  positive = step_mask.any(-1) & ~(step_mask & (p <= 0)).any(-1)
  mean_log = masked.mean(jnp.log(jnp.where(p > 0, p, 1.0)), step_mask)
  return jnp.where(positive, jnp.exp(mean_log), 0.0)


def nonlinear_shape(quality: Array, steps: Array) -> Array:
  """Returns the shape for n steps of mean quality m, with the paper's numbers.

    n <= 4  m e^{n/2}
    n > 4   m e^2 ((1 - s) + s e^{g (n - 4)}),  s = sigmoid(10 (n - 4)),
            g = 0.1 if m > .88433, -0.1 if m < .2,
            else 0.1 (m - .21159) / .88433

  Args:
    quality: `[...]` m in [0, 1], such as a geometric mean.
    steps: `[...]` n, number of steps.

  Returns:
    `[...]` float32, at least 0.
  """
  quality = jnp.asarray(quality, jnp.float32)
  steps = jnp.asarray(steps, jnp.float32)
  beyond = jnp.maximum(steps - _GROWTH_STEPS, 0.0)
  growth = quality * jnp.exp(0.5 * jnp.minimum(steps, _GROWTH_STEPS))
  rate = jnp.where(
    quality > 0.88433,
    0.1,
    jnp.where(quality < 0.2, -0.1, 0.1 * (quality - 0.21159) / 0.88433),
  )
  switch = jax.nn.sigmoid(10.0 * beyond)  # without effect where beyond is 0
  return growth * (1.0 - switch + switch * jnp.exp(rate * beyond))


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


def nonlinear_scores(probabilities: Array, step_mask: Array) -> Array:
  """Returns m * `nonlinear_shape`(m, n), for the geometric mean m of n steps.

  Args:
    probabilities: `[..., K]`, probability that each of K steps is right.
    step_mask: `[..., K]` bool, True for the steps that exist.

  Returns:
    `[...]` float32; 0 for samples with fewer than two steps.
  """
  steps = masked.count(step_mask)
  quality = geometric_mean(probabilities, step_mask)
  return jnp.where(steps > 1, quality * nonlinear_shape(quality, steps), 0.0)


def weibull_scores(probabilities: Array, step_mask: Array) -> Array:
  """Returns m * `weibull_shape`(n); otherwise same as `nonlinear_scores`."""
  steps = masked.count(step_mask)
  quality = geometric_mean(probabilities, step_mask)
  return jnp.where(steps > 1, quality * weibull_shape(steps), 0.0)


@transform(takes="none", gives="sample")
def nonlinear(_, rollout: types.Rollout) -> Array:
  """Returns `nonlinear_scores` of the task's step scores, mapped to [0, 1]."""
  return nonlinear_scores(*base.step_probabilities(rollout))


@transform(takes="none", gives="sample")
def weibull(_, rollout: types.Rollout) -> Array:
  """Returns `weibull_scores` of the task's step scores, mapped to [0, 1]."""
  return weibull_scores(*base.step_probabilities(rollout))
