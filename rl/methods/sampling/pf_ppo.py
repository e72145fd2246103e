"""Keep the samples whose scores can be believed: the extremes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import choices, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.pairs.contrast import first_best
from rl.sampling import random_keys
from rl.transforms import chain, scores, transform

Array = jax.Array
_LEAST = 1e-8  # so that a group always has something to draw


def best(scores: Array, valid: Array) -> Array:
  """1 for the best sample, the first of equals, 0 for the others."""
  return first_best(scores, valid).astype(jnp.float32)


def best_random(scores: Array, valid: Array) -> Array:
  """0.4 for the best, 0.1 for each of the others."""
  return jnp.where(best(scores, valid) > 0, 0.4, 0.1) * valid


def best_worst(scores: Array, valid: Array) -> Array:
  """1 for the best and for the worst, the first of equals."""
  worst = best(-scores, valid & ~(best(scores, valid) > 0))
  return best(scores, valid) + worst


def power(scores: Array, valid: Array) -> Array:
  """|score|^2."""
  return jnp.where(valid, scores, 0.0) ** 2


RULES = {
  "best_random": best_random,
  "best_worst": best_worst,
  "power": power,
}


def copies(rollout: types.Rollout, rule: str) -> Array:
  """`[P, S]` how often each sample is drawn, as often in all as there are any.

  With replacement, with the rule's weights, by the prompt's key.
  """
  valid = rollout.sample_mask
  weights = RULES[rule](rollout.scores, valid) + _LEAST

  def draw(weight, real, key):
    logits = jnp.where(real, jnp.log(weight), -jnp.inf)
    logits = jnp.where(real.any(), logits, 0.0)
    drawn = jax.random.categorical(key, logits, shape=real.shape)
    counted = jnp.arange(real.size) < real.sum()
    return jnp.zeros(real.shape).at[drawn].add(counted)

  keys = random_keys.keys(rollout.keys, "pf_ppo")
  return jax.vmap(draw)(weights, valid, keys)


@transform("sample")
def drawn_z_score(signal: Array, rollout: types.Rollout, *, rule: str) -> Array:
  """n_i (R_i - mean R) / std R (ddof 0), n_i copies of sample i were drawn."""
  n = jnp.where(rollout.sample_mask, copies(rollout, rule), 0.0)
  total = jnp.maximum(n.sum(-1, keepdims=True), 1.0)
  real = n > 0
  known = jnp.where(real, signal, 0.0)
  mean = (n * known).sum(-1, keepdims=True) / total
  gap = jnp.where(real, known - mean, 0.0)
  spread = jnp.sqrt((n * gap**2).sum(-1, keepdims=True) / total)
  flat = masked.is_constant(signal, real, keepdims=True)
  return jnp.where(real & ~flat, n * gap / jnp.where(flat, 1.0, spread), 0.0)


def pf_ppo(rule: str = "best_worst", clip: float = 0.2) -> Method:
  """Resamples every group in favour of scores that a reward model gets right.

  As many samples as the group has are drawn with replacement, in proportion to
  the rule's weights (+ 1e-8); the advantage is the z-score of the drawn group
  (ddof 0), and a sample counts as often as it was drawn. "best_worst" leaves
  the best and the worst: A near +1 and -1. "power" wants graded scores: of 0
  and 1 it draws the right samples alone, which teach nothing. The mean over
  tokens is of the whole group's, where the paper's is of those drawn: the step
  is larger where long samples are drawn from short ones.
  Deviation: PPO's value head is replaced by the baseline of the drawn group, for
  which the paper's rule "best" leaves one sample and no signal: it is not here.
  Source: Shen and Zhang 2024, Policy Filtration in RLHF to Fine-Tune LLM for
  Code Generation (PF-PPO); rules of the released code.

  Raises:
    ValueError: unknown rule.
  """
  if rule not in RULES:
    raise ValueError(choices.unknown("rule", rule, RULES))
  return Method(
    advantage=chain(scores(), drawn_z_score(rule)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
