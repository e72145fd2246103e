"""PF-PPO: resamples a group in favour of scores that are reliable.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.pairs.contrast import first_best
from rl.sampling import random_keys
from rl.transforms import chain, scores, transform

Array = jax.Array
# Added to all weights, so that a group whose weights are all 0 can be drawn
# from.
_MIN_WEIGHT = 1e-8


# Rules: functions from the scores and the mask of a group to weights [..., S].


def best(scores: Array, valid: Array) -> Array:
  """Returns 1 for the first sample with the highest score, 0 for the others."""
  return first_best(scores, valid).astype(jnp.float32)


def best_random(scores: Array, valid: Array) -> Array:
  """Returns 0.4 for the best sample, 0.1 for each of the others."""
  return jnp.where(best(scores, valid) > 0, 0.4, 0.1) * valid


def best_worst(scores: Array, valid: Array) -> Array:
  """Returns 1 for the best and the worst sample, 0 for the others.

  Of equal scores the first sample is taken; the worst is never the best sample.
  """
  worst = best(-scores, valid & ~(best(scores, valid) > 0))
  return best(scores, valid) + worst


def power(scores: Array, valid: Array) -> Array:
  """Returns the squared score."""
  return jnp.where(valid, scores, 0.0) ** 2


# `best` is a part of other rules, but no rule of its own: see `pf_ppo`.
RULES = {
  "best_random": best_random,
  "best_worst": best_worst,
  "power": power,
}


def copies(rollout: types.Rollout, rule: str) -> Array:
  """Returns how often each sample is drawn, `[P, S]`.

  From a group of n samples n are drawn with replacement, with probabilities
  proportional to the weights of the rule + 1e-8, and with the PRNG key of the
  prompt.
  """
  valid = rollout.sample_mask
  weights = RULES[rule](rollout.scores, valid) + _MIN_WEIGHT

  def draw(weight, is_valid, key):
    logits = jnp.where(is_valid, jnp.log(weight), -jnp.inf)
    indices = jax.random.categorical(key, logits, shape=is_valid.shape)
    # As many draws count as the group has samples.
    is_counted = jnp.arange(is_valid.size) < is_valid.sum()
    return jnp.zeros(is_valid.shape).at[indices].add(is_counted)

  keys = random_keys.keys(rollout.keys, "pf_ppo")
  return jax.vmap(draw)(weights, valid, keys)


@transform(takes="sample")
def drawn_z_score(signal: Array, rollout: types.Rollout, *, rule: str) -> Array:
  """Returns n_i (R_i - mean R) / std R, with n_i copies of sample i drawn.

  Mean and standard deviation (ddof 0) are over the drawn copies. If all drawn
  scores are equal, all samples of the group have 0.
  """
  num_copies = copies(rollout, rule)
  total = jnp.maximum(num_copies.sum(-1, keepdims=True), 1.0)
  is_drawn = num_copies > 0
  drawn_scores = jnp.where(is_drawn, signal, 0.0)
  mean = (num_copies * drawn_scores).sum(-1, keepdims=True) / total
  gap = drawn_scores - mean
  std = jnp.sqrt((num_copies * gap**2).sum(-1, keepdims=True) / total)
  is_constant = masked.is_constant(signal, is_drawn, keepdims=True)
  return num_copies * gap / jnp.where(is_constant, jnp.inf, std)


def pf_ppo(rule: str = "best_worst", clip: float = 0.2) -> Method:
  """Resamples every group in favour of scores that a reward model gets right.

  R [P, S] are the scores. From a group of n samples n are drawn with
  replacement, with probabilities proportional to the weights of the rule +
  1e-8. A is the z-score of R in the drawn group (ddof 0), times the number of
  copies of the sample that were drawn. "best_worst" draws the best and the
  worst sample almost always, with z-scores near +1 and -1. "power" needs graded
  scores: of scores 0 and 1 it draws the right samples only, which then have A =
  0. The loss is PPO-clip without a KL. It is averaged over the tokens of all
  samples; the paper averages over those of the drawn ones, so that here the
  update is larger if long samples are drawn from groups with short ones.
  Deviation: the paper has the value head of PPO; this implementation has the
  baseline of the drawn group. The paper's rule "best" would leave one sample,
  with A = 0, and is left out.
  Source: Shen and Zhang 2024, Policy Filtration in RLHF to Fine-Tune LLM for
  Code Generation (PF-PPO); rules of the released code.
  Quantity: model_outcome.

  Args:
    rule: "best_random", "best_worst" or "power", the functions of this file.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if the rule is unknown.
  """
  if rule not in RULES:
    raise UsageError(registry.describe_unknown("rule", rule, RULES))
  return Method(
    advantage=chain(scores(), drawn_z_score(rule)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
