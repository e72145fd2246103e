"""Pairs of a best and a worst sample of a group, and the DPO loss.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.terms import term
from rl.methods.pairs.pairwise import POLICY, REF, log_ratios, members
from rl.transforms import transform

Array = jax.Array


def first_best(scores: Array, valid: Array) -> Array:
  """Returns a mask `[..., S]` of the first valid sample with the highest score.

  No sample is marked if none is valid.
  """
  best = jnp.argmax(jnp.where(valid, scores, -jnp.inf), -1, keepdims=True)
  return valid & (jnp.arange(scores.shape[-1]) == best)


def best_and_worst(scores: Array, valid: Array) -> tuple[Array, Array]:
  """Returns masks `[..., S]` of the first best and of the first worst sample.

  In a group of equal scores no sample is marked.
  """
  scores_differ = ~masked.is_constant(scores, valid, keepdims=True)
  best, worst = (first_best(s, valid) for s in (scores, -scores))
  return best & scores_differ, worst & scores_differ


@transform(takes="sample")
def best_of_group(signal: Array, rollout: types.Rollout) -> Array:
  """Keeps the first sample with the highest signal of each group."""
  return first_best(signal, members(rollout))


@transform(takes="sample")
def contrasted(signal: Array, rollout: types.Rollout) -> Array:
  """Keeps the samples of pairs, whose signal is not 0."""
  del rollout
  return signal != 0


@term(takes="sample", gives="prompt", needs={POLICY, REF})
def contrastive(
  signal: Array, policy: types.Named, rollout: types.Rollout, *, beta: float
) -> Array:
  """-log sigma(beta sum_i s_i d_i), d_i = log pi(y_i) - log ref(y_i).

  The sum is over the samples i of a group, s [P, S] is the signal, y_i a whole
  sample, sigma the sigmoid and ref the reference policy. With s = 1 for the
  chosen sample, -1 for the rejected one and 0 for others this is DPO.
  Source: Rafailov et al. 2023, Direct Preference Optimization.
  """
  total = jnp.sum(signal * log_ratios(policy, rollout, REF), -1)  # [P]
  return jax.nn.softplus(-beta * total)  # -log sigma(beta total)
