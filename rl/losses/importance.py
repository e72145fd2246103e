"""Importance weights for rollouts of a behavior policy that is out of date.

The *behavior* policy is the distribution that the sampler drew the tokens from.
The *old* policy has the trainer's parameters at the start of the training step.
They differ if the sampler is asynchronous, and so has earlier parameters, or
computes in another precision. `add_importance_weights` multiplies the
advantages of a method by the truncated ratio of the old to the behavior policy.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rl import UsageError, masked, scoring, types
from rl.losses.terms import Loss, Term
from rl.method import Method
from rl.transforms import Transform, broadcast, chain, transform

# Log-probs of the sampled tokens under the old policy, [P, S, T]: P prompts, S
# samples per prompt, T tokens.
_OLD = scoring.Need("old", scoring.log_probs)


@transform(takes="token", needs={_OLD})
def truncated_importance(
  advantages: jax.Array, rollout: types.Rollout, *, cap: float
) -> jax.Array:
  """Multiplies the advantage of each token y_t by a truncated ratio.

    A_t * min(pi_old(y_t) / pi_behavior(y_t), cap)

  log pi_behavior is the log-prob that the sampler reported. If both policies
  agree at a token, the weight is 1 (for cap >= 1). In a chain, this transform
  is the last link, so that no later link normalizes the weights away.

  Source: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You
  Off-Policy RL Training.
  """
  weight = jnp.exp(_log_weights(rollout, cap))  # [P, S, T]
  return jnp.where(rollout.valid("token"), weight, 1.0) * advantages


@transform(takes="token", needs={_OLD})
def truncated_geometric_importance(
  advantages: jax.Array, rollout: types.Rollout, *, cap: float
) -> jax.Array:
  """Multiplies the advantages of a sample by a geometric mean of token weights.

    A_t * (prod_u w_u)^(1 / N)

  w_u = min(pi_old(y_u) / pi_behavior(y_u), cap) is the weight of token u in
  `truncated_importance`, and u runs over the N scored tokens of the sample. The
  mean includes the tokens that the method's `loss_filter` removes: the filter
  is applied after the advantage.
  """
  mean_log_weight = masked.mean(
    _log_weights(rollout, cap), rollout.valid("token"), keepdims=True
  )  # [P, S, 1]; 0 if the sample has no scored token
  return jnp.exp(mean_log_weight) * advantages


def _log_weights(rollout: types.Rollout, cap: float) -> jax.Array:
  """Computes the log of the truncated ratio of each token, `[P, S, T]`."""
  log_ratio = rollout.extras[_OLD] - rollout.behavior_log_probs
  return jnp.minimum(log_ratio, jnp.log(cap))


# By the kind of mean over tokens in a term's objective (`Term.token_mean`).
_WEIGHT_TRANSFORMS = {
  "arithmetic": truncated_importance,
  "geometric": truncated_geometric_importance,
}


def add_importance_weights(method: Method, cap: float) -> Method:
  """Multiplies the advantages of a method by importance weights.

  The weights are those of `truncated_importance(cap)`, except for a term whose
  objective is a geometric mean over tokens (`Term.token_mean`, GMPO). There,
  each ratio rho_t of the mean is multiplied by the weight w_t of its token, and

    (prod_t w_t rho_t)^(1 / N) = (prod_t w_t)^(1 / N) * (prod_t rho_t)^(1 / N)

  over the N tokens of a sample, so that the advantage is multiplied by
  `truncated_geometric_importance(cap)`. The ratio s_i of GSPO is a geometric
  mean too, but its objective is the arithmetic mean of s_i A_t over the tokens
  t, whose advantages A_t may differ (GSPO-token). Therefore each A_t is
  multiplied by the weight w_t of its own token. verl does the same for both
  methods.

  Args:
    method: a method with an advantage. Terms that read another signal instead
      of the method's advantage (`Term.signal`) stay as they are.
    cap: largest weight of a token.

  Raises:
    UsageError: if the method has no advantage, the denominator of a term's
      ratio is the behavior policy already, or the cap is not positive.
    LevelError: if a term takes advantages of samples; raised by `Method`.
  """
  if cap <= 0:
    raise UsageError(f"cap = {cap} must be above 0; a usual value is 2.0.")
  if method.advantage is None:
    raise UsageError(
      f"{method.name} has no advantage that importance weights could multiply; "
      "use it without importance weights"
    )
  for term in method.loss.terms:
    if term.denominator == "behavior":
      raise UsageError(
        f"{method.name}: the denominator of the ratio of {term} is the "
        "behavior policy already; use the method without importance weights"
      )

  def weighted_advantage(token_mean: str) -> Transform:
    to_tokens = () if method.advantage.gives == "token" else (broadcast(),)
    weights = _WEIGHT_TRANSFORMS[token_mean](cap)
    return chain(method.advantage, *to_tokens, weights)

  def reads_advantage(term: Term) -> bool:
    return term.signal is None and term.takes != "none"

  readers = [term for term in method.loss.terms if reads_advantage(term)]
  # The method has one advantage, with the weights that its first term needs. A
  # term that needs the other kind of weights gets a signal in its place.
  first_mean = readers[0].token_mean if readers else "arithmetic"
  terms = tuple(
    dataclasses.replace(term, signal=weighted_advantage(term.token_mean))
    if reads_advantage(term) and term.token_mean != first_mean
    else term
    for term in method.loss.terms
  )
  return dataclasses.replace(
    method, advantage=weighted_advantage(first_mean), loss=Loss(terms)
  )
