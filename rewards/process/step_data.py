"""Labelled samples in tokens, and transforms of them.

Axes: N lines, S samples of a line (1 in a file), L prompt tokens, T completion
tokens, K steps.
"""

from __future__ import annotations

import flax.struct
import jax
import numpy as np

from rl import types

Array = jax.Array


@flax.struct.dataclass
class StepData:
  """Labelled samples.

  Attributes:
    tokens: prompts `[N, L]` and completions `[N, S, T]`.
    step_ids: `[N, S, T]` int32, step of each token; -1 on padding.
    values: `[N, S, K]` float32, labels in [0, 1].
    weights: `[N, S, K]` float32; 0 for steps without a label.
    potentials: `[N, S, K]` float32, labels of a second kind (DuaShepherd).
    potential_weights: `[N, S, K]` float32; 0 for steps without one.
    correct: `[N, S]` int8, verdicts: 1 right, 0 wrong, -1 unknown.
    problems: `[N]` int32, number of the problem of each line.
    token_values: `[N, S, T]` float32, targets of tokens, which the loss
      `token_value` computes from the lines; None otherwise.
  """

  tokens: types.Tokens
  step_ids: Array
  values: Array
  weights: Array
  potentials: Array
  potential_weights: Array
  correct: Array
  problems: Array
  token_values: Array | None = None

  @property
  def step_mask(self) -> Array:
    """`[N, S, K]` bool, the steps that exist."""
    steps = np.arange(self.values.shape[-1])
    return steps <= self.step_ids.max(-1)[..., None]


def unlabelled(
  tokens: types.Tokens,
  step_ids: Array,
  num_steps: int,
  correct: Array,
  problems: Array,
) -> StepData:
  """Returns samples without labels, whose steps a model can score.

  Args:
    tokens, step_ids, correct, problems: fields of `StepData`.
    num_steps: K.
  """
  # `problems` decides whether the arrays are numpy arrays.
  xp = jax.numpy if isinstance(problems, jax.Array) else np
  nothing = xp.zeros((*step_ids.shape[:2], num_steps), np.float32)
  return StepData(
    tokens=tokens,
    step_ids=step_ids,
    values=nothing,
    weights=nothing,
    potentials=nothing,
    potential_weights=nothing,
    correct=correct,
    problems=problems,
  )


def take(data: StepData, rows: Array) -> StepData:
  """Returns lines as examples.

  Args:
    data: lines with one sample each, S = 1.
    rows: `[E, S]` int, the lines of each example. They have the same prompt.

  Returns:
    E examples with S samples.
  """

  def samples(array: Array) -> Array:  # [N, 1, ...] -> [E, S, ...]
    return array[rows][:, :, 0]

  tokens = data.tokens
  return StepData(
    tokens=types.Tokens(
      prompts=tokens.prompts[rows[:, 0]],
      prompt_mask=tokens.prompt_mask[rows[:, 0]],
      completions=samples(tokens.completions),
      lengths=samples(tokens.lengths),
      mask=samples(tokens.mask),
    ),
    problems=data.problems[rows[:, 0]],
    **{
      name: samples(getattr(data, name))
      for name in (
        *("step_ids", "values", "weights", "potentials", "potential_weights"),
        "correct",
      )
    },
    token_values=None
    if data.token_values is None
    else samples(data.token_values),
  )


def concatenate(*parts: StepData) -> StepData:
  """Joins lines along the first axis."""
  return jax.tree.map(lambda *arrays: np.concatenate(arrays), *parts)


def merge_steps(data: StepData) -> StepData:
  """Returns the lines with each pair of consecutive steps merged to one.

  A line with n steps gives n - 1 lines: in line i the steps i and i + 1 are one
  step, labelled like the second of them, and no other step has a label. A line
  whose merged step has no label is left out.
  Source: Wang et al. 2025, Towards Hierarchical Multi-Step Reward Models for
  Enhanced Reasoning (HRM), the label rule of the released code.
  """
  merged = []
  for i in range(data.values.shape[-1] - 1):
    has_label = data.weights[:, 0, i + 1] > 0
    if not has_label.any():
      continue
    part = jax.tree.map(lambda x, keep=has_label: x[keep], data)
    # Step i + 1 becomes a part of step i, and later steps move down.
    step_ids = np.where(part.step_ids > i, part.step_ids - 1, part.step_ids)
    values, weights = np.zeros_like(part.values), np.zeros_like(part.weights)
    values[..., i], weights[..., i] = part.values[..., i + 1], 1
    merged.append(
      part.replace(step_ids=step_ids, values=values, weights=weights)
    )
  if not merged:
    return jax.tree.map(lambda x: x[:0], data)
  return concatenate(*merged)


def reverse_steps(tokens: types.Tokens, step_ids: Array) -> types.Tokens:
  """Returns the completions with their steps in the opposite order.

  The tokens inside of a step keep their order. Reversing twice gives the
  completions again. The step of a token is `reverse_ids`.

  Args:
    tokens: completions `[N, S, T]`, all of whose tokens are in steps.
    step_ids: `[N, S, T]`, -1 on padding.
  """
  order = _reversed_order(step_ids)
  xp = jax.numpy if isinstance(order, jax.Array) else np
  return tokens.replace(
    completions=xp.take_along_axis(tokens.completions, order, -1),
    mask=xp.take_along_axis(tokens.mask, order, -1),
  )


def reverse_ids(step_ids: Array) -> Array:
  """Returns the number of each token's step in the reversed completion."""
  order = _reversed_order(step_ids)
  xp = jax.numpy if isinstance(order, jax.Array) else np
  ids = xp.take_along_axis(step_ids, order, -1)
  return xp.where(ids >= 0, step_ids.max(-1, keepdims=True) - ids, -1)


def _reversed_order(step_ids: Array) -> Array:
  """Returns the position of each token of the reversed completion."""
  xp = jax.numpy if isinstance(step_ids, jax.Array) else np
  last = step_ids.max(-1, keepdims=True)
  # Padding stays at the end.
  key = xp.where(step_ids >= 0, last - step_ids, last + 1)
  return (
    xp.argsort(key, axis=-1, kind="stable")
    if xp is np
    else xp.argsort(key, axis=-1, stable=True)
  )
