"""Tests of `rewards.reward_models.stratified`."""

import jax.numpy as jnp
import numpy as np

from rewards.reward_models import stratified
from rl import advantages

OK = jnp.array([1, 1, 0, 0])
MODEL = jnp.array([2.0, 1.0, 0.5, -1.0])


def test_strata_have_the_paper_s_numbers():
  result = stratified.stratified_scores(OK, MODEL, 0.1, 0.1)
  np.testing.assert_allclose(result, [1.1, 0.9, 0.1, -0.1], atol=1e-5)
  weight = stratified.prompt_weights(MODEL, 1.0)
  np.testing.assert_allclose(jnp.std(MODEL), 1.0825, atol=1e-4)
  np.testing.assert_allclose(weight, 2.0155, atol=1e-3)


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


def test_a_weight_per_prompt_cancels_in_a_z_score():
  """Why `prompt_weights` belongs on advantages."""
  scores = stratified.stratified_scores(OK, MODEL)
  np.testing.assert_allclose(
    advantages.group_normalize(3.0 * scores),
    advantages.group_normalize(scores),
    atol=1e-4,
  )


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
