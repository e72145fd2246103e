"""Reward held to the base policy by the chi-squared divergence."""

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
_STRAIGHT = 10.0  # beyond it, e^x goes on as its tangent
_LEAST = 1e-4  # of the divergence, under the root


def excess(log_rho: jax.Array) -> jax.Array:
  """rho - 1, a straight line beyond log rho = 10 so that nothing overflows."""
  bent = jnp.expm1(jnp.minimum(log_rho, _STRAIGHT))
  straight = jnp.exp(_STRAIGHT) * (1 + log_rho - _STRAIGHT) - 1
  return jnp.where(log_rho > _STRAIGHT, straight, bent)


@term("none", "sample", sample_mean(), needs={_POLICY, _REFERENCE})
def chi_squared_to_reference(
  _, policy: types.Named, rollout: types.Rollout
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """2 (rho - 1 - log rho), rho = pi(y) / ref(y): grad of E_ref[rho^2] - 1.

  Samples are the policy's own: grad E_ref[rho^2] = 2 E_pi[rho grad log pi], and
  E_pi[grad log pi] = 0 is taken off, so that each sample rests at the
  reference. Logged: `policy/chi_squared`, rho - 1; its mean is the divergence.
  """
  gap = policy[scoring.log_probs] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(gap, rollout.mask)
  beyond = excess(log_rho)
  logged = {"policy/chi_squared": jax.lax.stop_gradient(beyond)}
  return 2 * (beyond - log_rho), logged


@transform("none", "scalar", needs={_OLD, _REFERENCE})
def slope_of_the_root(_, rollout: types.Rollout, *, coef: float) -> jax.Array:
  """coef / (2 sqrt chi^2), 0 below 1e-4; chi^2 of the policy before the step.

  chi^2 = mean of (rho - 1) + (1 / rho - 1), whose second part is 0 on average
  and makes every sample count at least 0.
  """
  gap = rollout.extras[_OLD] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(gap, rollout.mask)
  each = excess(log_rho) + excess(-log_rho)
  found = masked.mean(each, rollout.valid("token").any(-1), (0, 1))
  far = found > _LEAST
  return jnp.where(far, 0.5 * coef / jnp.sqrt(jnp.where(far, found, 1.0)), 0.0)


def chi_squared(coef: float = 0.1, clip: float = 0.2) -> Method:
  """Leave-one-out rewards less the root of the divergence from the base.

  Loss: - A log pi, PPO-clipped, plus coef sqrt(max(chi^2, 1e-4)), chi^2 =
  E_ref[(pi / ref)^2] - 1 over whole samples. Where a proxy reward correlates
  with the true one under the base policy, this bounds what can be lost.
  Built as the root's slope times the linear term: exact at a first update.
  Open: the coefficient is the task's. Deviation: the gradient of the divergence
  itself; the released code differentiates the estimate at fixed samples.
  Source: Laidlaw et al. 2024, Correlated Proxies: A New Definition and Improved
  Mitigation for Reward Hacking.
  """
  return Method(
    advantage=chain(scores(), leave_one_out()),
    loss=policy_gradient(ppo_clip(clip, clip), aggregate=seq_mean_token_sum())
    + slope_of_the_root(coef) * chi_squared_to_reference(),
    parameter_sets=(("ref", frozen()),),
  )
