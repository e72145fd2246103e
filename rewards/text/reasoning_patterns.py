"""Reasoning patterns: a reward for phrases that sound like reasoning.

Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
Noisy Rewards in Learning to Reason. Its code reads words, this module reads
tokens; its list of 40 phrases is not included.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.text.distinct_ngrams import distinct_ngram_shares
from rewards.text.phrases import occurrences, spelled
from rl import types
from rl.transforms import transform

Array = jax.Array


def reasoning_pattern_scores(
  tokens: Array,
  lengths: Array,
  phrases: Array,
  speakers: Array | None = None,
  answered: Array | None = None,
  enough: int = 20,
  repeated: int = 20,
) -> Array:
  """clip(min(1, hits / enough) - repetition - speakers, 0, 1).

  hits is the number of different phrases in the text, repetition the share of
  its n-grams that repeat an earlier one (n = `repeated`), and speakers the
  number of times that the text continues as another speaker. O(T log T) for
  sorting the n-grams.

  A list of the phrases, each once, scores 1 whatever it says. The reward is
  meant for studies of wrong rewards and for grading answers that a verifier
  rejects.

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` number of tokens of each text.
    phrases: `[M, R, L]` int, from `phrases.spelled`.
    speakers: `[Q, R, L]` int, such as "user:"; None means none.
    answered: `[...]` bool, texts with an answer; others score 0. None means
      all.
    enough: number of hits that score 1.
    repeated: n of the n-grams, in tokens; the code counts words.

  Returns:
    `[...]` float32 in [0, 1].
  """
  hits = (occurrences(tokens, lengths, phrases) > 0).sum(-1)
  score = jnp.minimum(hits / enough, 1.0)
  score = score - (1.0 - distinct_ngram_shares(tokens, lengths, repeated))
  if speakers is not None:
    score = score - occurrences(tokens, lengths, speakers).sum(-1)
  score = jnp.clip(score, 0.0, 1.0)
  return score if answered is None else base.zero_outside(score, answered)


@transform(takes="none", gives="sample", needs=(base.ANSWERS,))
def reasoning_patterns(
  _,
  rollout: types.Rollout,
  *,
  phrases: tuple,
  speakers: tuple = (),
  enough: int = 20,
  repeated: int = 20,
) -> Array:
  """Returns `reasoning_pattern_scores`; 0 if the task reads no answer.

  `phrases` and `speakers` are nested tuples of token ids, as `spelled` reads
  them.
  """
  return reasoning_pattern_scores(
    rollout.completions,
    rollout.scored_lengths,
    spelled(phrases),
    spelled(speakers) if speakers else None,
    base.answered(rollout),
    enough,
    repeated,
  )
