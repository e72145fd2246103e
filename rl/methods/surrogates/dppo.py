"""DPPO: drops tokens whose probability has moved too far, by a divergence.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import UsageError, registry, scoring, types
from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_sum_norm
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import center, chain, scores

Array = jax.Array


def total_variation(log_mu: Array, log_pi: Array) -> Array:
  """Returns |mu - pi| at the sampled token, from its log-probs."""
  return jnp.abs(jnp.exp(log_mu) - jnp.exp(log_pi))


def kl_of_two_events(log_mu: Array, log_pi: Array) -> Array:
  """Returns KL(mu || pi) of the sampled token against all other tokens.

    mu log(mu / pi) + (1 - mu) log((1 - mu) / (1 - pi))

  mu and pi are the probabilities of the sampled token. The result is in nats,
  and a lower bound of the KL of the next-token distributions.
  """
  # Probabilities of all other tokens, which may round to 0.
  other_mu, other_pi = (
    jnp.maximum(-jnp.expm1(x), 1e-8) for x in (log_mu, log_pi)
  )
  others = other_mu * (jnp.log(other_mu) - jnp.log(other_pi))
  return jnp.exp(log_mu) * (log_mu - log_pi) + others


# Name -> the divergence, and the largest one that the paper accepts.
DIVERGENCES = {"tv": (total_variation, 0.2), "kl": (kl_of_two_events, 0.05)}


@surrogates.surrogate()
def divergence_mask(
  log_ratio: Array,
  advantages: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  divergence: str,
  threshold: float,
  cap: float,
) -> tuple[Array, dict[str, Array]]:
  """sg[M min(rho, cap)] A log pi, with M = 0 far from the denominator's policy.

  M is 0 where A > 0, rho > 1 and the divergence exceeds `threshold`, and where
  A < 0, rho < 1 and it does; M is 1 elsewhere. sg stops the gradient. Logs the
  shares of the former tokens as `policy/clip_frac_high`, of the latter as
  `policy/clip_frac_low`, and of the other tokens with A != 0 and rho > cap as
  `policy/clip_frac_cap`.
  """
  del rollout
  log_probs = policy[scoring.log_probs]
  log_ratio = jax.lax.stop_gradient(log_ratio)
  distance, _ = DIVERGENCES[divergence]
  log_pi = jax.lax.stop_gradient(log_probs)
  is_far = distance(log_pi - log_ratio, log_pi) > threshold
  high = is_far & (advantages > 0) & (log_ratio > 0)
  low = is_far & (advantages < 0) & (log_ratio < 0)
  rho = surrogates.ratio(log_ratio)
  weight = jnp.where(high | low, 0.0, jnp.minimum(rho, cap))
  return weight * advantages * log_probs, {
    "policy/clip_frac_high": high,
    "policy/clip_frac_low": low,
    "policy/clip_frac_cap": (rho > cap) & (advantages != 0) & ~(high | low),
  }


def dppo(
  divergence: str = "tv",
  threshold: float | None = None,
  cap: float = 5.0,
  horizon: int | None = None,
) -> Method:
  """Maximises sg[M min(rho, cap)] A log pi, M = 0 where D > threshold.

    M = 0 if A > 0, rho > 1, D > threshold; or A < 0, rho < 1, D > threshold
    D = |mu - pi|                                                         (tv)
    D = mu log(mu / pi) + (1 - mu) log((1 - mu) / (1 - pi))               (kl)

  pi and mu [P, S, T] are the probabilities of a token under the policy that is
  trained and under the behavior policy, as the sampler reported it; rho = pi /
  mu, sg stops the gradient, and A_i = R_i - mean R, with R_i the score of
  sample i and mean R the mean of its group. PPO bounds rho alone, which stops
  unlikely tokens early and likely ones late: its rule has D = |rho - 1|.
  Tokens with M = 0 count in the loss, which is the sum over tokens / (samples x
  horizon), without a KL.
  Left out: the divergences over the 20 most likely tokens of mu.
  Source: Qi et al. 2026, Rethinking the Trust Region in LLM Reinforcement
  Learning.

  Args:
    divergence: "tv" or "kl", the divergence D of a token.
    threshold: largest D; None takes the paper's, 0.2 for "tv" and 0.05 nats for
      "kl".
    cap: largest weight of a token; infinity is no cap. The paper has 5 in its
      large runs and no cap in its study of stability.
    horizon: constant that divides the sum over tokens; None takes T. Another
      value multiplies the loss by a constant.

  Raises:
    UsageError: if the divergence is unknown.
  """
  if divergence not in DIVERGENCES:
    raise UsageError(
      registry.describe_unknown("divergence", divergence, DIVERGENCES)
    )
  if threshold is None:
    _, threshold = DIVERGENCES[divergence]
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      divergence_mask(divergence, threshold, cap),
      aggregate=seq_mean_token_sum_norm(horizon),
      denominator="behavior",
    ),
  )
