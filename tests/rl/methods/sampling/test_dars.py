"""Worked example of DARS."""

import numpy as np
import pytest
from helpers import clipped_group, compiled, worked_example

from rl import methods
from rl.methods.sampling import dars

dars = compiled.functions(dars)


class Batch:
  """Prompts with 0 to 5 right samples among 8, and two with unknown verdicts.

  All verdicts of the seventh prompt are unknown, and the last half of those of
  the eighth, whose first sample alone is right.
  """

  samples, params, further = 70, None, None

  def sample(self, params, count, first=0, active=None):
    if active is not None:
      self.further = active.sum(-1)
    correct = np.arange(count) < np.array([0, 1, 2, 3, 4, 5, 6, 1])[:, None]
    correct = np.where(np.arange(8)[:, None] == 6, -1, correct)
    correct[7, 4:] = -1
    return worked_example.rollout(np.zeros((8, count)), correct=correct)


@pytest.mark.worked_example("method:dars")
@pytest.mark.parametrize(
  ("schedule", "standardized", "further"),
  [
    # With a = 1/16 for no right sample: ceil((4 - 8 m) / m), m = 2 a (1 - a);
    # 27, but no prompt has more than 32 samples.
    ("equal_treatment", False, [24, 11, 3, 1]),
    # ceil((8 - 8 m) / m), m = 2 sqrt(a (1 - a)).
    ("equal_treatment", True, [9, 5, 2, 1]),
    # ceil((2 (1 - a) 4 - 8 m) / m), and no more than 64 samples.
    ("hardness_weighted", False, [56, 24, 8, 3]),
    ("hardness_weighted", True, [23, 14, 6, 3]),
  ],
)
def test_further_samples(schedule, standardized, further):
  """Prompts solved at least half of the time get none.

  The last prompt is solved 1/4 of the time, as the third one.
  """
  batch = Batch()
  m = methods.get("dars", schedule=schedule, standardized=standardized)
  m.sampler.run(batch, ())
  np.testing.assert_array_equal(batch.further, [*further, 0, 0, 0, further[2]])


@pytest.mark.worked_example("method:dars")
def test_the_largest_number_of_samples_of_the_hardness_schedule():
  """A pilot of 16 wants 240 further samples without success; 64 is the most."""
  batch = Batch()
  m = methods.get("dars", schedule="hardness_weighted", pilot=16)
  m.sampler.run(batch, ())
  assert batch.further[0] == 64 - 16


def test_rounding_errors_are_not_rounded_up():
  """2 (1 - a) 5 / m - 5 is 10 if a = 1/10, and m = 2 sqrt(a (1 - a)) = 3/5.

  With a = 18 / 139, 139 / m - 139 is 68.00015, which is rounded up.
  """
  for solved, pilot, schedule, further in (
    (0, 5, "hardness_weighted", 10),
    (18 / 139, 139, "equal_treatment", 69),
  ):
    n = dars.further_samples(np.float32([solved]), pilot, schedule, True)
    np.testing.assert_array_equal(n, [further])


@pytest.mark.worked_example("method:dars")
@pytest.mark.parametrize("standardized", [False, True])
def test_advantages_and_clip(standardized):
  """Scores minus 1/4; divided by sqrt(3)/4 (ddof 0) if standardised."""
  a = np.array([0.75, -0.25, -0.25, -0.25, 0])
  a = a / (3**0.5 / 4) if standardized else a
  expected = clipped_group.objective(a, clipped_group.TOKEN_MEAN, 0.8, 1.2)
  m = methods.get("dars", standardized=standardized)
  clipped_group.check_loss(m, clipped_group.group(), expected)
  # A group of one verdict is not in the loss.
  wrong = clipped_group.group(correct=[[0, 0, 0, 0, 1]])
  clipped_group.check_loss(m, wrong, (0, np.zeros((5, 3))))
