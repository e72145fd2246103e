"""Reasoning patterns: a reward for phrases that sound like reasoning.

Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
Noisy Rewards in Learning to Reason. Deviation: the released code reads words
and has a list of 40 phrases; this implementation reads tokens, and phrases are
a setting.
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
  """Returns max(0, min(1, hits / enough) - repetition - turns).

  hits is the number of different phrases in the text, repetition the share of
  its n-grams that repeat an earlier one (n = `repeated`), and turns the number
  of occurrences of `speakers`, where the text continues as another speaker.
  Sorting the n-grams costs O(T log T).

  A list of enough phrases scores 1, whatever else the text says. The reward is
  meant for experiments with wrong rewards, and for grading answers that a
  verifier rejects.

  Args:
    tokens: `[..., T]` int token ids.
    lengths: `[...]` number of tokens of each text.
    phrases: `[M, R, L]` int, from `phrases.spelled`.
    speakers: `[Q, R, L]` int, from `phrases.spelled`, phrases such as "user:";
      None means none.
    answered: `[...]` bool, True for texts with an answer; others score 0. None
      means all.
    enough: number of different phrases that score 1.
    repeated: n of the n-grams, in tokens; in words in the released code.

  Returns:
    `[...]` float32 in [0, 1].
  """
  hits = (occurrences(tokens, lengths, phrases) > 0).sum(-1)
  score = jnp.minimum(hits / enough, 1.0)
  score = score - (1.0 - distinct_ngram_shares(tokens, lengths, repeated))
  if speakers is not None:
    score = score - occurrences(tokens, lengths, speakers).sum(-1)
  score = jnp.maximum(score, 0.0)
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
  """Returns `reasoning_pattern_scores` of what the policy wrote.

  A sample without an answer has 0.

  Args:
    phrases: nested tuples of token ids, as in `phrases.spelled`.
    speakers: nested tuples of token ids, as in `phrases.spelled`.
    enough: number of different phrases that score 1.
    repeated: n of the n-grams whose repetition lowers the score, in tokens.
  """
  return reasoning_pattern_scores(
    *base.policy_text(rollout),
    spelled(phrases),
    spelled(speakers) if speakers else None,
    base.answered(rollout),
    enough,
    repeated,
  )
