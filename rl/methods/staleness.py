"""Samples of parameters that are a few updates old, weighed to make up for it."""

import dataclasses

import jax
import jax.numpy as jnp

from rl import probes, types
from rl.method import Method
from rl.transform import chain, transform
from rl.transforms import broadcast

_OLD = probes.Need("old", probes.log_probs)


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
  gap = rollout.extras[_OLD] - rollout.behavior_log_probs
  weight = jnp.exp(jnp.minimum(gap, jnp.log(cap)))
  real = rollout.mask & rollout.sample_mask[..., None]
  return jnp.where(real, weight, 1.0) * advantages


def corrected(method: Method, cap: float) -> Method:
  """The method, with its advantages weighed by `truncated_importance(cap)`.

  Args:
    method: with an advantage; signals that a term has of its own stay as they
      are.
    cap: of a token's weight.

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
  own = (method.advantage,)
  at_tokens = () if method.advantage.gives == "token" else (broadcast(),)
  weighed = chain(*own, *at_tokens, truncated_importance(cap))
  return dataclasses.replace(method, advantage=weighed)
