"""QAE: DAPO with a quantile of the group as baseline instead of its mean.

Axes: P prompts, S samples per prompt (a group).
"""

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.method import Method
from rl.methods.surrogates.dapo import dapo
from rl.transforms import chain, scores, transform


@transform(takes="sample")
def quantile_normalize(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  quantile: float,
  ddof: int,
  eps: float,
) -> jax.Array:
  """Returns (R_i - quantile of R) / (std R + eps), over the group.

  A group of equal scores has 0.
  """
  valid = rollout.sample_mask
  baseline = masked.quantile(signal, valid, quantile, keepdims=True)
  group_std = masked.std(signal, valid, ddof=ddof, keepdims=True)
  scores_differ = valid & (group_std > 0)
  return jnp.where(scores_differ, (signal - baseline) / (group_std + eps), 0.0)


def qae(
  quantile: float = 0.4,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
  eps: float = 1e-6,
) -> Method:
  """A_i = (R_i - Q_K(R)) / (std R + eps), Q_K the K-quantile of the group.

  R_i [P, S] is the score of sample i; std R and Q_K are over its group. If
  scores are 0 and 1, the baseline Q_K is 0 for a hard prompt, whose share of
  right samples is at most 1 - K: only its right samples have A other than 0. It
  is 1 for an easy prompt: only its wrong samples have A other than 0. Quantiles
  are interpolated linearly, as in the released code, so that prompts close to
  that border have a baseline between 0 and 1. The loss is that of `dapo`. Its
  length penalty is left out, because it would move the quantile.
  Source: Wu et al. 2025, Quantile Advantage Estimation for Entropy-Safe
  Reasoning.

  Args:
    quantile: K.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
    eps: constant added to the standard deviation.
  """
  return dataclasses.replace(
    dapo(low, high),
    advantage=chain(scores(), quantile_normalize(quantile, ddof, eps)),
  )
