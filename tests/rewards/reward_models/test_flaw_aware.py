"""Tests of `rewards.reward_models.flaw_aware`."""

import itertools

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.reward_models import flaw_aware
from rl import advantages

flaw_aware = compiled.functions(flaw_aware)


def test_a_flaw_costs_what_it_weighs():
  correct = jnp.array([1, 1, 0, 0, -1])
  flawed = jnp.array([0, 1, 0, 1, 1])
  result = flaw_aware.flaw_aware_scores(correct, flawed)
  np.testing.assert_array_equal(result, [1, 0, -1, -1, -1])
  result = flaw_aware.flaw_aware_scores(correct, flawed, weight=0.5)
  np.testing.assert_array_equal(result, [1, 0.5, -1, -1, -1])
  with pytest.raises(ValueError, match="nearest valid value is 2"):
    flaw_aware.flaw_aware_scores(correct, flawed, weight=3.0)


def test_without_flaws_it_is_the_signed_verdict():
  correct = jnp.array([1, 0, 1, 0])
  for flawed in (jnp.zeros(4), jnp.full(4, jnp.nan)):  # none, or no judge
    result = flaw_aware.flaw_aware_scores(correct, flawed)
    np.testing.assert_array_equal(result, 2 * correct - 1)
    np.testing.assert_allclose(
      advantages.group_normalize(result),
      advantages.group_normalize(correct.astype(jnp.float32)),
      atol=2e-6,
    )


@pytest.mark.parametrize("weight", [0.0, 1.0, 1.9])
def test_no_flaw_makes_a_wrong_answer_beat_a_right_one(weight):
  """Empty, stuffed or long: what is wrong has -1 whatever the judge says."""
  flawed = jnp.array([0.0, 0.5, 1.0, jnp.nan])
  right = flaw_aware.flaw_aware_scores(jnp.ones(4), flawed, weight)
  wrong = flaw_aware.flaw_aware_scores(
    jnp.array([0, 0, -1, -1]), flawed, weight
  )
  np.testing.assert_array_equal(wrong, -1)
  assert right.min() > -1


def test_a_flawed_answer_turns_bad_once_clean_ones_outnumber_wrong_ones():
  """The card: its advantage is positive while clean < wrong, 0 at equality."""

  @jax.jit
  def centered_scores(correct, marks):
    return advantages.center(flaw_aware.flaw_aware_scores(correct, marks))

  for clean, flawed, wrong in itertools.product(range(5), (1, 2), range(5)):
    correct = np.array([1] * (clean + flawed) + [0] * wrong)
    marks = np.array([0] * clean + [1] * flawed + [0] * wrong)
    advantage = centered_scores(correct, marks)[clean]
    assert np.sign(np.round(float(advantage), 6)) == np.sign(wrong - clean)


@pytest.mark.worked_example(
  "reward:flaw_aware", "function:flaw_aware.flaw_aware_scores"
)
def test_clean_flawed_and_wrong_answers():
  """1 - flaw for right answers, else -1; a failed judge counts as no flaw."""
  rollout = worked_example.rollout(
    np.full(6, 9),
    correct=[1, 1, 1, 0, 1, -1],
    components={"judge": [0, 1, 0.25, 0.5, np.nan, 0.75]},
  )
  result = worked_example.reward("flaw_aware", rollout, flawed="judge")
  np.testing.assert_array_equal(result, [[1, 0, 0.75, -1, 1, -1]])
  result = worked_example.reward(
    "flaw_aware", rollout, flawed="judge", weight=2.0
  )
  np.testing.assert_array_equal(result, [[1, -1, 0.5, -1, 1, -1]])
