"""Tests of `rewards.reward_models.stratified`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.reward_models import stratified

stratified = compiled.functions(stratified)

OK = jnp.array([1, 1, 0, 0])
MODEL = jnp.array([2.0, 1.0, 0.5, -1.0])


def test_strata_have_the_paper_s_numbers():
  result = stratified.stratified_scores(OK, MODEL, 0.1, 0.1)
  np.testing.assert_allclose(result, [1.1, 0.9, 0.1, -0.1], atol=1e-5)
  result = stratified.stratified_scores(OK, MODEL)
  np.testing.assert_allclose(result, [1.05, 0.95, 0.05, -0.05], atol=1e-5)


def test_strata_do_not_overlap_and_do_not_see_the_scale():
  rng = np.random.default_rng(1)
  model = jnp.asarray(rng.normal(size=(200, 8)), jnp.float32)
  correct = jnp.asarray(rng.integers(0, 2, (200, 8)))
  result = stratified.stratified_scores(correct, model, 0.4, 0.5)
  right = jnp.where(correct == 1, result, jnp.inf).min(-1)
  wrong = jnp.where(correct == 0, result, -jnp.inf).max(-1)
  assert (right > wrong).all()
  moved = stratified.stratified_scores(correct, 5 * model - 3, 0.4, 0.5)
  np.testing.assert_allclose(moved, result, atol=2e-4)
  reference = stratified.stratified_scores(correct, model, 0.0, 0.0)
  np.testing.assert_array_equal(reference, correct)
  alone = stratified.stratified_scores(
    jnp.array([1, 0]), jnp.array([3.0, 4.0]), 0.1, 0.1
  )
  np.testing.assert_allclose(alone, [0.9, -0.1], rtol=1e-6)


def test_groups_of_one_kind_compute_no_nan():
  """Every group has an empty stratum, without a minimum and a maximum."""
  correct = jnp.array([[1, 1, 1], [0, 0, 0]])
  scores = jnp.array([[1.0, 3, 2], [5, 4, 6]])
  with jax.debug_nans(True):
    result = stratified.stratified_scores(correct, scores, 0.1, 0.3)
  expected = [[0.7, 1.3, 1], [0, -0.1, 0.1]]
  np.testing.assert_allclose(result, expected, atol=1e-5)


def test_novelty_never_makes_a_wrong_answer_beat_a_right_one():
  rng = np.random.default_rng(7)
  correct = jnp.asarray(rng.integers(0, 2, (50, 8)))
  bonus = jnp.asarray(rng.exponential(size=(50, 8)) * 100, jnp.float32)
  result = np.asarray(stratified.stratified_scores(correct, bonus))
  assert result[correct == 1].min() > result[correct == 0].max()
  for row, right, new in zip(result, correct, bonus, strict=True):
    for kind in (0, 1):
      mine = np.asarray(right == kind)
      order = np.argsort(np.asarray(new)[mine])
      assert (np.diff(row[mine][order]) >= 0).all()


@pytest.mark.worked_example(
  "reward:stratified", "function:stratified.stratified_scores"
)
def test_bands_of_right_and_wrong_answers():
  """The paper's alpha = beta = 0.05; a sample that does not exist scores 0."""
  rollout = worked_example.rollout(
    np.full(7, 9),
    correct=[1, 0, 1, 0, 1, -1, 1],
    components={"judge": [3, 7, 1, -1, 2, 1, np.nan]},
    sample_mask=jnp.arange(7)[None] < 6,
  )
  # u is (m - 1) / 2 for right answers, and (m + 1) / 8 for wrong ones.
  target = [0.95 + 0.1, -0.05 + 0.1, 0.95, -0.05, 0.95 + 0.05]
  target += [-0.05 + 0.1 * 0.25, 0]
  result = worked_example.reward("stratified", rollout, model="judge")
  np.testing.assert_allclose(result[0], target, atol=1e-6)
  result = worked_example.reward(
    "stratified", rollout, model="judge", alpha=0.1, beta=0.3
  )
  target = [1.3, 0.1, 0.7, -0.1, 1.0, -0.1 + 0.2 * 0.25, 0]
  np.testing.assert_allclose(result[0], target, atol=1e-6)
  # u = 1e-6 / (1e-6 + eps) = 1 / 2, with the released code's eps.
  close = stratified.stratified_scores(
    jnp.ones(2, int), jnp.array([0, 1e-6]), 0.1, 0.3
  )
  np.testing.assert_allclose(close, [0.7, 1.0], atol=1e-5)
