"""Chi-squared regularisation: a penalty on the divergence from the base.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.aggregates import sample_mean, seq_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import chain, leave_one_out, scores, transform

_POLICY, _OLD, _REFERENCE = (
  scoring.Need(source, scoring.log_probs) for source in ("policy", "old", "ref")
)
_LINEAR_FROM = 10.0  # log ratio from which exp is continued by its tangent
_MIN_DIVERGENCE = 1e-4  # below it the root has no slope


def excess(log_rho: jax.Array) -> jax.Array:
  """rho - 1, continued by its tangent beyond log rho = 10: no overflow."""
  exact = jnp.expm1(jnp.minimum(log_rho, _LINEAR_FROM))
  tangent = jnp.exp(_LINEAR_FROM) * (1 + log_rho - _LINEAR_FROM) - 1
  return jnp.where(log_rho > _LINEAR_FROM, tangent, exact)


@term(
  takes="none",
  gives="sample",
  aggregate=sample_mean(),
  needs={_POLICY, _REFERENCE},
)
def chi_squared_to_reference(
  _, policy: types.Named, rollout: types.Rollout
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """2 (rho - 1 - log rho), whose gradient is that of E_ref[rho^2] - 1.

  rho [P, S] = pi(y) / ref(y) of a whole sample y of the policy. Its gradient is
  grad E_ref[rho^2] = 2 E_pi[rho grad log pi]. The term -log rho subtracts
  E_pi[grad log pi] = 0, so that a sample has no gradient at the reference.
  Logged: `policy/chi_squared`, rho - 1, whose mean is the divergence.
  """
  gap = policy[scoring.log_probs] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(gap, rollout.mask)  # [P, S]
  excess_ratio = excess(log_rho)
  metrics = {"policy/chi_squared": jax.lax.stop_gradient(excess_ratio)}
  return 2 * (excess_ratio - log_rho), metrics


@transform(takes="none", gives="scalar", needs={_OLD, _REFERENCE})
def slope_of_the_root(_, rollout: types.Rollout, *, coef: float) -> jax.Array:
  """coef / (2 sqrt chi^2) of the policy before the step; 0 below chi^2 = 1e-4.

  chi^2 is the mean over samples of (rho - 1) + (1 / rho - 1). The second part
  is 0 on average and makes the summand of every sample at least 0.
  """
  gap = rollout.extras[_OLD] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(gap, rollout.mask)
  divergences = excess(log_rho) + excess(-log_rho)  # [P, S], >= 0
  divergence = masked.mean(divergences, rollout.valid("token").any(-1), (0, 1))
  has_slope = divergence > _MIN_DIVERGENCE
  # The inner `where` keeps 1 / 0 out of the branch that is not taken.
  root = jnp.sqrt(jnp.where(has_slope, divergence, 1.0))
  return jnp.where(has_slope, 0.5 * coef / root, 0.0)


def chi_squared(coef: float = 0.1, clip: float = 0.2) -> Method:
  """Loss: -A log pi under PPO-clip + coef sqrt(max(chi^2, 1e-4)).

  A [P, S] is the leave-one-out advantage of the scores and
  chi^2 = E_ref[(pi / ref)^2] - 1 over whole samples, with ref the policy at the
  start of the run. If a proxy reward correlates with the true reward under the
  base policy, this bounds the loss of true reward. The term is computed as the
  slope of the root times chi^2, which is exact at the first update of a
  rollout.
  Open: the coefficient depends on the task.
  Deviation: the gradient is that of the divergence; the released code
  differentiates the estimate at fixed samples.
  Source: Laidlaw et al. 2024, Correlated Proxies: A New Definition and Improved
  Mitigation for Reward Hacking.

  Args:
    coef: weight of the divergence.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), leave_one_out()),
    loss=policy_gradient(ppo_clip(clip, clip), aggregate=seq_mean_token_sum())
    + slope_of_the_root(coef) * chi_squared_to_reference(),
    parameter_sets=(("ref", frozen()),),
  )
