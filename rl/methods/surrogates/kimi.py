"""The objective of Kimi k1.5: a policy gradient with a quadratic penalty.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses import surrogates
from rl.losses.aggregates import sample_mean, seq_mean_token_sum
from rl.losses.terms import policy_gradient, term
from rl.method import Method
from rl.transforms import center, chain, scores

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the policy that is being trained.
_LOG_PROBS = scoring.Need("policy", scoring.log_probs)
# A need: log-probs [P, S, T] of the old policy (at the start of the step).
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)


@surrogates.surrogate()
def log_gain(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
) -> jax.Array:
  """A log rho: A log pi minus a constant, so that its value is 0 at pi_old.

  rho = pi / pi_old is the importance ratio of a token.
  """
  del policy, rollout
  return advantages * log_ratio


@term(
  takes="none",
  gives="sample",
  aggregate=sample_mean(),
  needs={_LOG_PROBS, _OLD_LOG_PROBS},
)
def squared_log_ratio(
  _, policy: types.Named, rollout: types.Rollout
) -> jax.Array:
  """Returns (log pi(y) - log pi_old(y))^2 / 2 of whole samples y."""
  difference = policy[scoring.log_probs] - rollout.extras[_OLD_LOG_PROBS]
  return jnp.where(rollout.mask, difference, 0.0).sum(-1) ** 2 / 2


def kimi(tau: float = 0.1) -> Method:
  """-A log pi(y) + tau/2 (log pi(y) - log pi_old(y))^2, averaged over samples.

  y is a whole sample, pi_old the policy at the start of the training step and
  A_i = R_i - mean R, with R_i [P, S] the score of sample i and mean R the mean
  of its group. For one sample the minimum is at log pi(y) - log pi_old(y) = A /
  tau: the penalty takes the place of a clip, and samples may be
  stale. With a learned value in place of mean R this is DRO.
  Open: the paper does not state tau; 0.1 is a guess.
  Source: Kimi Team 2025, Kimi k1.5; Richemond et al. 2024, Offline Regularised
  Reinforcement Learning (DRO).

  Args:
    tau: weight of the penalty.
  """
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(log_gain(), aggregate=seq_mean_token_sum())
    + tau * squared_log_ratio(),
  )
