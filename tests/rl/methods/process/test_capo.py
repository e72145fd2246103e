"""Worked example of CAPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import advantages, methods

# Errors (1 - s) / 2 of the steps at the four tokens of each sample, and whether
# the sample is right; the second does not exist.
ERRORS = np.array(
  [
    [0.2, 0.2, 0.65, 0],
    [0, 0, 0, 0],
    [0.6, 0.1, 0.1, 0.1],
    [0.05, 0.45, 0.3, 0],
    [0.25, 0.25, 0, 0],
  ]
)
RIGHT = np.array([1, 0, 0, 1, 0])


def expected(outcome_weight, process_weight):
  rewards = outcome_weight * RIGHT[:, None] - process_weight * ERRORS
  inside = process_example.MASK[0] > 0
  mean, std = rewards[inside].mean(), rewards[inside].std()
  return (np.where(inside, (rewards - mean) / std, 0))[None]


@pytest.mark.worked_example("method:capo")
def test_tokens_of_wrong_steps_are_charged():
  m = methods.get("capo")
  process_example.check(m, expected(2, 1))
  m = methods.get("capo", outcome_weight=1.0, process_weight=3.0)
  clip_example.check_advantages(m, process_example.rollout(), expected(1, 3))


@pytest.mark.worked_example("method:capo")
def test_order_of_rewards_and_tokens_outside_of_steps():
  """Right and clean 2, right and wrong 1, wrong and clean 0, both wrong -1."""
  rollout = process_example.rollout()
  ids = jnp.array([[[0, 1, -1, -1], [0] * 4, [0, 1, 1, 1], [0] * 4, [0] * 4]])
  rollout = rollout.replace(
    step_ids=ids,
    step_scores=jnp.array([[[1.0, -1.0]] * 5]),
    step_mask=jnp.ones((1, 5, 2), bool),
    sample_mask=jnp.array([[True, False, True, False, False]]),
  )
  m = methods.get("capo")
  values = np.array([2, 1, 0, 0, -1, -1, -1])
  z = (values - values.mean()) / values.std()
  target = np.zeros((1, 5, 4))
  target[0, 0, :3], target[0, 2] = z[:3], z[3:]
  clip_example.check_advantages(m, rollout, target)


@pytest.mark.worked_example("method:capo")
def test_without_process_weight_it_is_grpo():
  """Samples of equal length, all tokens of which are in steps."""
  rollout = process_example.rollout()
  full = jnp.ones((1, 5, 4), bool)
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(mask=full),
    step_ids=jnp.zeros((1, 5, 4), jnp.int32),
  )
  exists = np.asarray(rollout.sample_mask)
  z = advantages.group_normalize(
    jnp.array([RIGHT], jnp.float32), rollout.sample_mask, ddof=0
  )
  target = np.where(exists, z, 0)[..., None] * np.ones(4)
  m = methods.get("capo", process_weight=0.0)
  clip_example.check_advantages(m, rollout, target)
