"""Countdown scored by the distance of the value to the target, by hand."""

import jax
import numpy as np
import pytest

from experiments import tasks
from experiments.tasks.task import Problems


def test_a_score_falls_with_the_distance_and_the_verdict_is_that_of_countdown():
  """The target is 20, and the values are 20, 18, -5 and none."""
  texts = ["2 + 3 * 4", "4 + 2 * 3", "2 - 3 - 4", "2 + 2 * 4"]
  task = tasks.get("closeness", count=3)
  ids = np.array([[task.completion_ids(text) for text in texts]])
  facts = {"numbers": np.array([[2, 3, 4]]), "target": np.array([20])}
  problems = Problems(None, None, np.zeros(1, np.int32), facts)
  lengths = np.full((1, 4), 6)
  for scale in (3.0, 0.5):
    task = tasks.get("closeness", count=3, scale=scale)
    judged = jax.jit(task.score)(problems, ids, lengths, lengths > 0)
    expected = [[1, np.exp(-2 / scale), np.exp(-25 / scale), 0]]
    np.testing.assert_allclose(judged.scores, expected, rtol=1e-5)
    np.testing.assert_array_equal(judged.correct, [[1, 0, 0, 0]])
    np.testing.assert_array_equal(judged.answer_ids, [[40, 36, 11, -1]])
    np.testing.assert_array_equal(judged.components["legal"], [[1, 1, 1, 0]])
    np.testing.assert_array_equal(judged.components["exact"], [[1, 0, 0, 0]])


def test_the_scale_is_3_by_default_and_must_be_positive():
  assert tasks.get("closeness").name == "closeness(count=4, scale=3)"
  for scale in (0.0, -1.0, float("nan")):
    with pytest.raises(ValueError, match="must be above 0"):
      tasks.get("closeness", scale=scale)
