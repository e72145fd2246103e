"""Segmentation: the steps of a completion, in tokens.

A step ends with a token that contains the separator. The tokenizer decides
which token ids do (one token may hold a full stop and a blank line). Steps are
numbered from 0 and cover every real token, so each step has a last token for
its score.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

Array = jax.Array


def segment_steps(
  completions: Array,
  lengths: Array,
  separators: tuple[int, ...],
  steps: int | None = None,
) -> Array:
  """Returns the step of each token, step_id_t = number of separators before t.

  - Two separators in a row make an empty step: the second one alone, with its
    own score. The process reward model decides what it is worth. - The tokens
    after the last separator are the last step, even if it is EOS alone. Without
    such tokens there is no further step. - In a truncated sample the last
    generated token ends the last step. - Without a separator there is one step,
    the whole completion. A policy that learns to avoid separators gives up
    credit by step and is scored as a sequence: sum, soft-min and strict min of
    one score are that score. - If there are more than `steps` steps, the rest
    is merged into the last one, which then ends where the sample ends. Its
    score covers the whole remainder, so no token is left without credit.

  Source: Cheng et al. 2025, Stop Summation (PURE), whose separator is a blank
  line.

  Args:
    completions: `[..., T]` int token ids.
    lengths: `[...]` int, number of tokens; later ones are padding of any value.
    separators: ids of all tokens that contain the separator; may be empty.
    steps: K, the largest number of steps; None means no limit (T).

  Returns:
    `[..., T]` int32, -1 for padding.

  Raises:
    ValueError: `steps` is below 1.
  """
  if steps is not None and steps < 1:
    raise ValueError(f"steps = {steps} must be at least 1; nearest: 1")
  real = jnp.arange(completions.shape[-1]) < lengths[..., None]
  ends = real & jnp.isin(completions, jnp.array(separators, jnp.int32))
  ids = jnp.cumsum(ends, -1) - ends  # separators strictly before each token
  if steps is not None:
    ids = jnp.minimum(ids, steps - 1)
  return jnp.where(real, ids, -1)


def step_mask(step_ids: Array, steps: int) -> Array:
  """Mask of steps, mask_k = (k <= max_t step_id_t).

  Args:
    step_ids: `[..., T]` int, -1 outside of steps; from `segment_steps`.
    steps: K.

  Returns:
    `[..., K]` bool; all False for a sample without tokens.
  """
  return jnp.arange(steps) <= jnp.max(step_ids, -1, keepdims=True)
