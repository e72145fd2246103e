"""Tests of `rl.advantages`, on groups of unequal sizes by hand."""

import jax.numpy as jnp
import numpy as np
from helpers import compiled

from rl import advantages

advantages = compiled.functions(advantages)

close = np.testing.assert_allclose
NAN = float("nan")
# Groups of four, two and three samples.
SCORES = jnp.array(
  [[1.0, 2.0, 4.0, 9.0], [NAN, 5.0, NAN, 8.0], [0.0, NAN, 3.0, 0.0]]
)
VALID = ~jnp.isnan(SCORES)
CENTERED = np.array([[-3, -2, 0, 5], [0, -1.5, 0, 1.5], [-1, 0, 2, -1]])


def test_a_score_is_compared_with_the_mean_of_its_group():
  close(advantages.center(SCORES, VALID), CENTERED)
  close(advantages.center(SCORES[:1]), CENTERED[:1])


def test_a_score_is_compared_with_the_mean_of_the_other_samples():
  # n / (n - 1) is 4/3, 2 and 3/2.
  factors = np.array([[4 / 3], [2], [3 / 2]])
  close(advantages.leave_one_out(SCORES, VALID), factors * CENTERED, rtol=1e-6)
  # 1 - (2 + 4 + 9) / 3 = -4, and so on.
  close(advantages.leave_one_out(SCORES[0]), [-4, -8 / 3, 0, 20 / 3], rtol=1e-6)


def test_a_z_score_divides_by_the_standard_deviation_plus_eps():
  squares = np.array([[38.0], [4.5], [6.0]])
  n = np.array([[4], [2], [3]])
  for ddof, eps in ((0, 0.0), (1, 0.5)):
    std = np.sqrt(squares / (n - ddof))
    close(
      advantages.group_normalize(SCORES, VALID, ddof, eps),
      CENTERED / (std + eps),
      rtol=1e-6,
    )
  std = np.sqrt(squares / (n - 1))
  by_default = advantages.group_normalize(SCORES, VALID)
  close(by_default, CENTERED / std, rtol=1e-5)
  # The default eps is 1e-6, in units of the score.
  tiny = advantages.group_normalize(jnp.array([0.0, 2e-6]))
  close(tiny, np.array([-1, 1]) / (np.sqrt(2) + 1), rtol=1e-3)


def test_equal_scores_have_no_advantage_without_eps():
  for scores in (jnp.full(3, 0.1), jnp.full(1, 7.0)):
    assert not advantages.group_normalize(scores, None, 1, 0.0).any()
    assert not advantages.leave_one_out(scores).any()
    assert not advantages.center(scores).any()
