"""Says: a reward for text that contains a phrase.

With the opening of a box as the phrase it rewards a format. With "python" and
the fences of code it rewards talking about code without writing code.

Source: Lv et al. 2025, The Climb Carves Wisdom Deeper Than the Summit: On the
Noisy Rewards in Learning to Reason; Shao et al. 2025, Spurious Rewards:
Rethinking Training Signals in RLVR.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

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
    tokens: `[..., T]` int.
    lengths: `[...]` number of tokens of each text.
    phrases: `[M, R, L]` int, from `phrases.spelled`.
    fences: `[F, R, L]`, phrases that open and close code; phrases inside of
      code do not count. None means that there is no code.

  Returns:
    `[...]` float32 in {0, 1}.
  """

  def starts(which: Array) -> Array:  # [..., T] bool
    flat = jnp.asarray(which).reshape(-1, which.shape[-1])
    each = jax.lax.map(lambda one: spelling_starts(tokens, lengths, one), flat)
    return each.any(0)

  matches = starts(phrases)
  if fences is not None:
    # After an even number of fences the text is not code.
    matches = matches & (jnp.cumsum(starts(fences), -1) % 2 == 0)
  return matches.any(-1).astype(jnp.float32)


@transform(takes="none", gives="sample")
def says(
  _, rollout: types.Rollout, *, phrases: tuple, fences: tuple = ()
) -> Array:
  """`phrase_scores` of the completions; without `fences` code counts as text.

  Both settings are nested tuples of token ids, as `spelled` reads them.
  """
  return phrase_scores(
    rollout.completions,
    rollout.scored_lengths,
    spelled(phrases),
    spelled(fences) if fences else None,
  )
