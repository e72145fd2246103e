"""Tests of `rl.reward`: the order of parts, states, masks and errors."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl.reward import Reward
from rl.transforms import LevelError, library, transform

SCORES = [1.0, 2.0, 4.0]


@transform(takes="none", gives="sample")
def scaled_scores(_, rollout, *, factor=1.0):
  return factor * rollout.scores


@transform(takes="none", gives="sample")
def component(_, rollout, *, name="first"):
  return 10.0 * rollout.components[name]


@transform(takes="none", gives="sample", init=lambda **_: jnp.int32(5))
def count(_, rollout, state):
  return jnp.full(rollout.scores.shape, state, jnp.float32), state + 1


@transform(takes="none", gives="step")
def doubled_steps(_, rollout):
  return 2.0 * rollout.step_scores


def _sum(components, rollout):
  del rollout
  weighted = {name: 0.5 * value for name, value in components.items()}
  return sum(weighted.values()), weighted


def _initial_states(reward):
  return {name: t.init() for name, t in reward.transforms.items()}


def test_terms_are_applied_in_order_and_summed_by_total():
  """The second part reads the first; `total` reads the task's component too."""
  reward = Reward(
    (("first", scaled_scores(factor=3.0)), ("second", component())), _sum
  )
  rollout = worked_example.rollout(SCORES, components={"task": [1.0, 1.0, 1.0]})
  result, _ = reward.apply(rollout, _initial_states(reward))
  # 0.5 (1 + 3 x + 30 x) for x = 1, 2, 4
  np.testing.assert_allclose(result.scores, [[17.0, 33.5, 66.5]])
  np.testing.assert_allclose(result.components["second"], [[15.0, 30.0, 60.0]])
  # The verdict stays that of the task.
  np.testing.assert_array_equal(result.correct, rollout.correct)


def test_states_are_read_and_written_by_name():
  reward = Reward((("count", count()),), _sum)
  rollout = worked_example.rollout(SCORES)
  state = {**_initial_states(reward), "other": 1}
  result, new_state = reward.apply(rollout, state)
  np.testing.assert_allclose(result.scores, [[2.5, 2.5, 2.5]])
  assert new_state == {"reward/count": 6}


def test_samples_that_do_not_exist_have_no_score():
  """Neither in the parts nor in the total."""
  mask = jnp.array([[True, False, True]])
  rollout = worked_example.rollout([1.0, np.nan, 4.0], sample_mask=mask)
  reward = Reward((("first", scaled_scores()),), _sum)
  result, _ = reward.apply(rollout, _initial_states(reward))
  np.testing.assert_allclose(result.components["first"], [[0.5, 0.0, 2.0]])
  shifted = Reward(
    (("first", scaled_scores()),),
    lambda components, _: (components["first"] + 1.0, components),
  )
  result, _ = shifted.apply(rollout, _initial_states(shifted))
  np.testing.assert_allclose(result.scores, [[2.0, 0.0, 5.0]])


def test_step_rewards_replace_the_step_scores_and_read_those_of_the_task():
  rollout = worked_example.rollout(
    [1.0, 2.0], steps=[[1, 1], [2]], step_scores=[[0.25, 0.5], [0.75]]
  )
  reward = Reward(
    (("first", scaled_scores()),), _sum, steps=doubled_steps(), name="pay"
  )
  assert list(reward.transforms) == ["reward/first", "reward_steps"]
  result, new_state = reward.apply(rollout, _initial_states(reward))
  np.testing.assert_allclose(result.step_scores, [[[0.5, 1.0], [1.5, 0.0]]])
  assert set(new_state) == {"reward/first", "reward_steps"}
  assert reward.describe() == [
    ("pay", "sample"),
    ("  first: scaled_scores(factor=1)", "sample"),
    ("doubled_steps()", "step"),
  ]


def test_without_weights_none_are_logged():
  reward = Reward((), _sum)
  assert reward.weights(jnp.int32(0)) == {}
  with pytest.raises(dataclasses.FrozenInstanceError):
    reward.name = "other"


def test_names_and_levels_are_checked():
  with pytest.raises(ValueError, match=r"distinct, got \['a', 'a'\]"):
    Reward((("a", scaled_scores()), ("a", count())), _sum)
  with pytest.raises(LevelError, match="part a = doubled_steps"):
    Reward((("a", doubled_steps()),), _sum)
  with pytest.raises(LevelError, match="steps = scaled_scores"):
    Reward((), _sum, steps=scaled_scores())
  with pytest.raises(LevelError, match="must take no signal"):
    Reward((("a", library.center()),), _sum)
  taken = Reward((("task", scaled_scores()),), _sum)
  rollout = worked_example.rollout(SCORES, components={"task": SCORES})
  with pytest.raises(ValueError, match="already has a component 'task'"):
    taken.apply(rollout, _initial_states(taken))
