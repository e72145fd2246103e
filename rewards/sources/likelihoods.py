"""What the policy's own probabilities say of a completion or of the reference."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp

from rewards import confidence, dimensions, likelihood, self_aligned
from rewards.sources import reading
from rl import masked, scoring, types
from rl.scoring import Need
from rl.transforms import Transform, lift, transform

Array = jax.Array

# Confidence: one pass over the sampled text.

negative_entropy = lift(
  confidence.negative_entropy,
  "none",
  "sample",
  needs=(reading.ENTROPY, reading.ANSWERS),
  token_entropies=reading.of(reading.ENTROPY),
  mask=reading.tokens,
  answered=reading.answered,
)
self_certainty = lift(
  confidence.self_certainty,
  "none",
  "sample",
  needs=(reading.DIVERGENCE,),
  divergences=reading.of(reading.DIVERGENCE),
  mask=reading.tokens,
)
clipped_confidence = lift(
  confidence.clipped_confidence,
  "none",
  "sample",
  needs=(reading.LOG_PROBS,),
  correct=reading.correct,
  log_probs=reading.of(reading.LOG_PROBS),
  mask=reading.tokens,
)


def _last_step_tokens(rollout: types.Rollout) -> Array:
  """Tokens of each sample's last step, which holds its answer."""
  reading.steps(rollout)
  ids = jnp.where(rollout.valid("token"), rollout.step_ids, -1)
  last = ids.max(-1, keepdims=True)
  answered = reading.answered(rollout)[..., None]
  return (ids == last) & (last >= 0) & answered


answer_confidence = lift(
  confidence.answer_confidence,
  "none",
  "sample",
  needs=(reading.LOG_PROBS, reading.ANSWERS),
  log_probs=reading.of(reading.LOG_PROBS),
  answer_mask=_last_step_tokens,
)


@transform("none", "sample", needs=(reading.ENTROPY,))
def phase_entropy(
  _, rollout: types.Rollout, *, thought_end: int, alpha: float = 1.0
) -> Array:
  """`confidence.phase_entropy`; `thought_end` is the id that ends a thought."""
  mask = rollout.valid("token")
  return confidence.phase_entropy(
    rollout.correct,
    rollout.extras[reading.ENTROPY],
    mask,
    confidence.first_position(rollout.completions, mask, thought_end),
    alpha=alpha,
  )


self_aligned_reward = lift(
  self_aligned.self_aligned,
  "none",
  "sample",
  needs=(reading.LOG_PROBS, reading.ALONE),
  correct=reading.correct,
  log_probs=reading.of(reading.LOG_PROBS),
  log_probs_alone=reading.of(reading.ALONE),
  mask=reading.tokens,
)


@transform("none", "sample", needs=(reading.LOG_PROBS,))
def dimension_level(
  _,
  rollout: types.Rollout,
  *,
  relevances: tuple[str, ...],
  coherence: str,
  weights: tuple[float, float, float] = (1 / 3, 1 / 3, 1 / 3),
) -> Array:
  """`dimensions.dimension_level` by the policy's mean log-probability.

  `relevances` and `coherence` are components: of a reranker's pairs, and of a
  reward model.
  """
  confident = masked.mean(
    rollout.extras[reading.LOG_PROBS], rollout.valid("token")
  )
  relevant = [reading.component(rollout, name) for name in relevances]
  return dimensions.dimension_level(
    confident,
    jnp.stack(relevant, -1),
    reading.component(rollout, coherence),
    weights,
    valid=rollout.sample_mask,
  )


# Likelihood of the reference answer: one pass over the view "reference".


def _by_reference(
  fn: Callable, *needs: Need, **context: reading.Reader
) -> Callable[..., Transform]:
  return lift(
    fn,
    "none",
    "sample",
    needs=(reading.OF_REFERENCE, *needs),
    ref_log_probs=reading.of(reading.OF_REFERENCE),
    ref_mask=reading.in_reference,
    **context,
  )


probability = _by_reference(likelihood.probability)
mean_probability = _by_reference(likelihood.mean_probability)
log_probability = _by_reference(likelihood.log_probability)
mean_log_probability = _by_reference(likelihood.mean_log_probability)
group_log_mean_advantages = _by_reference(
  likelihood.group_log_mean_advantages, valid=reading.valid
)


def _without_thought(rollout: types.Rollout) -> Array:
  """Mean probability of the bare reference, `[P, 1]`."""
  mask = scoring.view_tokens(rollout, reading.BARE_REFERENCE).mask
  return likelihood.mean_probability(
    rollout.extras[reading.OF_BARE_REFERENCE], mask
  )


debiased_probability = _by_reference(
  likelihood.debiased_probability,
  reading.OF_BARE_REFERENCE,
  without_thought=_without_thought,
  format_scores=lambda rollout: rollout.finished.astype(jnp.float32),
)
