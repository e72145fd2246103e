"""Phrases in a text of token ids: the reward of sounding like reasoning.

A phrase is spelled by the tokenizer in several ways (after a blank, with a
capital), so it is a list of spellings, and a text has it if it has one of them.

Usage, with the phrases of the user's choice:
  spelled = patterns.spelled([[encode("wait"), encode(" wait")], ...])
  scores = patterns.reasoning_patterns(tokens, lengths, spelled)
  rewards = patterns.instead_of_nothing(correct, scores)

Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
Noisy Rewards in Learning to Reason. Its code reads words where this reads
tokens; its list of 40 phrases is not repeated here.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rewards import overlap
from rewards.inputs import is_right, present

Array = jax.Array


def spelled(phrases: Sequence[Sequence[Sequence[int]]]) -> np.ndarray:
  """Phrases as one array.

  Args:
    phrases: of each its spellings, of each spelling its token ids.

  Returns:
    `[M, R, L]` int32, -1 where there is no token or no spelling.

  Raises:
    ValueError: no phrase, one without a spelling, a spelling without tokens, or
      an id below 0.
  """
  spellings = [one for phrase in phrases for one in phrase]
  sizes = [len(one) for one in spellings]
  if not phrases or not all(map(len, phrases)) or min(sizes) == 0:
    raise ValueError(
      f"phrases {phrases!r}: each needs a spelling, and each of those a token"
    )
  least = min(min(one) for one in spellings)
  if least < 0:
    raise ValueError(
      f"token id {least} in phrases {phrases!r} must be at least 0; nearest: 0"
    )
  most = max(len(phrase) for phrase in phrases)
  table = np.full((len(phrases), most, max(sizes)), -1, np.int32)
  for m, phrase in enumerate(phrases):
    for r, one in enumerate(phrase):
      table[m, r, : len(one)] = one
  return table


def _begins(tokens: Array, lengths: Array, phrase: Array) -> Array:
  """Where a spelling begins, `[..., T]` bool; O(T L).

  `phrase` is `[L]` int, -1 behind its end; one without tokens is nowhere.
  """
  phrase = jnp.asarray(phrase)
  size = jnp.sum(phrase >= 0)
  room = tokens.shape[-1]
  end = jnp.asarray(lengths)[..., None]
  found = (jnp.arange(room) + size <= end) & (size > 0)
  widths = [(0, 0)] * (tokens.ndim - 1) + [(0, phrase.shape[-1])]
  padded = jnp.pad(tokens, widths)
  for i in range(phrase.shape[-1]):
    same = padded[..., i : i + room] == phrase[i]
    found = found & (same | (i >= size))
  return found


def occurrences(tokens: Array, lengths: Array, phrases: Array) -> Array:
  """How often each phrase is there, in any of its spellings.

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` real tokens.
    phrases: `[M, R, L]` int, of `spelled`.

  Returns:
    `[..., M]` int32.
  """

  def count(phrase: Array) -> Array:
    anywhere = jax.lax.map(lambda one: _begins(tokens, lengths, one), phrase)
    return anywhere.any(0).sum(-1)

  found = jax.lax.map(count, jnp.asarray(phrases))
  return jnp.moveaxis(found, 0, -1)


def says(
  tokens: Array,
  lengths: Array,
  phrases: Array,
  fences: Array | None = None,
) -> Array:
  """1 where a text has one of the phrases, outside fenced code if asked.

  With the opening of a box it is the reward of a format; with "python" and the
  fences of code, that of talking of code without writing any.

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` real tokens.
    phrases: `[M, R, L]` int, of `spelled`.
    fences: `[F, R, L]`, what opens code and closes it again; None: nothing.

  Returns:
    `[...]` float32 in {0, 1}.
  """

  def places(which: Array) -> Array:
    flat = jnp.asarray(which).reshape(-1, which.shape[-1])
    each = jax.lax.map(lambda one: _begins(tokens, lengths, one), flat)
    return each.any(0)

  found = places(phrases)
  if fences is not None:
    found = found & (jnp.cumsum(places(fences), -1) % 2 == 0)
  return found.any(-1).astype(jnp.float32)


def reasoning_patterns(
  tokens: Array,
  lengths: Array,
  phrases: Array,
  speakers: Array | None = None,
  answered: Array | None = None,
  enough: int = 20,
  repeated: int = 20,
) -> Array:
  """clip(min(1, hits / enough) - repetition - speakers, 0, 1).

  hits counts the different phrases that the text has, repetition is the share
  of its n-grams that are not new (n = `repeated`), speakers how often it goes
  on as somebody else. Without an answer it is 0. Sorting the n-grams takes
  O(T log T).

  Its weakness is its definition: a list of the phrases, each once, scores 1
  whatever it says. It is for the study of rewards that are wrong, and to grade
  what a verifier rejects.

  Args:
    tokens: `[..., T]` int.
    lengths: `[...]` real tokens.
    phrases: `[M, R, L]` int, of `spelled`.
    speakers: `[Q, R, L]` int, "user:" and the like; None: none.
    answered: `[...]` bool, an answer can be read; None: everywhere.
    enough: hits that score 1.
    repeated: n of the n-grams; tokens here, words in the code.

  Returns:
    `[...]` float32 in [0, 1].
  """
  hits = (occurrences(tokens, lengths, phrases) > 0).sum(-1)
  score = jnp.minimum(hits / enough, 1.0)
  score = score - (1.0 - overlap.distinct_ngrams(tokens, lengths, repeated))
  if speakers is not None:
    score = score - occurrences(tokens, lengths, speakers).sum(-1)
  score = jnp.clip(score, 0.0, 1.0)
  return score if answered is None else present(score, answered)


def calibrated(
  model_scores: Array,
  pattern_scores: Array,
  below: float = 0.5,
  weight: float = 0.1,
) -> Array:
  """A reward model's low scores, raised by the patterns of reasoning.

  min(1, r + weight pattern) where r < below, else r: a rejection may be the
  model's mistake, and a text that reasons is given a little of the doubt.

  Its weakness: from just below the threshold a text of phrases passes those
  just above it.

  Source: Lv et al. 2025.

  Args:
    model_scores: `[...]` in [0, 1].
    pattern_scores: `[...]` in [0, 1]; read where r < below only.
    below, weight: the code's .5 and .1.

  Returns:
    `[...]` float32.
  """
  model_scores = jnp.asarray(model_scores, jnp.float32)
  low = model_scores < below
  raised = model_scores + weight * present(pattern_scores, low)
  return jnp.where(low, jnp.minimum(raised, 1.0), model_scores)


def instead_of_nothing(
  correct: Array, pattern_scores: Array, weight: float = 0.1
) -> Array:
  """1 of a right answer, weight pattern of any other.

  Source: Lv et al. 2025, its variant with a verifier. The paper's weight is not
  known to us: 0.1 is that of `calibrated`, and below 1 right stays best.

  Args:
    correct: `[...]` verdicts, 1 right.
    pattern_scores: `[...]` in [0, 1]; read where not right only.
    weight: of the patterns.

  Returns:
    `[...]` float32.
  """
  right = is_right(correct)
  return jnp.where(right, 1.0, weight * present(pattern_scores, ~right))
