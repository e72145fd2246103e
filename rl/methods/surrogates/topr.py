"""TOPR: imitates right samples, tapers wrong ones as they become unlikely.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import UsageError, types
from rl.losses import ratios
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.weights import weighted_reinforce
from rl.transforms import known_verdict, only, transform


@transform(takes="none", gives="sample")
def signs_minus_baseline(
  _, rollout: types.Rollout, *, baseline: float
) -> jax.Array:
  """Returns 1 - c for right samples, -1 - c for wrong ones, 0 for unknown ones.

  c is `baseline`.
  """
  signs = jnp.where(rollout.correct == 1, 1.0, -1.0)
  return jnp.where(known_verdict(rollout), signs - baseline, 0.0)


def topr(
  baseline: float = 0.0,
  positive: tuple[float, float] = (1.0, 1.0),
  negative: tuple[float, float] = (0.0, 1.0),
) -> Method:
  """Maximises sg[w] A log pi(y), with w = 1 if A > 0, else min(rho, 1).

  y is a whole sample, rho [P, S] = pi(y) / mu(y) with mu the behavior policy,
  which may be many updates old, sg stops the gradient, and A = 1 - c for right
  samples and -1 - c for wrong ones, by the verdict. The weight w of a wrong
  sample falls as the sample becomes unlikely, so that the objective is bounded;
  a right sample keeps w = 1. The objective is averaged over samples, without a
  KL. Samples with an unknown verdict are left out.
  Source: Le Roux et al. 2025, Tapered Off-Policy REINFORCE.
  Quantity: correct.

  Args:
    baseline: c, between -1 and 1. A share p of right samples then acts like a
      share p (1 - c) / (1 + (1 - 2 p) c) with c = 0; according to the paper, 10
      to 20 % is the best effective share.
    positive, negative: smallest and largest weight w of samples with A > 0 and
      with A < 0. (0, 1) for both is truncated importance sampling, (1, 1) for
      both is REINFORCE without a correction.

  Raises:
    UsageError: if |baseline| >= 1, so that the sign of A would no longer tell
      right from wrong.
  """
  if abs(baseline) >= 1:
    raise UsageError(f"baseline = {baseline:g} must be between -1 and 1")
  return Method(
    advantage=signs_minus_baseline(baseline),
    loss_filter=only(known_verdict),
    loss=policy_gradient(
      weighted_reinforce(positive, negative),
      ratio=ratios.sequence,
      aggregate=seq_mean_token_sum(),
      denominator="behavior",
    ),
  )
