"""Log-sigmoid centering: a shape that is flat far above a reference score."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import masked, types
from rl.transforms import transform

Array = jax.Array


# The 85 % quantile of the standard normal distribution.
NORMAL_QUANTILE_85 = 1.0364333894937898


def reference_quantile(
  references: Array,
  reference_mask: Array | None = None,
  z: float = NORMAL_QUANTILE_85,
) -> Array:
  """Returns mean + z * std (ddof 0) of the scores of reference responses.

  With the default z this estimates their 85th percentile, if they are normally
  distributed. With one reference the result is its score.

  Args:
    references: `[..., M]` scores of M responses of the policy before training.
    reference_mask: `[..., M]` bool, True if the response exists; None: all do.
    z: quantile of the standard normal distribution.

  Returns:
    `[...]` float32; 0 if no reference exists.
  """
  mask = masked.mask_or_ones(references, reference_mask)
  references = base.zero_outside(references, mask)
  return masked.mean(references, mask) + z * masked.std(references, mask)


def log_sigmoid_scores(scores: Array, reference: Array) -> Array:
  """Returns u = log sigmoid(r - r_ref), which is flat far above r_ref.

  e^u estimates the probability that a response is good in one respect, so the
  sum of u over several respects (`combine.weighted_sum`) estimates the
  log-probability that it is good in all of them, if they are independent. Far
  below r_ref, u is linear in r with slope 1.

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


@transform(
  takes="none",
  gives="sample",
  needs=lambda references, **_: {base.parse_need(references)},
)
def log_sigmoid(
  _, rollout: types.Rollout, *, references: str, component: str = ""
) -> Array:
  """Returns `log_sigmoid_scores`, with r_ref the 85th percentile of references.

  Args:
    references: "task/NAME" or "sampler/NAME", array `[P]` or `[P, M]` of the
      scores of responses of the policy before training; entries that are not
      finite do not count. The sampler `reference_scores` provides
      "sampler/reference_scores".
    component: name of the component to shape; "" is the task's score.
  """
  scores = base.score(rollout, component)  # [P, S]
  values = jnp.asarray(rollout.extras[base.parse_need(references)])
  values = values.reshape(scores.shape[0], -1)  # [P, M]
  reference = reference_quantile(values, jnp.isfinite(values))  # [P]
  return log_sigmoid_scores(scores, reference[:, None])
