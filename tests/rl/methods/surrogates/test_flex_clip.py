"""Worked example of flexible entropy control."""

import jax.numpy as jnp
import pytest
from helpers import clipped_group

from rl import methods

# The probability of the trained policy at each token.
PI = clipped_group.OLD * clipped_group.RATIOS


@pytest.mark.worked_example("method:flex_clip")
@pytest.mark.parametrize(
  ("schedule", "step", "upper", "lower"),
  [
    # lambda = 1 - 2 t / 1000: the weights of the two lines.
    ("id", 350, 0.3, 0),
    ("id", 850, 0, 0.3),
    ("did", 350, 0.7, 0),
    ("did", 850, 1, 0.3),
  ],
)
def test_bounds_by_probability_and_time(schedule, step, upper, lower):
  """e = weight * line + (1 - weight) * 0.2 above and below 1."""
  high = 1 + upper * (-0.3 * PI + 0.4) + (1 - upper) * 0.2
  low = 1 - lower * (-0.2 * PI + 0.3) - (1 - lower) * 0.2
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, low, high
  )
  rollout = clipped_group.group(step=jnp.int32(step))
  m = methods.get("flex_clip", schedule=schedule)
  clipped_group.check_loss(m, rollout, expected)
