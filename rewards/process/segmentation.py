"""Steps of reasoning in token space: array functions.

A step runs up to and including a token that contains the separator; which ids
those are is the tokenizer's business (a blank line may be glued to a full stop
in one token). Steps are numbered from 0 and cover every real token, so each has
a last token on which its score can stand.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import places

Array = jax.Array


def segment_steps(
  completions: Array,
  lengths: Array,
  separators: tuple[int, ...],
  steps: int | None = None,
) -> Array:
  """The step of each token, step_id_t = number of separators before t.

  - Two separators in a row make an empty step: the second one alone, with a
    score of its own. What that is worth is the process reward model's to say.
  - What follows the last separator is the last step, be it EOS alone; where
    nothing follows there is no further step.
  - A truncated sample's last generated token ends its last step.
  - No separator: one step, the whole completion. A policy that learns to avoid
    separators thereby gives up credit by step and is scored as a sequence: sum,
    soft-min and strict min of one score are that score.
  - Beyond `steps` steps the rest is merged into the last one, which then ends
    where the sample ends: its score is asked for on the whole remainder, and
    nothing is left without credit.

  Source: Cheng et al. 2025, Stop Summation (PURE), whose separator is a blank
  line.

  Args:
    completions: `[..., T]` int token ids.
    lengths: `[...]` int, real tokens; what follows is padding, whatever it
      holds.
    separators: ids of every token that contains the separator; may be empty.
    steps: K, the most steps there is room for; None: no limit (T).

  Returns:
    `[..., T]` int32, -1 on padding.

  Raises:
    ValueError: `steps` is below 1.
  """
  if steps is not None and steps < 1:
    raise ValueError(f"steps = {steps} must be at least 1; nearest: 1")
  real = jnp.arange(completions.shape[-1]) < lengths[..., None]
  ends = real & jnp.isin(completions, jnp.array(separators, jnp.int32))
  ids = places.count_before(ends)
  if steps is not None:
    ids = jnp.minimum(ids, steps - 1)
  return jnp.where(real, ids, -1)


def step_mask(step_ids: Array, steps: int) -> Array:
  """Which of K steps exist, mask_k = (k <= max_t step_id_t).

  Args:
    step_ids: `[..., T]` int, -1 outside; from `segment_steps(..., steps)`.
    steps: K.

  Returns:
    `[..., K]` bool; none for a sample without tokens.
  """
  return jnp.arange(steps) <= jnp.max(step_ids, -1, keepdims=True)
