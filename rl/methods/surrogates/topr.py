"""TOPR: right samples as in imitation, wrong ones less as they fade."""

import jax
import jax.numpy as jnp

from rl import types
from rl.losses import ratios
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.weights import weighted_reinforce
from rl.transforms import known_verdict, only, transform


@transform("none", "sample")
def signs_minus_baseline(
  _, rollout: types.Rollout, *, baseline: float
) -> jax.Array:
  """1 - c of a right sample, -1 - c of a wrong one, 0 of an unknown one."""
  signs = jnp.where(rollout.correct == 1, 1.0, -1.0)
  return jnp.where(known_verdict(rollout), signs - baseline, 0.0)


def topr(
  baseline: float = 0.0,
  positive: tuple[float, float] = (1.0, 1.0),
  negative: tuple[float, float] = (0.0, 1.0),
) -> Method:
  """Maximises sg[w] A log pi(y): w = 1 if A > 0, else min(rho, 1) of y.

  rho = pi(y) / mu(y) of whole samples, mu what sampled them, however stale;
  A = +-1 - c. A wrong sample weighs less as it becomes unlikely, so that the
  objective is bounded; a right one is never discounted. `positive` and
  `negative` are the smallest and largest weights: (0, 1) for both is truncated
  importance sampling, (1, 1) for both naive REINFORCE. The `baseline` c < 1
  reweighs: of a share p of right samples it makes the effective one
  p (1 - c) / (1 + (1 - 2 p) c), best at 10 to 20 %. No KL.
  Source: Le Roux et al. 2025, Tapered Off-Policy REINFORCE.

  Raises:
    ValueError: |baseline| >= 1, with which A no longer tells right from wrong.
  """
  if abs(baseline) >= 1:
    raise ValueError(f"baseline = {baseline:g} must be within (-1, 1)")
  return Method(
    advantage=signs_minus_baseline(baseline),
    loss_filter=only(known_verdict),
    loss=policy_gradient(
      weighted_reinforce(positive, negative),
      ratio=ratios.sequence,
      aggregate=seq_mean_token_sum(),
      against="behavior",
    ),
  )
