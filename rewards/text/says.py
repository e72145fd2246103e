"""Says: a reward for text that contains a phrase.

With the phrase "\\boxed{" it rewards a format. With the phrase "python" and the
fences of code blocks it rewards text about code without code.

Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
Noisy Rewards in Learning to Reason; Shao et al. 2025, Spurious Rewards:
Rethinking Training Signals in RLVR.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.text.phrases import spelled, spelling_starts
from rl import types
from rl.transforms import transform

Array = jax.Array


def phrase_scores(
  tokens: Array,
  lengths: Array,
  phrases: Array,
  fences: Array | None = None,
) -> Array:
  """Returns 1 if a text contains one of the phrases, else 0.

  Args:
    tokens: `[..., T]` int token ids.
    lengths: `[...]` number of tokens of each text.
    phrases: `[M, R, L]` int, from `phrases.spelled`.
    fences: `[F, R, L]` int, from `phrases.spelled`, phrases that open and close
      code; occurrences inside of code do not count. None means that all of the
      text counts.

  Returns:
    `[...]` float32 in {0, 1}.
  """

  def starts(phrases: Array) -> Array:
    """Marks the positions where one of the phrases starts, `[..., T]`."""
    spellings = jnp.asarray(phrases).reshape(-1, phrases.shape[-1])
    by_spelling = jax.lax.map(
      lambda spelling: spelling_starts(tokens, lengths, spelling), spellings
    )
    return by_spelling.any(0)

  matches = starts(phrases)
  if fences is not None:
    # After an even number of fences the text is not code.
    matches = matches & (jnp.cumsum(starts(fences), -1) % 2 == 0)
  return matches.any(-1).astype(jnp.float32)


@transform(takes="none", gives="sample")
def says(
  _, rollout: types.Rollout, *, phrases: tuple, fences: tuple = ()
) -> Array:
  """Returns `phrase_scores` of what the policy wrote.

  Args:
    phrases: nested tuples of token ids, as in `phrases.spelled`.
    fences: nested tuples of token ids of phrases that open and close code. If
      empty, all of the text counts.
  """
  return phrase_scores(
    *base.policy_text(rollout),
    spelled(phrases),
    spelled(fences) if fences else None,
  )
