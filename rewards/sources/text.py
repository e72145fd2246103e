"""What the tokens of a completion are: phrases, n-grams, overlap.

Phrases are nested tuples of token ids: `patterns.spelled` says how.
"""

from __future__ import annotations

import jax

from rewards import overlap, patterns
from rewards.sources import reading
from rl import scoring, types
from rl.transforms import lift, transform

Array = jax.Array


@transform("none", "sample")
def says(
  _, rollout: types.Rollout, *, phrases: tuple, fences: tuple = ()
) -> Array:
  """`patterns.says`; without `fences` code counts as text."""
  return patterns.says(
    rollout.completions,
    rollout.scored_lengths,
    patterns.spelled(phrases),
    patterns.spelled(fences) if fences else None,
  )


@transform("none", "sample", needs=(reading.ANSWERS,))
def reasoning_patterns(
  _,
  rollout: types.Rollout,
  *,
  phrases: tuple,
  speakers: tuple = (),
  enough: int = 20,
  repeated: int = 20,
) -> Array:
  """`patterns.reasoning_patterns`, 0 where the task reads no answer."""
  return patterns.reasoning_patterns(
    rollout.completions,
    rollout.scored_lengths,
    patterns.spelled(phrases),
    patterns.spelled(speakers) if speakers else None,
    reading.answered(rollout),
    enough,
    repeated,
  )


@transform("none", "sample")
def instead_of_nothing(
  _, rollout: types.Rollout, *, phrases: str, weight: float = 0.1
) -> Array:
  """`patterns.instead_of_nothing`; `phrases` is the component of patterns."""
  scores = reading.component(rollout, phrases)
  return patterns.instead_of_nothing(rollout.correct, scores, weight)


@transform("none", "sample")
def calibrated(
  _,
  rollout: types.Rollout,
  *,
  model: str,
  phrases: str,
  below: float = 0.5,
  weight: float = 0.1,
) -> Array:
  """`patterns.calibrated`; `model` and `phrases` are components."""
  scores = (
    reading.component(rollout, model),
    reading.component(rollout, phrases),
  )
  return patterns.calibrated(*scores, below, weight)


def _reference_tokens(rollout: types.Rollout) -> Array:
  return scoring.view_tokens(rollout, reading.REFERENCE).completions


token_f1 = lift(
  overlap.token_f1,
  "none",
  "sample",
  found=lambda rollout: rollout.completions,
  found_mask=reading.tokens,
  wanted=_reference_tokens,
  wanted_mask=reading.in_reference,
)
distinct_ngrams = lift(
  overlap.distinct_ngrams,
  "none",
  "sample",
  tokens=lambda rollout: rollout.completions,
  lengths=lambda rollout: rollout.tokens.lengths,
)
