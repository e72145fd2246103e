"""One sample of a group against another: who they are, and the DPO loss."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.terms import term
from rl.methods.pairs.pairwise import POLICY, REF, log_ratios, members
from rl.transforms import transform

Array = jax.Array


def first_best(scores: Array, valid: Array) -> Array:
  """`[..., S]` bool, the first of the best samples that exist; none of none."""
  best = jnp.argmax(jnp.where(valid, scores, -jnp.inf), -1, keepdims=True)
  return valid & (jnp.arange(scores.shape[-1]) == best)


def best_and_worst(scores: Array, valid: Array) -> tuple[Array, Array]:
  """The first best and the first worst sample, both `[..., S]` bool.

  A group whose scores are all equal has neither.
  """
  varied = ~masked.is_constant(scores, valid, keepdims=True)
  best, worst = (first_best(s, valid) for s in (scores, -scores))
  return best & varied, worst & varied


@transform("sample")
def best_of_group(signal: Array, rollout: types.Rollout) -> Array:
  """A filter: the first of the best samples of each group."""
  return first_best(signal, members(rollout))


@transform("sample")
def contrasted(signal: Array, rollout: types.Rollout) -> Array:
  """A filter: the samples with a signal, here those of a pair."""
  del rollout
  return signal != 0


@term("sample", "prompt", needs={POLICY, REF})
def contrastive(
  signal: Array, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> Array:
  """-log sigma(beta sum_i s_i d_i), d_i = log pi(y_i) - log ref(y_i).

  With s = 1 on the chosen sample and -1 on the rejected one this is DPO.
  Source: Rafailov et al. 2023, Direct Preference Optimization.
  """
  total = jnp.sum(signal * log_ratios(policy, rollout, REF), -1)
  return jax.nn.softplus(-beta * total)
