"""KL-Cov: a penalty at the tokens that would lower entropy the most.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.methods.surrogates.selection import lowest, token_covariance
from rl.methods.surrogates.weights import importance_weighted
from rl.transforms import broadcast, chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
_POLICY = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the old policy (at the start of the step).
_OLD = scoring.Need("old", scoring.log_probs)
# A need: the extra "prepared/advantage" [P, S, T], the finished advantage of
# the method itself.
_ADVANTAGE = scoring.provided("prepared", "advantage")
# In nats; by rounding, two forward passes of one policy may differ this much.
_ROUNDING = 1e-5


@transform(takes="none", gives="token", needs={_OLD, _ADVANTAGE})
def highest_covariance(
  _, rollout: types.Rollout, *, fraction: float
) -> jax.Array:
  """Returns 1 at the tokens of highest covariance, 0 elsewhere.

  These are `fraction` times the number of all tokens, rounded down, at least
  one, among the tokens with a covariance above 0.

  Returns:
    `[P, S, T]` float32.
  """
  mask, extras = rollout.valid("token"), rollout.extras
  covariance = token_covariance(extras[_ADVANTAGE], extras[_OLD], mask)
  count = jnp.maximum(jnp.floor(fraction * mask.sum()), 1.0)
  selected = lowest(-covariance, mask & (covariance > 0), count)
  return selected.astype(jnp.float32)


@term(takes="token", needs={_POLICY, _OLD})
def distance_to_old(
  signal: jax.Array, policy: types.Named, rollout: types.Rollout
) -> jax.Array:
  """w |log pi - log pi_old|, or 0 where the distance is at most 1e-5 nats.

  The signal w is 1 at the penalised tokens and 0 elsewhere. The mean is over
  all tokens, those with w = 0 included.
  """
  distance = jnp.abs(policy[scoring.log_probs] - rollout.extras[_OLD])
  return signal * jnp.where(distance > _ROUNDING, distance, 0.0)


def kl_cov(fraction: float = 2e-4, beta: float = 1.0, ddof: int = 1) -> Method:
  """Loss -A rho + beta |log rho|, the latter at tokens of large covariance.

    cov_t = (A_t - mean A) (log pi_old_t - mean log pi_old)

  rho [P, S, T] is the importance ratio of a token, A_t the z-score of a
  sample's score in its group and pi_old the policy at the start of the training
  step; means are over the tokens of all samples. The penalty beta |log rho|
  applies to `fraction` times the number of all tokens, those with the largest
  cov > 0. There is no clip; both terms are averaged over all tokens. At the
  first update of a rollout the penalty is 0: log-ratios of up to 1e-5 nats, by
  which two forward passes of one policy may differ, are not penalised.
  Deviation: the covariance is that of the policy before the step; in the
  released code it is that of the current policy.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  Quantity: highest_covariance.

  Args:
    fraction: share of all tokens that is penalised, at least one token if any
      has cov > 0.
    beta: weight of the penalty.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  penalty = distance_to_old().of(signal=highest_covariance(fraction))
  return Method(
    advantage=chain(scores(), group_normalize(ddof), broadcast()),
    loss=policy_gradient(importance_weighted()) + beta * penalty,
  )
