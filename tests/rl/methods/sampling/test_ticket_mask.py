"""Worked example of the random mask of parameters."""

import jax.numpy as jnp
import numpy as np
import optax
import pytest
from helpers import clipped_group

from rl import methods


@pytest.mark.worked_example("method:ticket_mask")
def test_updates_of_the_trained_share():
  """0.01 of 40000 parameters, within four standard deviations of 400."""
  params = {"a": jnp.ones((100, 200)), "b": jnp.ones((100, 200))}
  tx = methods.get("ticket_mask").optimizer(optax.sgd(0.25))
  gradient = {"a": jnp.full((100, 200), 2.0), "b": jnp.full((100, 200), 4.0)}
  updates, _ = tx.update(gradient, tx.init(params), params)
  trained = {name: np.asarray(x != 0) for name, x in updates.items()}
  number = trained["a"].sum() + trained["b"].sum()
  assert abs(number - 400) < 4 * np.sqrt(400 * 0.99)
  assert (trained["a"] != trained["b"]).any()
  # Inside of the mask the update is that of SGD.
  np.testing.assert_array_equal(updates["a"], -0.5 * trained["a"])
  np.testing.assert_array_equal(updates["b"], -1.0 * trained["b"])
  # Weight decay, which reads the parameters, changes no other parameter.
  decay = optax.chain(optax.add_decayed_weights(0.1), optax.sgd(0.25))
  tx = methods.get("ticket_mask").optimizer(decay)
  updates, _ = tx.update(gradient, tx.init(params), params)
  np.testing.assert_allclose(updates["a"], -0.525 * trained["a"], rtol=1e-6)


@pytest.mark.worked_example("method:ticket_mask")
def test_the_loss_is_that_of_grpo_without_a_kl():
  """PPO-clip of z-scores, a mean over tokens and then over samples."""
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.SAMPLE_MEAN, 0.8, 1.2
  )
  clipped_group.check_loss(
    methods.get("ticket_mask"), clipped_group.group(), expected
  )


@pytest.mark.parametrize("keep", [0.0, 1.001])
def test_a_share_of_none_or_more_than_all_is_refused(keep):
  with pytest.raises(ValueError, match="must be a share of the parameters"):
    methods.get("ticket_mask", keep=keep)
