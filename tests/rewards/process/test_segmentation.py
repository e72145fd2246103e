"""Tests of `rewards.process.segmentation`."""

import jax.numpy as jnp
import numpy as np
import pytest

from rewards.process import segmentation


@pytest.mark.parametrize(
  ("steps", "last"), [(None, 3), (4, 3), (3, 2), (2, 1), (1, 0)]
)
def test_steps_of_two_prompts(steps, last):
  """The tokens 7 and 8 end a step; later steps than `steps` are merged."""
  completions = jnp.array(
    [
      [[5, 7, 8, 5, 7, 5], [5, 5, 5, 7, 7, 7]],
      [[7, 5, 5, 8, 5, 5], [7, 7, 7, 7, 7, 7]],
    ]
  )
  lengths = jnp.array([[6, 3], [5, 0]])
  ids = segmentation.segment_steps(completions, lengths, (7, 8), steps)
  unlimited = np.array(
    [
      [[0, 0, 1, 2, 2, 3], [0, 0, 0, -1, -1, -1]],
      [[0, 1, 1, 1, 2, -1], [-1] * 6],
    ]
  )
  np.testing.assert_array_equal(ids, np.minimum(unlimited, last))
  mask = segmentation.step_mask(ids, 5)
  count = np.minimum([[4, 1], [3, 0]], last + 1)
  np.testing.assert_array_equal(mask, np.arange(5) < count[..., None])


def test_fewer_than_one_step_is_refused():
  with pytest.raises(ValueError, match="steps = 0 must be at least 1"):
    segmentation.segment_steps(jnp.array([5]), jnp.array(1), (7,), 0)
