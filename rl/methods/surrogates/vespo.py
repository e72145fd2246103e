"""VESPO: a smooth weight of whole samples that falls on both sides of ratio 1.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses import ratios, surrogates
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import center, chain, scores


@surrogates.surrogate()
def gamma_weighted(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  positive: tuple[float, float],
  negative: tuple[float, float],
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """sg[rho^c1 exp(c2 (1 - rho))] A log pi, with (c1, c2) by the sign of A.

  (c1, c2) is `positive` where A >= 0 and `negative` elsewhere; sg stops the
  gradient. Logs the mean weight of the samples as `policy/weight_mean`.
  """
  rho = jax.lax.stop_gradient(surrogates.ratio(log_ratio))
  c1 = jnp.where(advantages >= 0, positive[0], negative[0])
  c2 = jnp.where(advantages >= 0, positive[1], negative[1])
  weight = jnp.exp(c1 * jnp.log(rho) + c2 * (1 - rho))  # [P, S, T]
  return weight * advantages * policy[scoring.log_probs], {
    "policy/weight_mean": masked.mean(weight, rollout.mask)
  }


def vespo(
  positive: tuple[float, float] = (2.0, 3.0),
  negative: tuple[float, float] = (3.0, 2.0),
) -> Method:
  """Maximises sg[rho^c1 exp(c2 (1 - rho))] A log pi(y), rho of whole samples.

  y is a whole sample, rho [P, S] = pi(y) / mu(y) with mu the behavior policy,
  without a normalisation by length; sg stops the gradient, A_i = R_i - mean R,
  with R_i the score of sample i and mean R the mean of its group, and (c1, c2)
  depends on the sign of A. The weight is 1 at rho = 1 and largest at rho = c1 /
  c2; it falls to 0 as rho goes to 0 or to infinity. log rho is at least -20 and
  at most 20. The objective is summed over the tokens of a sample and averaged
  over samples, without a KL.
  Deviation: the released code also bounds the log-ratio of each token by 20.
  TRL averages over the tokens of all samples.
  Source: Shen et al. 2026, VESPO: Variational Sequence-Level Soft Policy
  Optimization for Stable Off-Policy LLM Training.

  Args:
    positive: (c1, c2) of samples with A >= 0. c1 >= 1 bounds weight / rho.
    negative: (c1, c2) of samples with A < 0; its weight falls later, and is
      largest at a rho above 1.
  """
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      gamma_weighted(positive, negative),
      ratio=ratios.sequence,
      aggregate=seq_mean_token_sum(),
      denominator="behavior",
    ),
  )
