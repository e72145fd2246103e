"""SAPO: a sigmoid of the importance ratio in place of PPO's clip.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

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
  """A (4 / tau) sigmoid(tau (rho - 1)), with tau by the sign of A.

  tau is `positive` where A > 0 and `negative` elsewhere. The derivative with
  respect to rho is A sech^2(tau (rho - 1) / 2): it is A at rho = 1 and falls on
  both sides without reaching 0.
  """
  del policy, rollout
  tau = jnp.where(advantages > 0, positive, negative)
  gate = jax.nn.sigmoid(tau * (surrogates.ratio(log_ratio) - 1))
  return advantages * 4 / tau * gate


def sapo(
  tau_positive: float = 1.0, tau_negative: float = 1.05, ddof: int = 1
) -> Method:
  """Maximises A (4 / tau) sigmoid(tau (rho - 1)), with tau by the sign of A.

  rho [P, S, T] is the importance ratio of a token and A the z-score of a
  sample's score in its group. The objective is averaged over the tokens of each
  sample, then over samples, without a KL.
  Source: Gao et al. 2025, Soft Adaptive Policy Optimization.

  Args:
    tau_positive: tau where A > 0. The larger tau, the faster the gradient falls
      as rho leaves 1.
    tau_negative: tau where A <= 0. It is larger, because the gradient of a
      wrong sample raises the probability of all tokens that were not sampled.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      soft_gate(tau_positive, tau_negative), aggregate=seq_mean_token_mean()
    ),
  )
