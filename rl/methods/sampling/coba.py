"""A budget of samples, dealt by what the policy can learn from each prompt."""

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


def value(n: Array, p: Array, alpha: Array, beta: Array, tau: float) -> Array:
  """(1 - exp(-n p (1 - p) / tau)) Beta(p; alpha, beta); 0 at p = 0 and 1.

  Concave in n, so that dealing samples one by one to the largest gain is
  optimal.
  """
  inside = (p > 0) & (p < 1)
  q = jnp.where(inside, p, 0.5)
  log_density = (alpha - 1) * jnp.log(q) + (beta - 1) * jnp.log1p(-q)
  density = jnp.exp(log_density - betaln(alpha, beta))
  return jnp.where(inside, -jnp.expm1(-n * q * (1 - q) / tau) * density, 0.0)


def allocate(
  p: Array,
  alpha: Array,
  beta: Array,
  total: int,
  low: int,
  high: int,
  tau: float = 1.0,
) -> Array:
  """n `[P]` in low..high with sum `total` that maximises sum V(n, p).

  Args:
    p: `[P]` pass rates.
    alpha, beta: of the preferred pass rate.
    total: samples of all prompts; between P low and P high.
    low, high: of one prompt.
    tau: of the diminishing returns.
  """
  n = jnp.arange(low, high)[:, None]
  gain = value(n + 1, p, alpha, beta, tau) - value(n, p, alpha, beta, tau)
  best_first = jnp.argsort(-gain.ravel(), stable=True)  # equal gains: in turn
  dealt = jnp.zeros(gain.size, bool)
  dealt = dealt.at[best_first[: total - low * p.shape[0]]].set(True)
  return low + dealt.reshape(gain.shape).sum(0)


def coba(
  pilot: int = 4,
  mean_samples: int = 16,
  tau: float = 1.0,
  lowest: float = 1.5,
  slope: float = 8.0,
  decay: float = 0.9,
  clip: float = 0.2,
) -> Method:
  """Deals a fixed budget of samples to the prompts worth most at present.

  F is the moving average of the failure rate, F~ = F above 1/2 and
  sigmoid(10 (F - 1/2)) below; alpha = clip(lowest + slope F~, 1.5, 9.5),
  beta = 11 - alpha: a policy that fails often is given easier prompts. A pilot
  of every prompt estimates its pass rate; `allocate` deals the rest of
  `mean_samples` a prompt (at most the slots there are). Then GRPO's advantages
  under PPO-clip, token mean, no KL.
  Open: tau, slope, decay and the bounds of alpha are not known from the paper;
  these reach its examples (alpha 2.5 to 7.3). The least of a prompt is the
  pilot, 4 where the paper has 2, since it must estimate the pass rate.
  pilot >= slots: no second pass.
  Source: CoBA-RL: Capability-Oriented Budget Allocation, 2025.
  """

  def budget(rollout: types.Rollout, most: int, memory):
    p = accuracy(rollout)
    known = rollout.sample_mask & (rollout.correct >= 0)
    failure = 1 - masked.mean(p, known.any(-1))
    share = jnp.where(known.any(), 1 - decay, 0.0)  # nothing is known: no news
    failure = (1 - share) * memory["failure"] + share * failure
    weight = (1 - share) * memory["weight"] + share
    mean = failure / jnp.maximum(weight, 1e-6)
    capability = jnp.where(mean > 0.5, mean, jax.nn.sigmoid(10 * (mean - 0.5)))
    alpha = jnp.clip(lowest + slope * capability, 1.5, 9.5)
    count = p.shape[0]
    total = min(max(mean_samples, pilot), pilot + most) * count
    n = allocate(p, alpha, 11 - alpha, total, pilot, pilot + most, tau)
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
