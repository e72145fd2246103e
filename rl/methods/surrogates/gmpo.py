"""GMPO: the geometric mean of a sample's clipped ratios.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses import surrogates
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores


@surrogates.surrogate("sample", token_mean="geometric")
def geometric_mean(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """A exp(mean_t l_t): l = min(log rho, clip) if A > 0, else max(., -clip).

  The mean is over the scored tokens of a sample, "." stands for log rho, and A
  [P, S] is the mean of the advantages over these tokens. Importance weights of
  tokens would have to be inside the geometric mean: see
  `rl.losses.importance.add_importance_weights`. Logs `policy/clip_frac_low` and
  `policy/clip_frac_high`, the shares of tokens with A < 0 that are clipped from
  below, and with A > 0 that are clipped from above.
  """
  del policy
  mask = rollout.mask
  clipped = jnp.where(
    advantages > 0,
    jnp.minimum(log_ratio, clip),
    jnp.maximum(log_ratio, -clip),
  )
  rho = surrogates.ratio(masked.mean(clipped, mask))  # [P, S]
  return masked.mean(advantages, mask) * rho, {
    "policy/clip_frac_low": (log_ratio < -clip) & (advantages < 0),
    "policy/clip_frac_high": (log_ratio > clip) & (advantages > 0),
  }


def gmpo(clip: float = 0.4, ddof: int = 1) -> Method:
  """Maximises A_i (prod_t rho_t)^(1 / T_i), with each log rho_t clipped.

  rho_t [P, S, T] is the importance ratio of token t, T_i the number of scored
  tokens of sample i and A_i the z-score of its score in its group. log rho_t is
  at most clip where A > 0, and at least -clip elsewhere; a clipped token has no
  gradient and still counts in the geometric mean. The loss is the mean over
  samples with a token, without a KL.
  Source: Zhao et al. 2025, Geometric-Mean Policy Optimization.

  Args:
    clip: bound of the log-ratio of a token, in nats.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(geometric_mean(clip)),
  )
