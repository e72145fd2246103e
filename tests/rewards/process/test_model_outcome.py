"""A score of a sample from the step scores of a fitted model."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import process_example

import rewards
from rewards import base


def rollout_with(scores, exists):
  """Returns a rollout whose first samples have step scores of the model."""
  rollout = process_example.rollout()
  shape = rollout.step_mask.shape
  need = base.model_scores("verifier")
  mask = jnp.zeros(shape, bool).at[0, : len(scores)].set(exists)
  values = jnp.full(shape, 9.0).at[0, : len(scores)].set(jnp.array(scores))
  return rollout.replace(
    step_mask=mask,
    sample_mask=jnp.ones(shape[:2], bool),
    extras=rollout.extras.update({str(need): values}),
  )


# Probabilities .9, .2, .7; .9, .2; and no step.
SCORES = np.array([[0.8, -0.6, 0.4], [0.8, -0.6, 9.0], [9.0, 9.0, 9.0]])
EXISTS = np.array([[1, 1, 1], [1, 1, 0], [0, 0, 0]], bool)


@pytest.mark.worked_example(
  "reward:model_outcome", "function:model_outcome.model_outcome"
)
@pytest.mark.parametrize(
  ("rule", "three", "two"),
  [
    ("mean", 0.6, 0.55),
    ("product", 0.126, 0.18),
    ("worst", 0.2, 0.2),
    ("best", 0.9, 0.9),
    ("sum", 1.8, 1.1),
    ("last", 0.7, 0.2),
  ],
)
def test_aggregates_of_probabilities(rule, three, two):
  rollout = rollout_with(SCORES, EXISTS)
  reward = rewards.get("model_outcome", model="verifier", rule=rule)
  assert reward.needs == {base.model_scores("verifier")}
  value, _ = reward.apply(None, rollout, reward.init())
  np.testing.assert_allclose(value[0, :3], [three, two, 0], atol=1e-6)
  if rule == "mean":
    default = rewards.get("model_outcome", model="verifier")
    np.testing.assert_array_equal(default.apply(None, rollout, ())[0], value)


def test_an_unknown_rule_is_refused():
  reward = rewards.get("model_outcome", model="verifier", rule="wurst")
  with pytest.raises(ValueError, match="did you mean 'worst'"):
    reward.apply(None, rollout_with(SCORES, EXISTS), ())
