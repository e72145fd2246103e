"""Worked example of TP-GRPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import methods

# Verdicts 1, (absent), 0, 1, unknown: mean 2/3, deviation (n - 1) sqrt(1/3).
RIGHT, WRONG = np.sqrt(1 / 3), -2 * np.sqrt(1 / 3)


def at_tokens(steps):
  """Returns the value of each step at its tokens, `[1, 5, 4]`."""
  values = np.zeros((1, 5, 4))
  for i, sizes in enumerate(process_example.STEPS):
    repeated = np.repeat(steps[i], sizes)
    values[0, i, : len(repeated)] = repeated
  return values * process_example.MASK


@pytest.mark.worked_example("method:tp_grpo")
def test_advantages_of_labels():
  """Right: o, or o - alpha 2/3; wrong: o with a label, else 0.

  The labels are the signs of (.6, -.3), (-.2, .8), (.9, .1, .4) and (.5).
  """
  m = methods.get("tp_grpo")
  steps = [[RIGHT, RIGHT - 2 / 3], [0, 0], [0, WRONG], [RIGHT] * 3, [0]]
  process_example.check(m, at_tokens(steps))
  steps[0][1] = RIGHT - 2.0
  m = methods.get("tp_grpo", alpha=3.0)
  clip_example.check_advantages(m, process_example.rollout(), at_tokens(steps))


@pytest.mark.worked_example("method:tp_grpo")
def test_it_is_the_sum_of_the_rewards_of_later_thoughts():
  """Labels alternate after merging; the last thought has the outcome alone."""
  accuracy = 2 / 3
  for is_right, o, labels in (
    (True, RIGHT, [1, 0, 1]),
    (False, WRONG, [1, 0, 1]),
    (False, WRONG, [0, 1]),
  ):
    good = accuracy if is_right else o
    rewards = [good if label else -good for label in labels]
    rewards[-1] = 0.0
    suffix = np.cumsum(rewards[::-1])[::-1] + o
    rollout = process_example.rollout()
    row = 0 if is_right else 2
    scores = np.ones((1, 5, 3), np.float32)
    scores[0, row, : len(labels)] = 2 * np.array(labels) - 1
    ids = np.zeros((1, 5, 4), np.int32)
    ids[0, row] = [0, 1, min(2, len(labels) - 1), min(2, len(labels) - 1)]
    rollout = rollout.replace(
      step_scores=jnp.asarray(scores),
      step_mask=jnp.ones((1, 5, 3), bool),
      step_ids=jnp.asarray(ids),
    )
    inside = process_example.MASK[0, row] > 0
    target = np.where(inside, suffix[ids[0, row]], 0)
    others = at_tokens([[RIGHT] * 2, [0, 0], [WRONG] * 2, [RIGHT] * 3, [0]])
    others[0, row] = target
    clip_example.check_advantages(methods.get("tp_grpo"), rollout, others)
