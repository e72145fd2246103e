"""Trees of samples: drawn actions, siblings and values, with padding."""

import numpy as np

from rl.methods.sampling import trees

# Sample 1 copies the first action of sample 0. There is room for 5 actions.
CREATORS = np.array([[[0, 0, 0, 0, 0], [0, 1, 1, 1, 1], [2, 2, 2, 2, 2]]])
COUNTS = np.array([[3, 2, 1]])
EXISTS = np.ones((1, 3), bool)
TREE = CREATORS, COUNTS, EXISTS


def test_actions_that_do_not_exist_are_not_drawn():
  drawn = trees.drawn_actions(*TREE)
  expected = [[1, 1, 1, 0, 0], [0, 1, 0, 0, 0], [1, 0, 0, 0, 0]]
  np.testing.assert_array_equal(drawn[0], expected)
  absent = trees.drawn_actions(
    CREATORS, COUNTS, np.array([[True, False, True]])
  )
  assert not absent[0, 1].any()


def test_siblings_start_in_the_same_state():
  """Entry i, j, k: action k of j was drawn where action k of i starts."""
  siblings = np.asarray(trees.siblings(*TREE))[0]
  # In the prompt, the actions of samples 0 and 2 were drawn, for any sample.
  np.testing.assert_array_equal(siblings[..., 0], [[1, 0, 1]] * 3)
  np.testing.assert_array_equal(
    siblings[..., 1], [[1, 1, 0], [1, 1, 0], [0, 0, 0]]
  )
  np.testing.assert_array_equal(
    siblings[..., 2], [[1, 0, 0], [0, 0, 0], [0, 0, 0]]
  )
  assert not siblings[..., 3:].any()


def test_values_after_the_last_action_are_zero():
  """The state after the first action is worth (1 + .5) / 2 = .75."""
  scores = np.array([[1.0, 0.5, 0.25]])
  values = trees.state_values(scores, *TREE)
  expected = [
    [0.5, 0.75, 1, 1, 0, 0],
    [0.5, 0.75, 0.5, 0, 0, 0],
    [0.5, 0.25, 0, 0, 0, 0],
  ]
  np.testing.assert_allclose(values[0], expected, atol=1e-6)
