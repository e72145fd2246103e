"""max@k of samples drawn from another policy, without bias."""

import jax
import jax.numpy as jnp

from rl import objectives, probes, types
from rl.aggregates import prompt_mean
from rl.method import Method
from rl.terms import term
from rl.transforms import scores


@term(
  "sample",
  "prompt",
  prompt_mean(),
  needs={probes.Need("policy", probes.log_probs)},
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
  """- sum_i sg[w_i] log rho_i, one value per prompt, rho of whole samples."""
  difference = policy[probes.log_probs] - rollout.behavior_log_probs
  log_ratios = jnp.where(rollout.mask, difference, 0.0).sum(-1)
  weights = objectives.max_at_k_off_policy_weights(
    signal,
    jnp.clip(jax.lax.stop_gradient(log_ratios), -bound, bound),
    k,
    rollout.sample_mask,
    order,
  )
  return -jnp.sum(jax.lax.stop_gradient(weights) * log_ratios, -1)


def max_at_k_off_policy(
  k: int = 4, order: str = "exact", bound: float = 3.0
) -> Method:
  """Ascends the importance-weighted E[max of k], for several updates a rollout.

  The weight of sample i is the mean over the k-subsets that hold i of their
  product of sequence ratios times their maximum ("exact"), or its first-order
  expansion ("first"), or that product without the ratios ("zeroth": on-policy
  weights, uncorrected, the baseline to compare with). Log-ratios of samples are
  clamped to +-`bound`; within it the exact gradient is unbiased, whatever the
  sampler was, the others are not. No token-level clip: the ratios are already
  in the weights.
  Source: The Best of N Worlds (off-policy max@k); the exact form is ours.
  """
  return Method(advantage=scores(), loss=off_policy_max_at_k(k, order, bound))
