"""max@k of samples drawn from another policy, without bias."""

import jax
import jax.numpy as jnp

from rl import objectives, scoring, types
from rl.losses.aggregates import prompt_mean
from rl.losses.terms import term
from rl.method import Method
from rl.transforms import scores


@term(
  "sample",
  "prompt",
  prompt_mean(),
  needs={scoring.Need("policy", scoring.log_probs)},
)
def off_policy_max_at_k(
  signal: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  k: int,
  order: str,
  bound: float,
) -> jax.Array:
  """- sum_i sg[A_i] log rho_i, one value per prompt, rho of whole samples.

  A sample that has moved beyond `bound` the way A pushes it is left alone.
  """
  difference = policy[scoring.log_probs] - rollout.behavior_log_probs
  log_ratios = jnp.where(rollout.mask, difference, 0.0).sum(-1)
  moved = jax.lax.stop_gradient(log_ratios)
  gains = objectives.max_at_k_off_policy_advantages(
    signal, jnp.clip(moved, -bound, bound), k, rollout.sample_mask, order
  )
  near = jnp.where(gains > 0, moved <= bound, moved >= -bound)
  return -jnp.sum(jnp.where(near, gains, 0.0) * log_ratios, -1)


def max_at_k_off_policy(
  k: int = 4, order: str = "exact", bound: float = 1.0
) -> Method:
  """Ascends the importance-weighted E[max of k], for several updates a rollout.

  A sample counts for what it adds to the k-subsets that hold it, each weighed
  by the product of its sequence ratios ("exact"), by that product's expansion
  to first order in rho - 1 ("first"), or without them ("zeroth": the on-policy
  advantages, uncorrected, the baseline to compare with). Log-ratios of samples
  are clamped to +-`bound`, and a sample that has moved further where it is
  pushed rests; within that the exact gradient is unbiased, whatever the sampler
  was, the others are not. No token-level clip: the ratios are already in the
  advantages.
  Deviations: the leave-one-out-minus-one baseline for the paper's group mean,
  and a bound on samples for its clip of tokens.
  Source: The Best of N Worlds (off-policy max@k); the exact form is ours.
  """
  return Method(advantage=scores(), loss=off_policy_max_at_k(k, order, bound))
