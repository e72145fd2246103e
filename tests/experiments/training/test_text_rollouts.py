"""Rollouts of demonstrations, and of the lines of a file."""

import types as python_types

import jax
import jax.numpy as jnp
import numpy as np
from helpers.rollout_parts import (
  assert_keys,
  clocked_timer,
  fold,
  problems,
  rollout_state,
)

from experiments.training import text_rollouts


def test_demonstrations_of_the_host_are_timed_and_put_together(monkeypatch):
  completions = np.array([[3, 1, 0], [3, 4, 1]], np.int32)
  keys = []

  def demonstrate(key, problems):
    keys.append(key)
    return completions, np.array([2, 3], np.int32)

  task = python_types.SimpleNamespace(
    train=lambda key, step, n: problems(),
    demonstrate=demonstrate,
    environment=None,
    eos_ids=(),
  )
  make = text_rollouts.make_host_demonstration_fn(task, 2, None)
  state, timer = rollout_state(), clocked_timer(monkeypatch, 10, 10, 13)
  rollout = make(state, timer)
  assert timer.state_ready == 10.0
  assert timer.metrics == {"time/rollout_s": 3.0}
  _, solution_key = jax.random.split(state.carried.key)
  assert_keys(keys, [fold(solution_key, 5)])
  np.testing.assert_array_equal(rollout.completions, completions[:, None])
  np.testing.assert_array_equal(
    rollout.mask, [[[True, True, False]], [[True, True, True]]]
  )
  np.testing.assert_array_equal(rollout.scores, [[1], [1]])
  assert (rollout.finished & rollout.sample_mask).all()


class Lines:
  """Three lines with two completions each, of which steps take 2 and 0."""

  completions = np.arange(18, dtype=np.int32).reshape(3, 2, 3)
  lengths = np.array([[1, 3], [2, 2], [3, 0]], np.int32)

  def __len__(self):
    return 3

  def rows(self, key, step_number, n):
    assert (step_number, n) == (5, 2)
    return np.array([2, 0])

  def problems(self, rows):
    return problems().replace(ids=10 * np.asarray(rows, np.int32))


def test_the_first_completion_of_a_line_is_the_right_one(monkeypatch):
  values = np.arange(6.0).reshape(3, 2)
  make = text_rollouts.make_text_fn(Lines(), 2, None, {"file/value": values})
  state, timer = rollout_state(), clocked_timer(monkeypatch, 10, 10, 13)
  rollout = make(state, timer)
  assert timer.state_ready == 10.0
  assert timer.metrics == {"time/rollout_s": 3.0}
  np.testing.assert_array_equal(rollout.completions, Lines.completions[[2, 0]])
  np.testing.assert_array_equal(
    rollout.mask,
    [[[True] * 3, [False] * 3], [[True, False, False], [True] * 3]],
  )
  np.testing.assert_array_equal(rollout.scores, [[1, 0], [1, 0]])
  np.testing.assert_array_equal(rollout.correct, [[1, 0], [1, 0]])
  np.testing.assert_array_equal(
    rollout.extras["file/value"], [[4.0, 5.0], [0.0, 1.0]]
  )
  step_key = fold(state.carried.key, 5)
  # No line is selected twice, which the last number says.
  assert_keys(rollout.keys, [fold(fold(step_key, id_), 0) for id_ in (20, 0)])


def test_the_shapes_of_lines_are_known_before_they_are_read():
  rollout = text_rollouts.abstract_text_rollout(
    Lines(), 2, rollout_state(), ("ref/log_probs",)
  )
  extra = rollout.extras["ref/log_probs"]
  assert (extra.shape, extra.dtype) == ((2, 2, 3), jnp.float32)
  assert rollout.mask.shape == (2, 2, 3)
