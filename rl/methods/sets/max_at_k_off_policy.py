"""Off-policy max@k: unbiased for samples drawn from another policy.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import objectives, scoring, types
from rl.losses.aggregates import prompt_mean
from rl.losses.terms import term
from rl.method import Method
from rl.transforms import scores


@term(
  takes="sample",
  gives="prompt",
  aggregate=prompt_mean(),
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
  """-sum_i sg[A_i] log rho_i, one value per prompt, rho_i of a whole sample.

  A sample has no gradient if log rho_i exceeds `bound` in the direction in
  which A_i pushes it.
  """
  difference = policy[scoring.log_probs] - rollout.behavior_log_probs
  log_ratios = jnp.where(rollout.mask, difference, 0.0).sum(-1)  # [P, S]
  # The advantages depend on the ratios; only log rho is differentiated.
  shift = jax.lax.stop_gradient(log_ratios)
  advantages = objectives.max_at_k_off_policy_advantages(
    signal, jnp.clip(shift, -bound, bound), k, rollout.sample_mask, order
  )
  inside = jnp.where(advantages > 0, shift <= bound, shift >= -bound)
  return -jnp.sum(jnp.where(inside, advantages, 0.0) * log_ratios, -1)


def max_at_k_off_policy(
  k: int = 4, order: str = "exact", bound: float = 1.0
) -> Method:
  """Ascends the importance-weighted E[max of k], for several updates a rollout.

  rho_i [P, S] is the importance ratio pi(y_i) / pi_behavior(y_i) of sample i.
  Its advantage A_i is what the sample adds to the maxima of the k-subsets that
  contain it, each weighted by the product of its ratios ("exact"), by the
  expansion of that product to first order in rho - 1 ("first"), or not at all
  ("zeroth": the on-policy advantages, for comparison). log rho_i is clamped to
  +-`bound` in A, and a sample that has moved further in the direction of A_i
  has no gradient. Within the bound the exact gradient is unbiased for any
  behavior policy; the others are biased. There is no clip of tokens, since the
  ratios are already in A.
  Deviations: the baseline is leave-one-out-minus-one instead of the paper's
  group mean, and whole samples are bounded instead of tokens clipped.
  Source: The Best of N Worlds (off-policy max@k); the exact form is ours.

  Args:
    k: size of the set whose best score is maximised.
    order: "exact", "first" or "zeroth".
    bound: largest |log rho_i|.
  """
  return Method(advantage=scores(), loss=off_policy_max_at_k(k, order, bound))
