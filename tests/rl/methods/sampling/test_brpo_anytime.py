"""Worked example of anytime reasoning (BRPO)."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods
from rl.methods.sampling import brpo_anytime


@pytest.mark.worked_example("method:brpo_anytime")
def test_advantages_of_budgets_and_clip():
  """Scores of three budgets of two samples: 0.3, 0.9, 0.6, and 0, 1, 0.5."""
  steps = [[1, 1, 1], [1, 1, 1], [1, 1, 1], [1, 1, 1]]
  rollout = worked_example.rollout(
    [0, 0, 9, 9],
    steps=steps,
    step_scores=[[0.3, 0.9, 0.6], [0, 1, 0.5], [7, 8, 9], [1, 2, 3]],
    sample_mask=np.array([[True, True, False, False]]),
  )
  # Returns from budget s on: sum of the scores j >= s, divided by K = 3.
  returns = np.array([[0.6, 0.5, 0.2], [0.5, 0.5, 0.5 / 3]])
  # V1: (3 - s) / 3 times the mean of the scores j < s with weights 1, 2.
  v1 = np.array([[0, 2 / 3 * 0.3, (0.3 + 1.8) / 9], [0, 0, (0 + 2) / 9]])
  v2 = np.array([0.55, 0.5, (0.2 + 0.5 / 3) / 2])  # the mean over the group
  s = np.arange(3)
  a = returns - (s * v1 + (3 - s) * v2) / 3
  m = methods.get("brpo_anytime")["policy"]
  actual = worked_example.advantages(m, rollout)[0]
  np.testing.assert_allclose(actual, [*a, [0] * 3, [0] * 3], atol=1e-6)
  # PPO-clip, a mean over the tokens of each sample, then over samples.
  old = np.full((1, 4, 3), np.log(0.2))
  rho = np.ones((4, 3))
  rho[:2] = [[1.3, 1.3, 0.7], [0.75, 0.7, 1.4]]
  loss, slopes = worked_example.loss(m, rollout, old + np.log(rho), old)
  rho = rho[:2]
  values = np.minimum(rho * a, np.clip(rho, 0.8, 1.2) * a)
  np.testing.assert_allclose(loss, -np.sum(values) / 6, rtol=1e-5, atol=1e-6)
  is_clipped = ((a > 0) & (rho > 1.2)) | ((a < 0) & (rho < 0.8))
  np.testing.assert_allclose(
    slopes[0, :2], np.where(is_clipped, 0, -rho * a) / 6, atol=1e-6
  )
  assert not slopes[0, 2:].any()


@pytest.mark.worked_example("method:brpo_anytime")
def test_reinforce_of_the_completions():
  """The score minus 1/4, without a division, a ratio and a clip."""
  m = methods.get("brpo_anytime")["summary"]
  a = np.array([0.75, -0.25, -0.25, -0.25, 0])[:, None]
  weights = clipped_group.SAMPLE_MEAN * a
  log_probs = np.log(clipped_group.OLD * clipped_group.RATIOS)
  expected = -np.sum(weights * log_probs), -weights
  clipped_group.check_loss(m, clipped_group.group(), expected)


def test_a_sample_without_a_budget_and_a_group_of_one():
  """A sample for which no budget could be scored has scores of 0."""
  rollout = worked_example.rollout(np.zeros((2, 2)))
  exists = jnp.array([[True, True], [True, False]])
  scored = jnp.array([[[0, 0], [1, 1]], [[1, 1], [0, 0]]], bool)
  rollout = rollout.replace(sample_mask=exists, step_mask=scored)
  scores = jnp.where(scored, jnp.array([0.4, 0.8]), jnp.nan)
  actual, _ = brpo_anytime.budget_relative().apply(scores, rollout, ())
  # Returns are 0, 0 and 0.6, 0.4, with the means 0.3 and 0.2. V1 is 0 at the
  # first budget, and 0 and 0.4 / 2 at the second.
  target = [[-0.3, -0.2 / 2], [0.6 - 0.3, 0.4 - (0.2 + 0.2) / 2]]
  np.testing.assert_allclose(actual, [target, np.zeros((2, 2))], atol=1e-6)


SCORES = np.array([[0.9, 0.2, 0.7], [0.1, 0.6, 0.3]])
LENGTHS = np.array([[4, 2, 1], [3, 4, 4]])


class Batch:
  """Two prompts with three samples of up to four tokens.

  The last sample does not exist. The completions of the first sample of the
  second prompt cannot be scored, and of the second one only the first can.
  """

  samples, params = 3, "policy"

  def __init__(self):
    self.parameter_sets = {"summary": "summary"}
    self.cuts = []

  def sample(self, params, count):
    assert (params, count) == ("policy", 3)
    exists = np.array([[True, True, True], [True, True, False]])
    return worked_example.rollout(SCORES, LENGTHS, sample_mask=exists)

  def extend(self, params, rollout, prefix_lengths, count, active):
    np.testing.assert_array_equal(rollout.tokens.lengths, LENGTHS)
    self.cuts.append((params, count, prefix_lengths.tolist(), active.tolist()))
    # Of the sample in row 0, 1, ...: 0 + c, 10 + c, ...; c counts the calls.
    scores = 10.0 * np.arange(6)[:, None] + len(self.cuts) + np.zeros(count)
    scores[:, 0] += 1  # the mean of the completions is 1 / count above
    exists = np.ones((6, count), bool)
    exists[3], exists[4, 1:] = False, False
    drawn = jnp.full((6, count), len(self.cuts))
    return worked_example.rollout(
      scores, sample_mask=exists, extras={"sampler/drawn": drawn}
    )


@pytest.mark.worked_example("method:brpo_anytime")
def test_the_scores_of_cuts_after_each_budget():
  """By default cuts are after 1, 2 and 3 of 4 tokens, with 4 completions."""
  batch = Batch()
  rollouts = methods.get("brpo_anytime")["policy"].sampler.run(batch, ())
  policy, summary = rollouts["policy"], rollouts["summary"]
  is_cut = LENGTHS[..., None] > np.array([1, 2, 3])
  for k, (params, count, prefixes, active) in enumerate(batch.cuts):
    assert (params, count) == ("summary", 4)
    np.testing.assert_array_equal(prefixes, np.minimum(LENGTHS, k + 1))
    np.testing.assert_array_equal(active, is_cut[..., k])
  # A mean of completions, 0 if there is none, and otherwise the own score.
  target = [
    [[1.25, 2.25, 3.25, 0.9], [11.25, 0.2, 0.2, 0.2], [0.7] * 4],
    [[0, 0, 0.1, 0.1], [42, 43, 44, 0.6], [51.25, 52.25, 53.25, 0.3]],
  ]
  np.testing.assert_allclose(policy.step_scores, target, rtol=1e-6)
  exists = np.ones((2, 3, 4), bool)
  exists[1, 0, :2] = False
  np.testing.assert_array_equal(policy.step_mask, exists)
  ids = np.where(np.arange(4) < LENGTHS[..., None], np.arange(4), -1)
  np.testing.assert_array_equal(policy.step_ids, ids)
  # 4 + 2 + 1 + 3 + 4 tokens of samples, and 24 times 1, 2 and 3.
  assert policy.extras["sampler/tokens"] == 14 + 24 * 6
  assert summary.extras["sampler/tokens"] == 0
  # One row for each sample and cut; of a sample that is not cut none exists.
  number = np.where(is_cut, 4, 0)
  number[1, 0], number[1, 1] = 0, 1
  np.testing.assert_array_equal(
    summary.sample_mask.sum(-1), number.reshape(6, 3).T.ravel()
  )
  np.testing.assert_array_equal(summary.scores[::6, 1], [1, 2, 3])


def test_the_smallest_cut_and_no_cut():
  """A cut leaves at least one token; with the budget 1 there is none."""
  batch = Batch()
  sampler = methods.get("brpo_anytime", budgets=(0.1, 1.0))["policy"].sampler
  rollouts = sampler.run(batch, ())
  assert [cut[2] for cut in batch.cuts] == [[[1] * 3] * 2]
  assert rollouts["summary"].scores.shape == (6, 4)
  ids = np.minimum(np.arange(4), 1)
  np.testing.assert_array_equal(rollouts["policy"].step_ids[0, 0], ids)
  batch = Batch()
  sampler = methods.get("brpo_anytime", budgets=(1.0,))["policy"].sampler
  rollouts = sampler.run(batch, ())
  np.testing.assert_allclose(rollouts["policy"].step_scores, SCORES[..., None])
  assert not rollouts["summary"].sample_mask.any()
  assert rollouts["policy"].extras["sampler/tokens"] == 14
  assert not batch.cuts


@pytest.mark.parametrize(
  "budgets",
  [(), (0.5,), (0.5, 2.0), (0.0, 1.0), (0.5, 0.5, 1.0), (0.6, 0.4, 1.0)],
)
def test_budgets_that_do_not_rise_from_above_0_to_1_are_refused(budgets):
  with pytest.raises(ValueError, match="must rise from above 0 to 1"):
    methods.get("brpo_anytime", budgets=budgets)
