"""Leaves tokens out of the text that a process reward model reads.

Reasoning steps in natural language hold thoughts and maths: `multiply two * 2 4
;`. Without the tokens of words a model reads the maths alone: `* 2 4 ;`. The
tokens that remain keep their order, their step and their labels. Leaving tokens
out twice is the same as once.

Source: Ma et al. 2024, What Are Step-Level Reward Models Rewarding?
Counterintuitive Findings from MCTS-Boosted Mathematical Reasoning: the models
that read the full context (FC-SRM), and those that read maths only (MO-SRM).

Axes: N lines, S samples of a line, T completion tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
from jax import Array

from rewards.process.step_data import StepData


def order_of(
  completions: Array, lengths: Array, left_out: Sequence[int]
) -> tuple[Array, Array]:
  """Orders tokens such that those that remain come first.

  Args:
    completions: `[..., T]` ids.
    lengths: `[...]`, numbers of tokens without padding.
    left_out: ids of the tokens that do not remain.

  Returns:
    The positions of the tokens in the new order, `[..., T]`, and the number of
    tokens that remain, `[...]`.
  """
  xp = np if isinstance(completions, np.ndarray) else jnp
  exists = xp.arange(completions.shape[-1]) < lengths[..., None]
  remains = exists & ~xp.isin(completions, xp.asarray(left_out))
  order = xp.argsort(~remains, axis=-1, stable=True)
  return order, remains.sum(-1).astype(lengths.dtype)


def leave_out(data: StepData, left_out: Sequence[int]) -> StepData:
  """Returns the lines without some tokens of their completions.

  A step whose tokens are all left out has no text; its score means nothing.

  Args:
    data: lines `[N, S]`.
    left_out: ids of the tokens; without any, the lines are returned as they
      are.
  """
  if not left_out:
    return data
  tokens = data.tokens
  xp = np if isinstance(tokens.completions, np.ndarray) else jnp
  order, lengths = order_of(tokens.completions, tokens.lengths, left_out)
  remains = xp.arange(order.shape[-1]) < lengths[..., None]

  def move(array: Array) -> Array:  # [N, S, T]
    return xp.take_along_axis(array, order, -1)

  token_values = data.token_values
  if token_values is not None:
    token_values = xp.where(remains, move(token_values), 0)
  return data.replace(
    tokens=tokens.replace(
      completions=move(tokens.completions),
      lengths=lengths,
      mask=move(tokens.mask) & remains,
    ),
    step_ids=xp.where(remains, move(data.step_ids), -1),
    token_values=token_values,
  )
