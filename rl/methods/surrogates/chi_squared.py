"""Chi-squared regularisation: a penalty on the divergence from the start.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
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

# Needs, which are arrays that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained, of the old policy (at the start of the
# training step) and of the reference policy (at the start of the run).
_POLICY, _OLD, _REFERENCE = (
  scoring.Need(source, scoring.log_probs) for source in ("policy", "old", "ref")
)
# Log-ratio from which exp is continued by its tangent, so that its square stays
# finite.
_LINEAR_FROM = 10.0
# chi^2 below which the root has no slope here; its slope at 0 is infinite.
_MIN_DIVERGENCE = 1e-4


def excess(log_rho: jax.Array) -> jax.Array:
  """Returns rho - 1, continued by its tangent beyond log rho = 10."""
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

  rho [P, S] = pi(y) / ref(y) for a whole sample y of the policy. The expected
  gradient of the term is 2 E_pi[(rho - 1) grad log pi], and grad E_ref[rho^2] =
  2 E_pi[rho grad log pi] is the same, because E_pi[grad log pi] = 0. With the
  summand -log rho a sample has no gradient where pi = ref. Logs
  `policy/chi_squared`, rho - 1, whose mean is the divergence.
  """
  log_ratio = policy[scoring.log_probs] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(log_ratio, rollout.mask)  # [P, S]
  excess_ratio = excess(log_rho)
  metrics = {"policy/chi_squared": jax.lax.stop_gradient(excess_ratio)}
  return 2 * (excess_ratio - log_rho), metrics


@transform(takes="none", gives="scalar", needs={_OLD, _REFERENCE})
def slope_of_the_root(_, rollout: types.Rollout, *, coef: float) -> jax.Array:
  """Returns coef / (2 sqrt chi^2) of the old policy; 0 if chi^2 <= 1e-4.

  chi^2 is the mean over samples of (rho - 1) + (1 / rho - 1), with rho =
  pi_old(y) / ref(y). The second part is 0 in expectation; with it every summand
  is at least 0.
  """
  log_ratio = rollout.extras[_OLD] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(log_ratio, rollout.mask)
  divergences = excess(log_rho) + excess(-log_rho)  # [P, S], >= 0
  divergence = masked.mean(divergences, rollout.valid("token").any(-1), (0, 1))
  slope = 0.5 * coef / jnp.sqrt(divergence)
  return jnp.where(divergence > _MIN_DIVERGENCE, slope, 0.0)


def chi_squared(coef: float = 0.1, clip: float = 0.2) -> Method:
  """Loss: -A log pi under PPO-clip + coef sqrt(max(chi^2, 1e-4)).

  A [P, S] is the leave-one-out advantage of the scores and chi^2 = E_ref[(pi /
  ref)^2] - 1 over whole samples, with ref the policy at the start of the run.
  If a proxy reward correlates with the true reward under ref, this bounds how
  much true reward is lost. The term is computed as (slope of the root at the
  old policy) x chi^2, whose gradient is exact at the first update of a rollout.
  PPO-clip is summed over the tokens of a sample and averaged over samples.
  Open: the coefficient depends on the task; the default is a guess.
  Deviation: the released code differentiates the estimate of chi^2 at fixed
  samples; the gradient of this implementation is that of the divergence itself,
  which also changes the distribution of the samples.
  Source: Laidlaw et al. 2024, Correlated Proxies: A New Definition and Improved
  Mitigation for Reward Hacking.
  Quantity: ref/log_probs, by sample.

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
