"""BBG: updates are gated by what a prompt can add to pass@k.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import UsageError, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import chain, transform


def expected_slope(right: jax.Array, n: jax.Array, k: int) -> jax.Array:
  """Computes the posterior mean of d pass@k / dp = k (1 - p)^(k-1).

    u(c) = k * prod_{j=1}^{k-1} (n - c + j) / (n + 1 + j)

  The prior of the success rate p is uniform, so that its posterior after c
  right samples of n is Beta(c + 1, n - c + 1).

  Args:
    right: `[...]`, c.
    n: `[...]`, number of samples with a known verdict.
    k: number of tries.

  Returns:
    `[...]`, below n + 1.
  """
  j = jnp.arange(1, k)
  factors = (n - right)[..., None] + j
  return k * jnp.prod(factors / ((n + 1)[..., None] + j), axis=-1)


@transform(takes="sample")
def gate_by_slope(
  signal: jax.Array, rollout: types.Rollout, *, k: int, threshold: float
) -> jax.Array:
  """Returns u(c) times the signal, or 0 where u(c) < threshold (n + 1).

  Args:
    signal: `[P, S]`.
    rollout: the rollout, of which the verdicts are read.
    k: number of tries.
    threshold: smallest u(c), as a share of its limit for k -> infinity and
      c = 0.
  """
  valid = rollout.sample_mask
  n = masked.count(valid & (rollout.correct >= 0))
  right = masked.count(valid & (rollout.correct == 1))
  slope = expected_slope(right, n, k)
  gate = jnp.where(slope >= threshold * (n + 1), slope, 0.0)
  return jnp.where(valid, signal * gate[..., None], 0.0)


def bbg(k: int = 16, threshold: float = 0.01, clip: float = 0.2) -> Method:
  """A_i = +-u(c), if u(c) >= threshold (n + 1), and else 0.

  u(c) is the posterior mean of the slope of pass@k in the success rate, for c
  right samples among n (`expected_slope`). The sign is + for a right sample and
  - for a wrong one; a group without a right sample is trained on, too. Prompts
  that are solved so often that pass@k is saturated are left out: with n = 8 and
  k = 16, those with more than three right samples. A is [P, S]. The loss is
  PPO-clip, averaged over the tokens of all samples, without a KL.
  Deviation: the paper draws further prompts until enough of them pass the gate;
  this implementation trains on those of the batch that do.
  Source: Bayesian Boundary Gating (BBG), arXiv 2606.15455; not checked against
  the paper. The gate is from a public implementation that cites its equations;
  the normalisation of the weight u is not known.
  Quantity: correct.

  Args:
    k: number of tries of pass@k.
    threshold: smallest share of n + 1, the largest slope, that u must reach.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if k is below 2, for which every prompt has the same slope.
  """
  if k < 2:
    raise UsageError(f"k = {k} must be at least 2; 16 is usual")
  return Method(
    advantage=chain(signed_verdicts(), gate_by_slope(k, threshold)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
