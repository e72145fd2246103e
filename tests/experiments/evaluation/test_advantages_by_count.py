"""Advantages by the number of right samples, of methods with a closed form."""

import dataclasses

import numpy as np
import pytest

from experiments.evaluation import advantages_by_count
from rl import methods

NAN = float("nan")


def test_a_score_less_the_mean_of_the_group_is_the_share_of_the_others():
  """Dr. GRPO: 1 - c / S for a right sample, and -c / S for a wrong one."""
  result = advantages_by_count.compute(methods.get("dr_grpo"), 3)
  np.testing.assert_allclose(result.right, [NAN, 2 / 3, 1 / 3, 0], atol=1e-6)
  np.testing.assert_allclose(result.wrong, [0, -1 / 3, -2 / 3, NAN], atol=1e-6)
  assert result.note == "Advantages of dr_grpo, where scores are verdicts"
  with pytest.raises(dataclasses.FrozenInstanceError):
    result.note = ""


def test_a_group_that_a_filter_removes_counts_as_0():
  """DAPO leaves out groups of one verdict; others are standardized."""
  result = advantages_by_count.compute(methods.get("dapo"), 2)
  assert result.right[2] == result.wrong[0] == 0
  np.testing.assert_allclose(result.right[1], -result.wrong[1], rtol=1e-5)
  assert result.right[1] > 0.5


def test_means_are_of_the_masked_samples_of_each_group():
  values = np.array([[1.0, 2.0, 6.0], [5.0, NAN, 7.0], [1.0, 1.0, 1.0]])
  mask = np.array([[True, False, True], [True, False, False], [False] * 3])
  with np.errstate(all="raise"):
    means = advantages_by_count._masked_mean(values, mask)
  np.testing.assert_array_equal(means, [3.5, 5, NAN])


def test_the_groups_have_the_counts_of_right_samples():
  """Equal tokens with one log-probability, so that verdicts alone differ."""
  rollout = advantages_by_count._make_groups(np.array([0, 2, 3]), 3)
  verdicts = [[0, 0, 0], [1, 1, 0], [1, 1, 1]]
  np.testing.assert_array_equal(rollout.scores, verdicts)
  np.testing.assert_array_equal(rollout.correct, verdicts)
  T = rollout.tokens.completions.shape[2]
  assert rollout.tokens.prompts.shape == (3, 1)
  assert rollout.tokens.prompt_mask.shape == (3, 1)
  assert rollout.tokens.completions.shape == (3, 3, T)
  np.testing.assert_array_equal(rollout.tokens.lengths, np.full((3, 3), T))
  for mask in (rollout.tokens.mask, rollout.sample_mask, rollout.finished):
    assert np.all(mask)
  assert rollout.behavior_log_probs.shape == (3, 3, T)
  assert len(set(np.ravel(rollout.behavior_log_probs))) == 1
  assert np.ravel(rollout.behavior_log_probs)[0] < 0
  np.testing.assert_array_equal(rollout.prompt_ids, [0, 1, 2])
  assert rollout.step == 0
