"""CoBA: a budget of samples, allocated by what each prompt can teach.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jax.scipy.special import betaln

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.sampling.dars import accuracy
from rl.sampling import samplers
from rl.transforms import chain, group_normalize, scores

Array = jax.Array


def capability_value(
  n: Array, p: Array, alpha: Array, beta: Array, tau: float
) -> Array:
  """V = (1 - exp(-n p (1 - p) / tau)) Beta(p; alpha, beta); 0 at p = 0 and 1.

  Beta(p; alpha, beta) is the density of the Beta distribution at p. V is
  concave in n, so that giving samples one by one to the prompt with the largest
  gain is optimal.

  Args:
    n: number of samples of a prompt.
    p: pass rate of the prompt.
    alpha, beta: parameters of the Beta density, which is high at the pass rates
      that the policy learns most from.
    tau: number of samples, times p (1 - p), over which V approaches its limit.
  """
  is_mixed = (p > 0) & (p < 1)
  q = jnp.where(is_mixed, p, 0.5)  # keeps the logarithms finite
  log_density = (alpha - 1) * jnp.log(q) + (beta - 1) * jnp.log1p(-q)
  density = jnp.exp(log_density - betaln(alpha, beta))
  return jnp.where(is_mixed, -jnp.expm1(-n * q * (1 - q) / tau) * density, 0.0)


def allocate(
  p: Array,
  alpha: Array,
  beta: Array,
  total: int,
  low: int,
  high: int,
  tau: float = 1.0,
) -> Array:
  """Returns the numbers of samples n `[P]` that maximise sum V(n, p).

  Each n is from `low` to `high`, and their sum is `total`.

  Args:
    p: `[P]` pass rates.
    alpha, beta, tau: same as in `capability_value`.
    total: number of samples of all prompts, from P * low to P * high.
    low, high: smallest and largest number of samples of one prompt.
  """
  n = jnp.arange(low, high)[:, None]  # [high - low, 1]
  parameters = (p, alpha, beta, tau)
  gain = capability_value(n + 1, *parameters) - capability_value(n, *parameters)
  # Because the sort is stable, prompts with equal gains take turns.
  best_first = jnp.argsort(-gain.ravel(), stable=True)
  is_allocated = jnp.zeros(gain.size, bool)
  num_further = total - low * p.shape[0]
  is_allocated = is_allocated.at[best_first[:num_further]].set(True)
  return low + is_allocated.reshape(gain.shape).sum(0)


def coba(
  pilot: int = 4,
  mean_samples: int = 16,
  tau: float = 1.0,
  lowest: float = 1.5,
  slope: float = 8.0,
  decay: float = 0.9,
  clip: float = 0.2,
) -> Method:
  """Allocates a fixed budget of samples to the prompts of the highest value.

    F      moving average of the failure rate, 1 - mean pass rate of the pilots
    F~     F if F > 1/2, else sigmoid(10 (F - 1/2))
    alpha  clip(lowest + slope * F~, 1.5, 9.5), and beta = 11 - alpha

  The value of n samples of a prompt is `capability_value`; a policy that fails
  often has a large alpha, which prefers easier prompts. A first pass of `pilot`
  samples of every prompt estimates its pass rate, the share of right verdicts;
  `allocate` distributes the rest of `mean_samples` per prompt, so that no
  prompt has more than the S samples of the rollout. A [P, S] is the z-score of
  a sample's score in its group; the loss is PPO-clip, averaged over the tokens
  of all samples, without a KL. If pilot >= S there is one pass.
  Open: tau, slope, decay and the bounds of alpha are not known from the paper;
  the defaults reproduce its examples (alpha from 2.5 to 7.3).
  Deviation: the paper gives every prompt at least 2 samples; this
  implementation gives it at least the pilot, 4 by default, because the pilot
  estimates the pass rate.
  Source: CoBA-RL: Capability-Oriented Budget Allocation, 2025.

  Args:
    pilot: number of samples of every prompt in the first pass.
    mean_samples: samples per prompt on average, both passes together.
    tau: scale of the number of samples in `capability_value`.
    lowest: alpha at F~ = 0, before it is clipped.
    slope: change of alpha per unit of F~.
    decay: factor of the earlier rollouts in the moving average.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """

  def budget(rollout: types.Rollout, max_further: int, memory):
    p = accuracy(rollout)
    has_verdict = rollout.sample_mask & (rollout.correct >= 0)
    failure = 1 - masked.mean(p, has_verdict.any(-1))
    # Without any known verdict the moving average stays as it is.
    share = jnp.where(has_verdict.any(), 1 - decay, 0.0)
    failure = (1 - share) * memory["failure"] + share * failure
    weight = (1 - share) * memory["weight"] + share
    mean = failure / jnp.maximum(weight, 1e-6)  # F, corrected for its start
    shaped = jnp.where(mean > 0.5, mean, jax.nn.sigmoid(10 * (mean - 0.5)))
    alpha = jnp.clip(lowest + slope * shaped, 1.5, 9.5)
    num_prompts = p.shape[0]
    total = min(max(mean_samples, pilot), pilot + max_further) * num_prompts
    n = allocate(p, alpha, 11 - alpha, total, pilot, pilot + max_further, tau)
    return n - pilot, {"failure": failure, "weight": weight}

  return Method(
    advantage=chain(scores(), group_normalize()),
    loss=policy_gradient(ppo_clip(clip, clip)),
    sampler=samplers.second_pass(
      pilot,
      budget,
      f"second_pass(capability, pilot={pilot}, mean={mean_samples})",
      lambda: {"failure": jnp.zeros(()), "weight": jnp.zeros(())},
    ),
  )
