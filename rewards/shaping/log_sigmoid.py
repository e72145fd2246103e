"""Log-sigmoid centering: a shape that is flat once a score is good enough."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


NORMAL_QUANTILE_85 = 1.0364333894937898  # of the standard normal distribution


def reference_quantile(
  references: Array,
  reference_mask: Array | None = None,
  z: float = NORMAL_QUANTILE_85,
) -> Array:
  """mean + z std (ddof 0) of the references: the 85th percentile of a normal.

  With one reference it is the reference itself.

  Args:
    references: `[..., M]` scores of the starting policy's responses.
    reference_mask: `[..., M]` bool, mask of references; None means all.
    z: quantile of the standard normal distribution.

  Returns:
    `[...]` float32; 0 without any reference.
  """
  mask = masked.mask_or_ones(references, reference_mask)
  references = base.zero_outside(references, mask)
  return masked.mean(references, mask) + z * masked.std(references, mask)


def log_sigmoid_scores(scores: Array, reference: Array) -> Array:
  """u = log sigmoid(r - r_ref), whose gradient vanishes for good scores.

  e^u is the probability that a response is good, so the sum of u over several
  properties is the log of their conjunction (`combine.weighted_sum`). Far below
  r_ref the function is linear and keeps its gradient.

  Source: Wang et al. 2024, Transforming and Combining Rewards for Aligning
  Large Language Models.

  Args:
    scores: `[...]` r.
    reference: r_ref, broadcast against r, usually from `reference_quantile`.

  Returns:
    `[...]` float32, at most 0; -log 2 at r = r_ref.
  """
  gap = jnp.asarray(scores, jnp.float32) - reference
  return jax.nn.log_sigmoid(gap)


@transform(takes="none", gives="sample")
def log_sigmoid(
  _, rollout: types.Rollout, *, component: str = "", reference: float = 0.0
) -> Array:
  """`log_sigmoid_scores` of the task's score, or of the component `component`."""
  return log_sigmoid_scores(base.score(rollout, component), reference)
