"""Reward held to the base policy by the chi-squared divergence."""

import jax

from rl import masked, probes, types
from rl.aggregates import sample_mean, seq_mean_token_sum
from rl.method import Method
from rl.slots import frozen
from rl.surrogates import ppo_clip, ratio
from rl.terms import policy_gradient, term
from rl.transform import chain
from rl.transforms import leave_one_out, scores

_LOG_PROBS = probes.Need("policy", probes.log_probs)
_REFERENCE = probes.Need("ref", probes.log_probs)


@term("none", "sample", sample_mean(), needs={_LOG_PROBS, _REFERENCE})
def chi_squared_to_reference(
  _, policy: types.Named, rollout: types.Rollout
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """2 (rho - 1 - log rho), rho = pi(y) / ref(y): grad of E_ref[rho^2] - 1.

  Samples are the policy's own: grad E_ref[rho^2] = 2 E_pi[rho grad log pi], and
  E_pi[grad log pi] = 0 is taken off, so that each sample rests at the
  reference. Logged: `policy/chi_squared`, rho - 1; its mean is the divergence.
  """
  gap = policy[probes.log_probs] - rollout.extras[_REFERENCE]
  log_rho = masked.sum(gap, rollout.mask)
  rho = ratio(log_rho)
  value = 2 * (rho - 1 - log_rho)
  return value, {"policy/chi_squared": jax.lax.stop_gradient(rho) - 1}


def chi_squared(coef: float = 0.1, clip: float = 0.2) -> Method:
  """Leave-one-out rewards less the chi-squared divergence from the base.

  Loss: - A log pi, PPO-clipped, plus coef (E_ref[(pi / ref)^2] - 1) over whole
  samples. Where a proxy reward correlates with the true one under the base
  policy, this bound of the regret is in the chi-squared, not in the KL.
  Open: the coefficient is the task's. Long samples have ratios that overflow
  (their logarithm is clamped at 20).
  Source: Laidlaw et al. 2024, Correlated Proxies: A New Definition and Improved
  Mitigation for Reward Hacking.
  """
  return Method(
    advantage=chain(scores(), leave_one_out()),
    loss=policy_gradient(ppo_clip(clip, clip), aggregate=seq_mean_token_sum())
    + coef * chi_squared_to_reference(),
    slots=(("ref", frozen()),),
  )
