"""Off-policy max@k: unbiased for samples drawn from another policy.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import best_of_k, scoring, types
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
  mixture: tuple[tuple[int, float], ...],
  order: str,
  bound: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """-sum_i sg[A_i] log rho_i, one value per prompt, rho_i of a whole sample.

  The sum is over the samples i of a group; the signal holds their scores. A is
  the sum over the pairs (k, weight) of the mixture of the weight times the
  advantages of max@k. A sample has no gradient if A_i > 0 and log rho_i >
  `bound`, or if A_i <= 0 and log rho_i < -`bound`. The mean of |log rho_i| is
  logged as
  `policy/sample_log_ratio`.
  """
  difference = policy[scoring.log_probs] - rollout.behavior_log_probs
  log_ratios = jnp.where(rollout.mask, difference, 0.0).sum(-1)  # [P, S]
  # A depends on the ratios, but only the factor log rho is differentiated.
  stopped = jax.lax.stop_gradient(log_ratios)
  ratios = jnp.clip(stopped, -bound, bound)
  advantages = sum(
    weight
    * best_of_k.max_at_k_off_policy_advantages(
      signal, ratios, k, rollout.sample_mask, order
    )
    for k, weight in mixture
  )
  has_gradient = jnp.where(advantages > 0, stopped <= bound, stopped >= -bound)
  value = -jnp.sum(jnp.where(has_gradient, advantages, 0.0) * log_ratios, -1)
  return value, {"policy/sample_log_ratio": jnp.abs(stopped)}


def max_at_k_off_policy(
  k: int = 4, order: str = "exact", bound: float = 1.0
) -> Method:
  """Ascends the importance-weighted E[max of k], for several updates a rollout.

  rho_i [P, S] is the importance ratio pi(y_i) / pi_behavior(y_i) of sample i as
  a whole. Its advantage A_i is the mean over the k-subsets that contain i,
  times k/n, of what i adds to the maximum of the subset, weighted by the
  product of the ratios of the subset ("exact"), by the expansion of that
  product to first order in rho - 1 ("first"), or by 1 ("zeroth": the on-policy
  advantages, for comparison). log rho_i is clamped to +-`bound` in A, and a
  sample that has moved further than this in the direction of A_i has no
  gradient. Within the bound the gradient of "exact" is unbiased for any
  behavior policy; "first" and "zeroth" are biased. Tokens are not clipped,
  since the ratios are already in A.
  Deviation: the paper's baseline is the group mean, and it clips tokens; this
  implementation has the baseline leave-one-out-minus-one and bounds whole
  samples.
  Source: The Best of N Worlds (off-policy max@k). The exact form is new here.

  Args:
    k: size of the set whose best score is maximised.
    order: "exact", "first" or "zeroth".
    bound: largest |log rho_i|.
  """
  loss = off_policy_max_at_k(((k, 1.0),), order, bound)
  return Method(advantage=scores(), loss=loss)
