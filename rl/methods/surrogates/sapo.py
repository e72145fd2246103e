"""SAPO: a sigmoid of the ratio where PPO clips it."""

import jax
import jax.numpy as jnp

from rl import types
from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores


@surrogates.surrogate()
def soft_gate(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  positive: float,
  negative: float,
) -> jax.Array:
  """A (4 / tau) sigmoid(tau (rho - 1)), tau by the sign of A.

  Its slope in rho is A sech^2(tau (rho - 1) / 2): A at rho = 1, fading on both
  sides and nowhere cut off.
  """
  del policy, rollout
  tau = jnp.where(advantages > 0, positive, negative)
  gate = jax.nn.sigmoid(tau * (surrogates.ratio(log_ratio) - 1))
  return advantages * 4 / tau * gate


def sapo(
  tau_positive: float = 1.0, tau_negative: float = 1.05, ddof: int = 1
) -> Method:
  """Maximises A (4 / tau) sigmoid(tau (rho - 1)), tau by the sign of A.

  A larger tau fades faster; that of wrong samples is the larger, as their
  gradient pushes up all the tokens that were not sampled. Mean over samples of
  the mean over tokens; the z-score of the group; no KL.
  Source: Gao et al. 2025, Soft Adaptive Policy Optimization.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      soft_gate(tau_positive, tau_negative), aggregate=seq_mean_token_mean()
    ),
  )
