"""Tests of the penalty on long samples."""

import numpy as np
import pytest
from helpers import worked_example

from rl.methods.shaping import overlong


@pytest.mark.parametrize(
  ("cache", "penalties"),
  [
    # Of 6, 7, 8, 9 and 10 tokens; the largest length is 8.
    (2, [0, 0.5, 1, 1, 1]),
    (1, [0, 0, 1, 1, 1]),
    (0, [0, 0, 0, 1, 1]),
  ],
)
def test_the_penalty_grows_over_the_last_tokens(cache, penalties):
  rollout = worked_example.rollout([3.0] * 5, [6, 7, 8, 9, 10])
  t = overlong.soft_overlong(max_length=8, cache=cache)
  actual, _ = t.apply(rollout.scores, rollout, ())
  np.testing.assert_allclose(actual, [3 - np.array(penalties)])
