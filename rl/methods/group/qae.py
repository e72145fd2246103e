"""DAPO with a quantile of the group as baseline instead of its mean."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.method import Method
from rl.methods.surrogates.dapo import dapo
from rl.transforms import chain, scores, transform


@transform("sample")
def quantile_normalize(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  quantile: float,
  ddof: int,
  eps: float,
) -> jax.Array:
  """(R_i - quantile of R) / (std R + eps); 0 where all scores are equal."""
  real = rollout.sample_mask
  baseline = masked.quantile(signal, real, quantile, keepdims=True)
  spread = masked.std(signal, real, ddof=ddof, keepdims=True)
  varied = real & (spread > 0)
  return jnp.where(varied, (signal - baseline) / (spread + eps), 0.0)


def qae(
  quantile: float = 0.4,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
  eps: float = 1e-6,
) -> Method:
  """A_i = (R_i - Q_K(R)) / (std R + eps), Q_K the group's K-quantile.

  With verdicts as scores: of a hard prompt (solve rate <= 1 - K) the baseline
  is 0 and only right samples are trained on, of an easy one it is 1 and only
  wrong ones are. Quantiles are interpolated linearly, as in the release; near
  the switch the baseline lies in between. Clip, aggregate and filters are those
  of `dapo`, without its punishment of length, which would move the quantile.
  Source: Wu et al. 2025, Quantile Advantage Estimation for Entropy-Safe
  Reasoning.
  """
  return dataclasses.replace(
    dapo(low, high),
    advantage=chain(scores(), quantile_normalize(quantile, ddof, eps)),
  )
