"""Frequencies after each scaling, by hand from the equations of `rope`.

Four channels with theta 100 have the frequencies 1 and 1/10, that is 6.28 and
62.8 positions per turn.
"""

import numpy as np
import pytest

from models import rope
from models.rope import RopeScaling


def frequencies(scaling, length=0, dim=4, theta=100.0):
  return rope.frequencies(dim, theta, scaling, length)[0]


@pytest.mark.parametrize(
  ("scaling", "length", "expected"),
  [
    (None, 0, [1, 0.1]),
    (RopeScaling("linear", factor=4.0), 0, [0.25, 0.025]),
    # Without a factor the context is not extended.
    (RopeScaling("linear"), 0, [1, 0.1]),
    # Within the original context nothing changes.
    (RopeScaling("dynamic", 2.0, original=8), 4, [1, 0.1]),
    (RopeScaling("dynamic", 2.0, original=8), 8, [1, 0.1]),
    # r = 2: theta becomes 100 * (2 * 2 - 2 + 1)^(4 / 2) = 900.
    (RopeScaling("dynamic", 2.0, original=8), 16, [1, 1 / 30]),
    # Wavelengths are divided from 100 / low on, and kept below 100 / high. At
    # 62.83 the weight is (100 / 62.83 - 1) / (4 - 1) = 0.19718.
    (
      RopeScaling("llama3", 8.0, original=100),
      0,
      [1, 0.1 * ((1 - 0.197183) / 8 + 0.197183)],
    ),
    (RopeScaling("llama3", 8.0, original=50), 0, [1, 0.1 / 8]),
    (
      RopeScaling("llama3", 8.0, original=100, low_freq_factor=2.0),
      0,
      [1, 0.1 / 8],
    ),
    (
      RopeScaling("llama3", 8.0, original=300, high_freq_factor=4.0),
      0,
      [1, 0.1],
    ),
  ],
)
def test_frequencies_of_a_scaling(scaling, length, expected):
  actual, attention_factor = rope.frequencies(4, 100.0, scaling, length)
  assert actual.dtype == np.float32
  assert attention_factor == 1.0
  np.testing.assert_allclose(actual, expected, rtol=1e-5)


def test_yarn_divides_the_slow_pairs_along_a_ramp():
  """Pair 0.697 turns 32 times in 1000 positions, pair 2.202 once."""
  unscaled = np.array([1, 0.1, 0.01, 0.001])
  scaling = RopeScaling("yarn", 4.0, original=1000)
  actual = frequencies(scaling, dim=8, theta=1e4)
  # The ends are rounded to 0 and 3; a pair keeps 1 - 0.75 of the ramp.
  ramp = np.array([0, 1 / 3, 2 / 3, 1])
  np.testing.assert_allclose(actual, unscaled * (1 - 0.75 * ramp), rtol=1e-5)
  scaling = RopeScaling("yarn", 4.0, original=1000, truncate=False)
  actual = frequencies(scaling, dim=8, theta=1e4)
  low, high = 0.6966700, 2.2018201  # 8 ln(1000 / 2 pi turns) / (2 ln 10^4)
  ramp = np.array([0, (1 - low) / (high - low), (2 - low) / (high - low), 1])
  np.testing.assert_allclose(actual, unscaled * (1 - 0.75 * ramp), rtol=1e-5)
  # Both ends beyond the first pair, where all pairs are divided.
  scaling = RopeScaling("yarn", 4.0, original=6)
  actual = frequencies(scaling, dim=8, theta=1e4)
  np.testing.assert_allclose(actual, unscaled / [1, 4, 4, 4], rtol=1e-5)


def test_longrope_is_long_beyond_the_original_length():
  scaling = RopeScaling(
    "longrope",
    original=8,
    short_factors=(1, 2),
    long_factors=(4, 5),
    attention_factor=1.5,
  )
  for length, expected in ((7, [1, 0.05]), (8, [1, 0.05]), (9, [0.25, 0.02])):
    actual, factor = rope.frequencies(4, 100.0, scaling, length)
    np.testing.assert_allclose(actual, expected, rtol=1e-6)
    assert factor == 1.5


@pytest.mark.parametrize(
  ("arguments", "expected"),
  [
    ((4.0, 0.0, 0.0), 1 + 0.1 * np.log(4)),
    ((1.5, 0.0, 0.0), 1 + 0.1 * np.log(1.5)),
    ((1.0, 0.0, 0.0), 1.0),
    ((0.5, 0.0, 0.0), 1.0),
    ((4.0, 0.5, 2.0), (1 + 0.05 * np.log(4)) / (1 + 0.2 * np.log(4))),
    # One of the two alone has no effect.
    ((4.0, 0.5, 0.0), 1 + 0.1 * np.log(4)),
    ((4.0, 0.0, 2.0), 1 + 0.1 * np.log(4)),
  ],
)
def test_attention_factor_of_yarn(arguments, expected):
  assert rope.yarn_attention_factor(*arguments) == pytest.approx(expected)


@pytest.mark.parametrize(
  ("factor", "original", "expected"),
  [
    (8.0, 4, np.sqrt(1 + 1.5)),
    (np.sqrt(2), 4, np.sqrt(1 + 0.25)),  # sqrt(2) = 4^(1/4)
    (1.0, 4, 1.0),
    (0.5, 4, 1.0),
  ],
)
def test_attention_factor_of_longrope(factor, original, expected):
  actual = rope.longrope_attention_factor(factor, original)
  assert actual == pytest.approx(expected)


@pytest.mark.parametrize(
  ("settings", "message"),
  [
    ({"kind": "longrop"}, "rope scaling 'longrop'; did you mean 'longrope'"),
    ({"kind": "yarn"}, "original = 0 of yarn"),
    ({"kind": "linear", "factor": 0.0}, "factor = 0.0 of linear"),
    ({"kind": "linear", "factor": float("inf")}, "factor = inf"),
    (
      {"kind": "llama3", "original": 1, "high_freq_factor": 1.0},
      "high_freq_factor = 1.0 must be above low_freq_factor = 1.0",
    ),
  ],
)
def test_a_scaling_that_has_no_meaning_is_refused(settings, message):
  with pytest.raises(ValueError, match=message):
    RopeScaling(**settings)


def test_the_smallest_values_that_are_allowed():
  assert RopeScaling("yarn", original=1).original == 1
  assert RopeScaling("linear", factor=1e-3).factor == 1e-3
