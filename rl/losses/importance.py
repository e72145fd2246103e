"""Importance weights for rollouts whose behavior policy is a few updates old.

An asynchronous sampler has older parameters than the trainer, or computes in
another precision. `add_importance_weights` multiplies the advantages of a
method by the truncated ratio of the trainer's policy to the behavior policy.
"""

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.terms import Loss, Term
from rl.method import Method
from rl.transforms import Transform, broadcast, chain, transform

_OLD = scoring.Need("old", scoring.log_probs)


@transform(takes="token", needs={_OLD})
def truncated_importance(
  advantages: jax.Array, rollout: types.Rollout, *, cap: float
) -> jax.Array:
  """A_t min(pi_old(y_t) / pi_behavior(y_t), cap).

  pi_old is the policy at the start of the step. log pi_behavior is what the
  sampler reported. Put it last in a chain, because it multiplies a finished
  advantage. The weight is exactly 1 if both policies agree.

  Source: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You
  Off-Policy RL Training.
  """
  weight = jnp.exp(_log_weights(rollout, cap))
  return jnp.where(_sampled_tokens(rollout), weight, 1.0) * advantages


@transform(takes="token", needs={_OLD})
def truncated_geometric_importance(
  advantages: jax.Array, rollout: types.Rollout, *, cap: float
) -> jax.Array:
  """A_t (prod_u w_u)^(1 / T), the product over the T tokens of the sample.

  w_u = min(pi_old(y_u) / pi_behavior(y_u), cap) is the weight of a token in
  `truncated_importance`. All tokens of a sample have the same weight. The mean
  includes tokens that the loss filter removes, which is applied later.
  """
  mean = masked.mean(
    _log_weights(rollout, cap), _sampled_tokens(rollout), keepdims=True
  )  # [P, S, 1]; 0 if the sample has no token
  return jnp.exp(mean) * advantages


def _log_weights(rollout: types.Rollout, cap: float) -> jax.Array:
  """Log of the truncated ratio of each token, `[P, S, T]`."""
  log_ratio = rollout.extras[_OLD] - rollout.behavior_log_probs
  return jnp.minimum(log_ratio, jnp.log(cap))


def _sampled_tokens(rollout: types.Rollout) -> jax.Array:
  """Mask of the tokens that the policy sampled, `[P, S, T]`."""
  return rollout.mask & rollout.sample_mask[..., None]


# The keys are values of `rl.losses.terms.Term.token_mean`.
_WEIGHTS = {
  "arithmetic": truncated_importance,
  "geometric": truncated_geometric_importance,
}


def add_importance_weights(method: Method, cap: float) -> Method:
  """Weighs the advantages of a method by `truncated_importance(cap)`.

  A term whose mean over tokens is geometric (GMPO) is weighed by
  `truncated_geometric_importance(cap)` instead: its factors rho_t become
  w_t rho_t, and (prod_t w_t rho_t)^(1 / T) is the geometric mean of the weights
  times that of the ratios. The ratio of GSPO is a geometric mean too, but its
  objective is the arithmetic mean of s_i A_t over tokens, in which A_t may
  differ between tokens (GSPO-token), so that w_t stays the weight of its token.
  verl treats both methods in these ways.

  Args:
    method: a method with an advantage. Terms with a signal of their own stay as
      they are.
    cap: largest weight of a token.

  Raises:
    ValueError: if the method has no advantage, the ratio of a term is already
      to the behavior policy, or the cap is not positive.
    LevelError: if a term reads advantages of samples, which have no tokens.
  """
  if cap <= 0:
    raise ValueError(f"cap = {cap} must be above 0; a usual value is 2.0")
  if method.advantage is None:
    raise ValueError(
      f"{method.name} has no advantage that importance weights could multiply; "
      "use it without importance weights"
    )
  for term in method.loss.terms:
    if term.denominator == "behavior":
      raise ValueError(
        f"{method.name}: the ratio of {term} is already to the behavior policy; "
        "use it without importance weights"
      )

  def weighted_advantage(token_mean: str) -> Transform:
    to_tokens = () if method.advantage.gives == "token" else (broadcast(),)
    return chain(method.advantage, *to_tokens, _WEIGHTS[token_mean](cap))

  def reads_advantage(term: Term) -> bool:
    return term.signal is None and term.takes != "none"

  readers = [term for term in method.loss.terms if reads_advantage(term)]
  shared = readers[0].token_mean if readers else "arithmetic"
  # The method has one advantage, so a term with the other mean over tokens gets
  # a signal of its own.
  terms = tuple(
    dataclasses.replace(term, signal=weighted_advantage(term.token_mean))
    if reads_advantage(term) and term.token_mean != shared
    else term
    for term in method.loss.terms
  )
  return dataclasses.replace(
    method, advantage=weighted_advantage(shared), loss=Loss(terms)
  )
