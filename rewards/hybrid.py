"""A verifier and a reward model together: the one decides, the other grades.

`stratified` gives a model's score a narrow band of its own within the right and
within the wrong answers, so that no score makes a wrong answer beat a right
one. `trusted` adds it in full where it agrees with the outcome, and less where
it does not.

Usage:
  scores = hybrid.stratified(correct, model_scores)
  weights = hybrid.prompt_weights(model_scores, usual_spread)  # [P]

Under a group's mean and standard deviation a factor per prompt cancels: multiply
advantages by `prompt_weights`, not scores.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right, present
from rl import masked

Array = jax.Array


def stratified(
  correct: Array,
  model_scores: Array,
  alpha: float = 0.05,
  beta: float = 0.05,
  valid: Array | None = None,
  eps: float = 1e-6,
) -> Array:
  """Model scores, min-max normalised among the right and among the wrong.

    wrong  -alpha + 2 alpha u,   right  (1 - beta) + 2 beta u,
    u = (m - min) / (max - min + eps) within the group's right or wrong answers

  The two bands do not overlap while alpha + beta < 1. A stratum of one, or of
  equal scores, has u = 0. Rescaling the model changes nothing (but for eps).

  Source: Tao et al. 2025, Hybrid Reinforcement: When Reward Is Sparse, It's
  Better to Be Dense (HERO): 0.05 for verifiable tasks, 0.1 for mixed ones.

  Args:
    correct: `[..., S]` verdicts; 1 right, anything else wrong.
    model_scores: `[..., S]` of a reward model.
    alpha, beta: half widths of the two bands.
    valid: `[..., S]` bool, samples that exist; None keeps all.
    eps: of the width, in units of the model's score.

  Returns:
    `[..., S]` float32, 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(correct), valid)
  right = is_right(correct) & valid
  scores = present(model_scores, valid)

  def unit(stratum: Array) -> Array:
    some = stratum.any(-1, keepdims=True)
    low = present(masked.min(scores, stratum, keepdims=True), some)
    high = present(masked.max(scores, stratum, keepdims=True), some)
    return (scores - low) / (high - low + eps)

  graded = jnp.where(
    right,
    1.0 - beta + 2.0 * beta * unit(right),
    -alpha + 2.0 * alpha * unit(valid & ~right),
  )
  return jnp.where(valid, graded, 0.0)


def prompt_weights(
  model_scores: Array,
  usual: Array | float,
  low: float = 0.4,
  high: float = 3.0,
  steepness: float = 6.0,
  valid: Array | None = None,
) -> Array:
  """Prompts whose samples the model tells apart weigh more.

  w = low + (high - low) sigmoid(steepness (std - usual)), std (ddof 0) of the
  model's scores in the group, `usual` its running mean over batches.

  Source: Tao et al. 2025 (HERO).

  Args:
    model_scores: `[..., S]`.
    usual: `[]`, in units of the model's score.
    low, high, steepness: the paper's w_min, w_max and k.
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` float32 in (low, high).
  """
  valid = masked.all_valid(jnp.asarray(model_scores), valid)
  spread = masked.std(present(model_scores, valid), valid)
  return low + (high - low) * jax.nn.sigmoid(steepness * (spread - usual))


def trust(
  outcomes: Array, thought_scores: Array, valid: Array | None = None
) -> Array:
  """How far thought scores are to be believed, by group.

  1 where the right answers' thoughts score at least as high as the wrong ones',
  else exp(mean right - mean wrong); 0 in a group of one kind only, where
  nothing can be compared.

  Source: Fan et al. 2025, SophiaVL-R1: Reinforcing MLLMs Reasoning with Thinking
  Reward (Trust-GRPO). Deviation: all samples are judged; the released code
  scores thoughts of wrong answers 0 without a judge, which biases their mean.

  Args:
    outcomes: `[..., S]` in [0, 1], right above 1/2.
    thought_scores: `[..., S]` in [0, 1].
    valid: `[..., S]` bool, samples that exist; None keeps all.

  Returns:
    `[...]` float32 in [0, 1].
  """
  valid = masked.all_valid(jnp.asarray(outcomes), valid)
  right = valid & (outcomes > 0.5)
  wrong = valid & ~right
  scores = jnp.asarray(thought_scores, jnp.float32)
  gap = masked.mean(scores, right) - masked.mean(scores, wrong)
  both = right.any(-1) & wrong.any(-1)
  return jnp.where(both, jnp.exp(jnp.minimum(gap, 0.0)), 0.0)


def trusted(
  outcomes: Array,
  thought_scores: Array,
  step: Array | int,
  weight: float = 0.3,
  horizon: float = 500.0,
  valid: Array | None = None,
) -> Array:
  """R = R_o + trust e^{-step / horizon} weight R_t.

  Its weakness: where right and wrong answers are judged alike, a longer-winded
  thought still gains `weight` at the start; annealing takes it away.

  Source: Fan et al. 2025 (SophiaVL-R1) and its code (0.3, 500).

  Args:
    outcomes, thought_scores, valid: `[..., S]`, as of `trust`.
    step: of the training.
    weight: of the thought at step 0.
    horizon: steps after which it is 1/e of that.

  Returns:
    `[..., S]` float32, 0 of what is invalid.
  """
  valid = masked.all_valid(jnp.asarray(outcomes), valid)
  used = trust(outcomes, thought_scores, valid)[..., None]
  fade = weight * jnp.exp(-jnp.asarray(step, jnp.float32) / horizon)
  thoughts = present(thought_scores, valid & (used > 0))
  return present(outcomes, valid) + used * fade * thoughts
