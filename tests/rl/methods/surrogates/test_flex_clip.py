"""Worked example of flexible entropy control."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.surrogates import flex_clip

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


@pytest.mark.parametrize(
  ("entropy", "phase", "start", "target"),
  [
    # H = H_0 in the first step does not exceed the limit, which is H_0.
    (1.0, 1.0, 1.0, 1),
    (1.01, 1.0, 1.0, 0),
    # H = 0.2 H_0 reaches the lower limit.
    (1.0, 0.0, 5.0, 1),
    (1.01, 0.0, 5.0, 0),
    # H_0 may be less than a nat.
    (0.3, 1.0, 0.25, 0),
    (0.25, 1.0, 0.3, 1),
    (0.25, 0.0, 0.3, 0),
  ],
)
def test_limits_of_the_entropy(entropy, phase, start, target):
  rollout = worked_example.rollout(
    [0, 0], extras={"old/entropy": np.full((1, 2, 1), entropy, np.float32)}
  )
  state = {"start": jnp.float32(start), "phase": jnp.float32(phase)}
  t = flex_clip.entropy_phase(steps=10)
  actual, state = jax.jit(t.apply)(None, rollout, state)
  assert actual == state["phase"] == target
  assert state["start"] == np.float32(start)
