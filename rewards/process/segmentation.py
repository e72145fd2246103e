"""Segmentation: the reasoning step of each token of a completion.

A step ends with a token that contains the separator, such as a blank line. It
depends on the tokenizer which ids these are (one token may hold a full stop and
a blank line). Steps are numbered from 0 and cover all tokens before padding, so
each step has a last token, at which it is scored.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError

Array = jax.Array


def segment_steps(
  completions: Array,
  lengths: Array,
  separators: tuple[int, ...],
  steps: int | None = None,
) -> Array:
  """Returns the step of each token, the number of separators before it.

  - The second of two separators in a row is a step of its own.
  - The tokens after the last separator are the last step, also EOS alone. If
    there are none, the last separator ends the last step.
  - In a truncated sample the last token ends the last step.
  - Without a separator the whole completion is one step.
  - If there are more than `steps` steps, the last ones are merged into step
    number `steps` - 1, which ends where the sample ends.

  Source: Cheng et al. 2025, Stop Summation (PURE), whose separator is a blank
  line.

  Args:
    completions: `[..., T]` int token ids.
    lengths: `[...]` int, number of tokens before padding.
    separators: ids of all tokens that contain the separator; may be empty.
    steps: K, the largest number of steps; None means no limit (T).

  Returns:
    `[..., T]` int32, -1 for padding.

  Raises:
    UsageError: `steps` is below 1.
  """
  if steps is not None and steps < 1:
    raise UsageError(f"steps = {steps} must be at least 1")
  real = jnp.arange(completions.shape[-1]) < lengths[..., None]
  ends = real & jnp.isin(completions, jnp.array(separators, jnp.int32))
  ids = jnp.cumsum(ends, -1) - ends  # separators strictly before each token
  if steps is not None:
    ids = jnp.minimum(ids, steps - 1)
  return jnp.where(real, ids, -1)


def step_mask(step_ids: Array, steps: int) -> Array:
  """Returns the mask of steps, True for step k if k <= max_t step_id_t.

  Args:
    step_ids: `[..., T]` int, -1 outside of steps; from `segment_steps`.
    steps: K, the number of entries.

  Returns:
    `[..., K]` bool; all False for a sample without tokens.
  """
  return jnp.arange(steps) <= jnp.max(step_ids, -1, keepdims=True)
