"""Step scores of a fitted process reward model as the reward of a step."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import process_example

import rewards
from rewards import base


@pytest.mark.worked_example(
  "reward:model_steps", "function:model_steps.model_steps"
)
@pytest.mark.parametrize(
  ("look_ahead", "three", "two"),
  [
    (0.0, [0.5, -0.25, 0.75], [0.5, -0.25, 0.0]),
    # .5 + .2 (-.25 - .5) = .35, -.25 + .2 (.75 + .25) = -.05; the last step
    # keeps its score.
    (0.2, [0.35, -0.05, 0.75], [0.35, -0.25, 0.0]),
    (1.0, [-0.25, 0.75, 0.75], [-0.25, -0.25, 0.0]),
  ],
)
def test_scores_of_a_model(look_ahead, three, two):
  """A sample of three steps, and one of two."""
  rollout = process_example.rollout()
  mask = jnp.ones(rollout.step_mask.shape, bool).at[0, 1, 2].set(False)
  scores = jnp.broadcast_to(jnp.array([0.5, -0.25, 0.75]), mask.shape)
  need = base.model_scores("verifier")
  rollout = rollout.replace(
    step_mask=mask,
    sample_mask=jnp.ones(mask.shape[:2], bool),
    extras=rollout.extras.update({str(need): scores}),
  )
  reward = rewards.get("model_steps", model="verifier", look_ahead=look_ahead)
  assert reward.needs == {need}
  assert str(need) == "model/verifier"
  value, _ = reward.apply(None, rollout, reward.init())
  np.testing.assert_allclose(value[0, :2], [three, two], atol=1e-6)
  if not look_ahead:  # the default
    with_default = rewards.get("model_steps", model="verifier")
    value, _ = with_default.apply(None, rollout, with_default.init())
    np.testing.assert_allclose(value[0, :2], [three, two], atol=1e-6)
    of_prm = rewards.get("model_steps")
    assert of_prm.needs == {base.model_scores("prm")}
  wrong = rewards.get("model_steps", model="verifier", look_ahead=1.5)
  with pytest.raises(ValueError, match=r"look_ahead = 1\.5 must be"):
    wrong.apply(None, rollout, ())
