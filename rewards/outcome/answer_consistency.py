"""Answer consistency: a reward for the same option after options are shuffled.

The options of a multiple-choice question are shuffled, and the policy answers a
second time after its first thought. A policy that reasoned about an option
chooses this option again; one that reasoned about a letter does not. The second
pass costs its few answer tokens (and about a quarter of the time of a step if
the thought is read again).

Usage, with `order` [P, S, J] the options as shown the second time:
  second = answer_consistency.restored(second_choices, order)
  scores = (correct == 1) + format_scores + (
    answer_consistency.answer_consistency_scores(
      choices, second, correct, shuffled))

Source: Answer-Consistent Reinforcement Learning (ACRE). From reviews of it:
the structure is known to us, the three coefficients are not.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


def restored(choices: Array, order: Array) -> Array:
  """Converts choices among shuffled options to the original numbering.

  Args:
    choices: `[...]` int, the chosen position; values outside 0..J-1 mean no
      choice.
    order: `[..., J]` int, the original option at each position.

  Returns:
    `[...]` int32, -1 for no choice.
  """
  choices = jnp.asarray(choices)
  size = order.shape[-1]
  at = jnp.clip(choices, 0, size - 1)[..., None]
  option = jnp.take_along_axis(jnp.asarray(order), at, -1)[..., 0]
  chosen = (choices >= 0) & (choices < size)
  return jnp.where(chosen, option, -1).astype(jnp.int32)


def answer_consistency_scores(
  first: Array,
  second: Array,
  correct: Array,
  asked_again: Array | None = None,
  consistent_right: float = 1.0,
  inconsistent_right: float = 0.5,
  consistent_wrong: float = 0.0,
) -> Array:
  """r_c, by whether the first answer is right and equal to the second one.

    right, and the same second answer     consistent_right
    right, and another one or no answer   inconsistent_right
    wrong, and the same second answer     consistent_wrong
    otherwise                             0

  The reward of the paper is accuracy + format + r_c. A shuffle that leaves the
  options almost in their order tests nothing; exclude it by `asked_again`.

  Args:
    first: `[...]` int, the first chosen option, -1 for no answer.
    second: `[...]` int, the second one with the same numbering.
    correct: `[...]` verdicts of the first answer; 1 is right.
    asked_again: `[...]` bool, samples with a second pass; others score 0. Use
      one value per group, or the mask itself becomes a reward. None means all.
    consistent_right: alpha_1; the value is ours.
    inconsistent_right: alpha_2; the value is ours.
    consistent_wrong: alpha_3; the value is ours.

  Returns:
    `[...]` float32.
  """
  right = base.is_right(correct)
  same = (jnp.asarray(first) >= 0) & (first == second)
  reward = jnp.where(
    right,
    jnp.where(same, consistent_right, inconsistent_right),
    jnp.where(same, consistent_wrong, 0.0),
  )
  if asked_again is not None:
    reward = jnp.where(asked_again, reward, 0.0)
  return reward.astype(jnp.float32)


@transform(
  takes="none", gives="sample", needs=(base.ANSWERS, base.SHUFFLED_ANSWERS)
)
def answer_consistency(
  _,
  rollout: types.Rollout,
  *,
  consistent_right: float = 1.0,
  inconsistent_right: float = 0.5,
  consistent_wrong: float = 0.0,
) -> Array:
  """`answer_consistency_scores` against a second answer to shuffled options.

  "task/shuffled_answer_ids" `[P, S]` holds the second answers, numbered as
  before the shuffle: -1 for no answer, less for samples without a second pass.
  """
  second = rollout.extras[base.SHUFFLED_ANSWERS]
  return answer_consistency_scores(
    rollout.extras[base.ANSWERS],
    second,
    rollout.correct,
    second >= -1,
    consistent_right,
    inconsistent_right,
    consistent_wrong,
  )
