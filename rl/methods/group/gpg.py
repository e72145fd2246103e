"""Group policy gradient: REINFORCE rescaled by the share of mixed groups."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import choices, masked, types
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import center, chain, scores, transform

COUNTS = ("groups", "scores")


@transform("sample")
def over_informative_share(
  signal: jax.Array, rollout: types.Rollout, *, count: str
) -> jax.Array:
  """alpha A, alpha = samples / informative samples of the batch."""
  real = rollout.sample_mask
  informative = {
    "groups": masked.sum(jnp.abs(signal), real, keepdims=True) > 0,
    "scores": rollout.scores != 0,
  }[count]
  found = masked.count(real & informative, (0, 1))
  return signal * masked.count(real, (0, 1)) / jnp.maximum(found, 1.0)


def gpg(count: str = "groups") -> Method:
  """A_i = alpha (R_i - mean R), alpha = samples / informative samples.

  Informative are the samples of groups whose scores differ (`count` "groups",
  the paper), or those whose score is not 0 ("scores", verl). - A log pi, token
  mean: no ratio, no clip, no KL, one update per rollout; F_norm of the paper
  is 1. A group of one has A = 0 (verl: its score).
  Source: Chu et al. 2025, GPG: A Simple and Strong RL Baseline.

  Raises:
    ValueError: unknown `count`.
  """
  if count not in COUNTS:
    raise ValueError(choices.unknown("count", count, COUNTS))
  return Method(
    advantage=chain(scores(), center(), over_informative_share(count)),
    loss=policy_gradient(reinforce()),
  )
