"""Tests of `rewards.shaping.relative_to_references`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.shaping import relative_to_references

relative_to_references = compiled.functions(relative_to_references)

REFERENCES = jnp.array([0.0, 1.0, 2.0])
RELATIVE = [
  relative_to_references.preference_scores,
  relative_to_references.late_preference_scores,
  relative_to_references.centered_scores,
  relative_to_references.tanh_scores,
  relative_to_references.arctan_scores,
  relative_to_references.polynomial_scores,
]


def test_par_s_number_and_its_ends():
  np.testing.assert_allclose(
    relative_to_references.preference_scores(1.0, REFERENCES), 0.5, rtol=1e-6
  )
  far = relative_to_references.preference_scores(
    jnp.array([-80.0, 80.0]), REFERENCES
  )
  np.testing.assert_allclose(far, [0, 1], atol=1e-6)
  one, other = jnp.float32(0.3), jnp.float32(1.7)
  total = relative_to_references.preference_scores(
    one, other[None]
  ) + relative_to_references.preference_scores(other, one[None])
  np.testing.assert_allclose(total, 1, rtol=1e-6)
  steep = relative_to_references.preference_scores(1.5, REFERENCES, slope=1e4)
  np.testing.assert_allclose(steep, 2 / 3, rtol=1e-6)  # two of three beaten


@pytest.mark.parametrize("shape", RELATIVE)
def test_relative_shapes_rise_and_do_not_see_a_common_shift(shape):
  scores = jnp.linspace(-3, 4, 40)
  value = shape(scores, REFERENCES)
  assert (jnp.diff(value) > 0).all()
  moved = shape(scores + 17, REFERENCES + 17)
  np.testing.assert_allclose(moved, value, atol=2e-5)
  # Several references are the mean over each of them.
  each = jnp.stack([shape(scores, r[None]) for r in REFERENCES])
  np.testing.assert_allclose(value, each.mean(0), atol=1e-6)
  assert shape(jnp.float32(1), REFERENCES, jnp.zeros(3, bool)) == 0


def test_the_polynomial_is_near_the_sigmoid_and_clipped():
  gaps = jnp.linspace(-4.9, 4.9, 200)
  result = relative_to_references.polynomial_scores(gaps, jnp.zeros(1))
  np.testing.assert_allclose(result, jax.nn.sigmoid(gaps), atol=0.03)
  ends = relative_to_references.polynomial_scores(
    jnp.array([-5.0, 5.0, -99.0, 99.0]), jnp.zeros(1)
  )
  np.testing.assert_array_equal(ends, [0, 1, 0, 1])


def test_slow_growth_is_the_same_shape_three_later():
  np.testing.assert_allclose(
    relative_to_references.late_preference_scores(4.0, REFERENCES),
    relative_to_references.preference_scores(1.0, REFERENCES),
    rtol=1e-6,
  )


def test_an_unbounded_shape_can_be_hacked_and_a_bounded_one_less():
  """The weakness of centring alone: one outlier is worth any other gain."""
  good, hacked = jnp.float32(3.0), jnp.float32(300.0)
  gain = relative_to_references.centered_scores(
    hacked, REFERENCES
  ) - relative_to_references.centered_scores(good, REFERENCES)
  assert gain > 100
  bounded = relative_to_references.preference_scores(
    hacked, REFERENCES
  ) - relative_to_references.preference_scores(good, REFERENCES)
  assert bounded < 0.2


# Gaps r - r_m of three samples of each of two prompts.
GAPS = [
  [[2.0, -1], [0.5, -2.5], [-6, -9]],
  [[3, 7], [0.25, 4.25], [-3, 1]],
]


def _sigmoid(x):
  return 1 / (1 + np.exp(-x))


def _polynomial(x):
  grid = np.linspace(-5, 5, 100)
  powers = np.stack([grid**k for k in range(6)], -1)
  coefficients = np.linalg.lstsq(powers, _sigmoid(grid), rcond=None)[0]
  value = sum(c * x**k for k, c in enumerate(coefficients))
  return np.where(x < -5, 0, np.where(x > 5, 1, value))


@pytest.mark.worked_example(
  "reward:preference",
  "reward:late_preference",
  "reward:centered",
  "reward:tanh",
  "reward:arctan",
  "reward:polynomial",
  "function:relative_to_references.against",
  "function:relative_to_references.preference_scores",
  "function:relative_to_references.late_preference_scores",
  "function:relative_to_references.centered_scores",
  "function:relative_to_references.tanh_scores",
  "function:relative_to_references.arctan_scores",
  "function:relative_to_references.polynomial_scores",
)
@pytest.mark.parametrize(
  ("name", "shape"),
  [
    ("preference", _sigmoid),
    ("late_preference", lambda x: _sigmoid(x - 3)),
    ("centered", lambda x: x),
    ("tanh", np.tanh),
    ("arctan", np.arctan),
    ("polynomial", _polynomial),
  ],
)
def test_means_of_shapes_of_the_gaps_to_two_references(name, shape):
  """The third reference of each prompt has no score."""
  rollout = worked_example.rollout(
    [[2, 0.5, -6], [4, 1.25, -2]],
    components={"a": [[-9, -9, 0], [1, -6, 1.5]]},
    extras={"task/r": [[0, 3, np.nan], [1, -3, np.inf]]},
  )
  expected = np.mean(shape(np.array(GAPS)), -1)
  result = worked_example.reward(name, rollout, references="task/r")
  np.testing.assert_allclose(result, expected, atol=2e-6)
  result = worked_example.reward(
    name, rollout, references="task/r", component="a"
  )
  gaps = [[-9.0, -12], [-9, -12], [0, -3], [0, 4], [-7, -3], [0.5, 4.5]]
  expected = np.mean(shape(np.array(gaps)), -1)
  np.testing.assert_allclose(result.ravel(), expected, atol=2e-6)


@pytest.mark.worked_example("function:relative_to_references.preference_scores")
def test_the_slope_of_preferences():
  """sigmoid(4 (r - r_m)), for r = 1 and the references 0.5 and 2."""
  result = relative_to_references.preference_scores(
    jnp.array(1.0), jnp.array([0.5, 2.0]), slope=4.0
  )
  expected = (_sigmoid(2) + _sigmoid(-4)) / 2
  np.testing.assert_allclose(result, expected, rtol=1e-6)
