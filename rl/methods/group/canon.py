"""Two halves of a group, by entropy or length, judged against each other."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import advantages, choices, masked, scoring, types
from rl.losses.aggregates import seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)
METRICS = ("entropy", "length")


@transform(
  "sample",
  needs=lambda metric, **_: {_ENTROPY} if metric == "entropy" else set(),
)
def conditional(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  metric: str,
  mu: float | None,
  alpha: float,
) -> jax.Array:
  """mu (R_i - mean of the other half) + (1 - mu) (R_i - mean of one's own).

  The low half are the floor(n / 2) samples of lowest metric, ties in order.
  """
  real, n = rollout.sample_mask, rollout.sample_mask.sum(-1, keepdims=True)
  found = rollout.scored_lengths
  if metric == "entropy":
    found = masked.mean(rollout.extras[_ENTROPY], rollout.valid("token"))
  if mu is None:
    known = real & (rollout.correct >= 0)
    mu = 1.0 - masked.mean(rollout.correct == 1, known, (0, 1))
  order = jnp.argsort(jnp.where(real, found, jnp.inf), -1, stable=True)
  low = real & (jnp.argsort(order, -1) < n // 2)
  high = real & ~low
  inter = signal * jnp.where(low if metric == "entropy" else high, alpha, 1.0)
  low_mean = masked.mean(inter, low, keepdims=True)
  high_mean = masked.mean(inter, high, keepdims=True)
  varied = real & ~masked.is_constant(inter, real, keepdims=True)
  inter = jnp.where(varied, inter - jnp.where(low, high_mean, low_mean), 0.0)
  own = advantages.center(signal, low) + advantages.center(signal, high)
  return mu * inter + (1.0 - mu) * own


def canon(
  metric: str = "entropy",
  mu: float | None = 1.0,
  alpha: float = 1.0,
  low: float = 0.2,
  high: float = 0.28,
  horizon: int | None = None,
) -> Method:
  """A_i = mu (R_i - mean of the other half) + (1 - mu) (R_i - mean of its own).

  A group is split at the middle of a metric, "entropy" (mean over the tokens)
  or "length". mu = 1 (the released default) asks which half does better, mu = 0
  who does better in it, mu = 1/2 of an even group is `dr_grpo`; None is 1 - the
  batch's accuracy: between halves first, within them later. alpha < 1
  discounts the scores of the low-entropy, or of the long half. Sum over tokens
  / (samples x horizon).
  Left out: mu by a cosine with restarts.
  Source: Chen et al. 2025, Conditional Advantage Estimation (CANON).

  Raises:
    ValueError: unknown metric.
  """
  if metric not in METRICS:
    raise ValueError(choices.unknown("metric", metric, METRICS))
  return Method(
    advantage=chain(scores(), conditional(metric, mu, alpha)),
    loss=policy_gradient(
      ppo_clip(low, high), aggregate=seq_mean_token_sum_norm(horizon)
    ),
  )
