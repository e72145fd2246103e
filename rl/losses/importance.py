"""Samples of parameters that are a few updates old, weighed to make up for it."""

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.terms import Loss, Term
from rl.method import Method
from rl.transforms import Transform, broadcast, chain, transform

_OLD = scoring.Need("old", scoring.log_probs)


@transform("token", needs={_OLD})
def truncated_importance(
  advantages: jax.Array, rollout: types.Rollout, *, cap: float
) -> jax.Array:
  """A_t min(pi_old(y_t) / pi_behavior(y_t), cap).

  pi_old is the policy when the step begins, pi_behavior what the sampler
  reported: parameters of an earlier step, another precision, or both. A weight,
  so last in a chain; without a gap it is exactly 1.
  Source: Yao et al. 2025, Your Efficient RL Framework Secretly Brings You
  Off-Policy RL Training.
  """
  weight = jnp.exp(_log_weights(rollout, cap))
  return jnp.where(_sampled_tokens(rollout), weight, 1.0) * advantages


@transform("token", needs={_OLD})
def truncated_geometric_importance(
  advantages: jax.Array, rollout: types.Rollout, *, cap: float
) -> jax.Array:
  """A_t (prod_u w_u)^(1 / T), the product over the T tokens of the sample.

  w_u = min(pi_old(y_u) / pi_behavior(y_u), cap) is the weight of a token in
  `truncated_importance`. All tokens of a sample have the same weight. `keep`
  filters come later, so the mean includes tokens that they remove.
  """
  mean = masked.mean(
    _log_weights(rollout, cap), _sampled_tokens(rollout), keepdims=True
  )  # [P, S, 1]; 0 if the sample has no token
  return jnp.exp(mean) * advantages


def _log_weights(rollout: types.Rollout, cap: float) -> jax.Array:
  """Log of the truncated ratio of each token, `[P, S, T]`."""
  gap = rollout.extras[_OLD] - rollout.behavior_log_probs
  return jnp.minimum(gap, jnp.log(cap))


def _sampled_tokens(rollout: types.Rollout) -> jax.Array:
  """Mask of the tokens that the policy sampled, `[P, S, T]`."""
  return rollout.mask & rollout.sample_mask[..., None]


# By `rl.losses.terms.Term.token_mean`.
_WEIGHTS = {
  "arithmetic": truncated_importance,
  "geometric": truncated_geometric_importance,
}


def corrected(method: Method, cap: float) -> Method:
  """The method, with its advantages weighed by `truncated_importance(cap)`.

  A term whose mean over tokens is geometric (GMPO) is weighed by
  `truncated_geometric_importance(cap)`: its factors rho_t become w_t rho_t, and
  (prod_t w_t rho_t)^(1 / T) is the geometric mean of the weights times that of
  the ratios. GSPO's ratio is a geometric mean too, but its objective is the
  arithmetic mean of s_i A_t over tokens, where A_t may differ by token
  (GSPO-token); there w_t stays a weight of its token. verl does both alike.

  Args:
    method: has an advantage. Signals that a term has of its own stay as they
      are.
    cap: largest weight of a token.

  Raises:
    ValueError: there is no advantage to weigh, a ratio is to the sampler
      already, or the cap is not positive.
    LevelError: a term reads advantages of samples, which have no tokens.
  """
  if cap <= 0:
    raise ValueError(f"cap = {cap} must be above 0; usual: 2.0")
  if method.advantage is None:
    raise ValueError(
      f"{method.name} has no advantage, so nothing that weights could multiply"
    )
  for term in method.loss.terms:
    if term.against == "behavior":
      raise ValueError(
        f"{method.name} weighs samples against what sampled them already: {term}"
      )

  def weighed(token_mean: str) -> Transform:
    at_tokens = () if method.advantage.gives == "token" else (broadcast(),)
    return chain(method.advantage, *at_tokens, _WEIGHTS[token_mean](cap))

  def reads_advantage(term: Term) -> bool:
    return term.signal is None and term.takes != "none"

  readers = [term for term in method.loss.terms if reads_advantage(term)]
  shared = readers[0].token_mean if readers else "arithmetic"
  # The method's advantage has one weight. A term with the other mean over
  # tokens gets a signal of its own.
  terms = tuple(
    dataclasses.replace(term, signal=weighed(term.token_mean))
    if reads_advantage(term) and term.token_mean != shared
    else term
    for term in method.loss.terms
  )
  return dataclasses.replace(
    method, advantage=weighed(shared), loss=Loss(terms)
  )
