"""Does the same reasoning lead to the same option, wherever it stands?

The options of a multiple-choice question are shuffled and the policy answers
once more, behind the thought that it has already had. Who has reasoned to an
option finds it again; who has reasoned to a letter does not. The second pass
costs its few answer tokens (and, with a thought that is read again, about a
quarter of the time of a step).

Usage, `order` [P, S, J] as the options were shown the second time:
  again = consistency.restored(second_choices, order)
  scores = (correct == 1) + format_scores + consistency.answer_consistency(
    choices, again, correct, shuffled)

Source: Answer-Consistent Reinforcement Learning (ACRE). From reviews of it:
the structure is known to us, the three coefficients are not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards.inputs import is_right

Array = jax.Array


def restored(choices: Array, order: Array) -> Array:
  """The options that were chosen among shuffled ones, as first numbered.

  Args:
    choices: `[...]` int, the place that was chosen; outside 0..J-1: none.
    order: `[..., J]` int, which option stands at each place.

  Returns:
    `[...]` int32, -1 for none.
  """
  choices = jnp.asarray(choices)
  size = order.shape[-1]
  at = jnp.clip(choices, 0, size - 1)[..., None]
  option = jnp.take_along_axis(jnp.asarray(order), at, -1)[..., 0]
  chosen = (choices >= 0) & (choices < size)
  return jnp.where(chosen, option, -1).astype(jnp.int32)


def answer_consistency(
  first: Array,
  second: Array,
  correct: Array,
  asked: Array | None = None,
  consistent_right: float = 1.0,
  inconsistent_right: float = 0.5,
  consistent_wrong: float = 0.0,
) -> Array:
  """r_c, by whether the first answer is right and the second is the same.

    right, and the same again        consistent_right
    right, and another one or none   inconsistent_right
    wrong, and the same again        consistent_wrong
    otherwise                        0

  The reward of the paper is accuracy + format + r_c. A policy that moves with
  the options always gets the first line where it is right. Its weakness: a
  shuffle that leaves the options where they were, or nearly, tests nothing; say
  so by `asked`.

  Args:
    first, second: `[...]` int options, numbered alike; -1 for none.
    correct: `[...]` verdicts of the first; 1 right.
    asked: `[...]` bool, was asked again in another order; others get 0. Let it
      be one value for a group, or it is a reward of its own. None: everywhere.
    consistent_right, inconsistent_right, consistent_wrong: alpha_1 to alpha_3;
      the values are ours.

  Returns:
    `[...]` float32.
  """
  right = is_right(correct)
  same = (jnp.asarray(first) >= 0) & (first == second)
  reward = jnp.where(
    right,
    jnp.where(same, consistent_right, inconsistent_right),
    jnp.where(same, consistent_wrong, 0.0),
  )
  if asked is not None:
    reward = jnp.where(asked, reward, 0.0)
  return reward.astype(jnp.float32)
