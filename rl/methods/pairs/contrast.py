"""Pairs of a best and a worst sample of a group, and the DPO loss.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
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


@transform(takes="sample")
def best_against_worst(signal: Array, rollout: types.Rollout) -> Array:
  """Returns +1 for the first best sample, -1 for the first worst one, else 0.

  A group of equal signals has 0.
  """
  best, worst = best_and_worst(signal, members(rollout))
  return best.astype(jnp.float32) - worst


@term(takes="sample", gives="prompt", needs={POLICY, REF})
def contrastive(
  signal: Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  beta: float,
  label_smoothing: float = 0.0,
  length_normalized: bool = False,
) -> tuple[Array, dict[str, Array]]:
  """-(1 - eps) log sigma(x) - eps log sigma(-x), x = beta sum_i s_i d_i.

  The sum is over the samples i of a group, s [P, S] is the signal, sigma the
  sigmoid, eps the label smoothing, and d_i = log pi(y_i) - log ref(y_i) for a
  whole sample y_i and the reference policy ref; with `length_normalized`, d_i
  is divided by the number of tokens of y_i. With s = 1 for the chosen sample,
  -1 for the rejected one and 0 for others this is DPO.

  Logs means over the groups in the loss. The implicit reward of a sample is
  beta d_i; the chosen samples have s > 0, and the rejected ones s < 0.

    pairs/reward_chosen       implicit reward of the chosen sample
    pairs/reward_rejected     implicit reward of the rejected sample
    pairs/reward_margin       the difference of the two
    pairs/accuracy            1 if the margin is above 0, else 0
    pairs/log_prob_chosen     log pi(y) of the chosen sample, in nats
    pairs/log_prob_rejected   log pi(y) of the rejected sample, in nats

  Source: Rafailov et al. 2023, Direct Preference Optimization.
  """
  ratios = log_ratios(policy, rollout, REF, length_normalized)  # d, [P, S]
  x = beta * jnp.sum(signal * ratios, -1)  # [P]
  # -log sigma(x) is softplus(-x), and -log sigma(-x) is softplus(-x) + x.
  values = jax.nn.softplus(-x) + label_smoothing * x
  log_probs = masked.sum(policy[scoring.log_probs], rollout.mask)
  chosen, rejected = (
    (masked.mean(beta * ratios, side), masked.mean(log_probs, side))
    for side in (signal > 0, signal < 0)
  )
  margin = chosen[0] - rejected[0]
  return values, {
    "pairs/reward_chosen": chosen[0],
    "pairs/reward_rejected": rejected[0],
    "pairs/reward_margin": margin,
    "pairs/accuracy": (margin > 0).astype(jnp.float32),
    "pairs/log_prob_chosen": chosen[1],
    "pairs/log_prob_rejected": rejected[1],
  }
