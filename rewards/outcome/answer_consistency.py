"""Answer consistency: a reward for the same option after options are shuffled.

The J options of a multiple-choice question are shuffled, and the policy answers
a second time after its first thought. If the thought supports an option, the
policy chooses this option again; if it supports a letter, it does not. The
second answer costs its few tokens, and one more pass over the thought.

The task `choice` has such questions, and `reward.py:answer_consistency` pays
them.

Source: Answer-Consistent Reinforcement Learning (ACRE).

Open: written from reviews of the paper; its three coefficients are unknown, and
the defaults are guesses.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rl import scoring, types
from rl.transforms import transform

Array = jax.Array

_SECOND = 130  # folded into the keys of the prompts, for the second answers


def restored(choices: Array, order: Array) -> Array:
  """Converts choices among shuffled options to the original numbering.

  Args:
    choices: `[...]` int, the chosen position; a value outside of 0..J-1 is no
      choice.
    order: `[..., J]` int, the original option at each position.

  Returns:
    `[...]` int32, -1 for no choice.
  """
  choices = jnp.asarray(choices)
  size = order.shape[-1]
  option = jnp.take_along_axis(
    jnp.asarray(order), choices[..., None], -1, mode="clip"
  ).squeeze(-1)
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
  """Scores whether the first answer is right, and equal to the second answer.

    first answer right, second the same             consistent_right
    first answer right, second different or none    inconsistent_right
    first answer not right, second the same         consistent_wrong
    otherwise                                       0

  The reward of the paper is accuracy + format + this score. Exclude shuffles
  that hardly change the order of the options by `asked_again`.

  Args:
    first: `[...]` int, the first chosen option, -1 for no answer.
    second: `[...]` int, the second chosen option, with the same numbering.
    correct: `[...]` verdicts of the first answer; 1 is right.
    asked_again: `[...]` bool, samples with a second answer; others score 0. It
      should be the same for all samples of a group, whose scores would
      otherwise differ by it. None means all.
    consistent_right: alpha_1 in the paper.
    inconsistent_right: alpha_2 in the paper.
    consistent_wrong: alpha_3 in the paper.

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
  takes="none",
  gives="sample",
  needs=(base.ANSWERS, base.OPTION_ORDERS, base.OPTION_LOG_PROBS),
)
def answer_consistency(
  _,
  rollout: types.Rollout,
  *,
  consistent_right: float = 1.0,
  inconsistent_right: float = 0.5,
  consistent_wrong: float = 0.0,
) -> Array:
  """Returns `answer_consistency_scores` of the first and the second answers.

  The second answer of a sample is drawn by the policy among the options in
  their new order, after the thought of the sample. Its chances are read from
  one pass over the view "shuffled_options" `[P, S J]`, which has each thought
  with each of the J answers, and "task/option_orders" `[P, S, J]` has the first
  position of the option at each new position. A prompt whose options stay in
  their order is not asked again.
  """
  orders = rollout.extras[base.OPTION_ORDERS]  # [P, S, J]
  count = orders.shape[-1]
  first = rollout.extras[base.ANSWERS]
  mask = scoring.view_tokens(rollout, base.SHUFFLED_OPTIONS).mask
  log_probs = jnp.where(mask, rollout.extras[base.OPTION_LOG_PROBS], 0.0)
  chances = log_probs.sum(-1).reshape(*first.shape, count)  # [P, S, J]
  keys = jax.vmap(jax.random.fold_in, (0, None))(rollout.keys, _SECOND)
  choices = jax.vmap(jax.random.categorical)(keys, chances)  # [P, S]
  second = restored(choices, orders)
  moves = (orders != jnp.arange(count)).any(-1)  # [P, S]
  return answer_consistency_scores(
    first,
    second,
    rollout.correct,
    moves,
    consistent_right,
    inconsistent_right,
    consistent_wrong,
  )
