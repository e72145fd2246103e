"""GRPO that pays a right answer more the less likely it was."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.transforms import chain, group_normalize, scores, transform

_OLD = scoring.Need("old", scoring.log_probs)


@transform("sample", needs={_OLD})
def discount_likely(
  signal: jax.Array, rollout: types.Rollout, *, beta_rank: float
) -> jax.Array:
  """R_i (1 - beta rank_i / n) where right, R_i elsewhere.

  Ranks by mean_t log pi_old, the likeliest n - 1; ties in the order of samples.
  """
  real = rollout.sample_mask
  likelihood = masked.mean(rollout.extras[_OLD], rollout.valid("token"))
  order = jnp.argsort(jnp.where(real, likelihood, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1)
  n = jnp.maximum(masked.count(real, keepdims=True), 1.0)
  right = rollout.correct == 1
  factor = jnp.where(right, 1.0 - beta_rank * rank / n, 1.0)
  return jnp.where(real, signal * factor, 0.0)


def unlikeliness(
  beta_rank: float = 0.25, clip: float = 0.2, beta: float = 0.1
) -> Method:
  """A = z-score of R_i (1 - beta_rank rank_i / n), rank by mean log pi_old.

  Only right samples change, and a group that is all right has a signal: its
  likeliest are pushed down. The rest is `grpo` with the paper's stronger KL;
  the paper makes two epochs over a rollout (`plan.epochs`).
  Left out: skipping groups whose advantages are below a threshold.
  Source: He et al. 2025, Rewarding the Unlikely.
  """
  return dataclasses.replace(
    grpo(clip, beta),
    advantage=chain(scores(), discount_likely(beta_rank), group_normalize()),
  )
