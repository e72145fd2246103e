"""Worked example of SimKO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, types
from rl.methods.surrogates import simko


@pytest.mark.worked_example("method:simko")
def test_candidates_and_pressed_tokens():
  """One token of each sample is above the 0.8 quantile of its entropies.

  These are token 1 of the right sample, and token 0 of the first two wrong
  ones, which is the most likely one in the first of them.
  """
  a = clipped_group.Z_SCORES[:, None] * np.ones((5, 3))
  a[1, 0] *= 1.1
  loss, slopes = clipped_group.objective(a, clipped_group.SAMPLE_MEAN, 0.8, 1.2)
  # The gradient of 0.99 log rho + 0.01 / 2 (log p + log(1 - p)), p = 0.35: the
  # vocabulary has two tokens, and d log(1 - p) / d log p = -p / (1 - p).
  slopes[0, 1] *= 0.99 + 0.01 / 2 * (1 - 0.35 / 0.65)
  m = methods.get("simko")
  clipped_group.check_loss(m, clipped_group.group(), (loss, slopes))


@pytest.mark.parametrize("advantage", [-1.0, -0.5, 0.5])
def test_only_wrong_tokens_above_the_quantile_are_pressed(advantage):
  """Entropies 4, 5, 3, 2 and 1 with the median 3.

  The second token is not the most likely one.
  """
  ids = np.tile([0, 1], (1, 1, 5, 1))
  rollout = worked_example.rollout(
    [0],
    [5],
    extras={
      "old/entropy": [[[4.0, 5, 3, 2, 1]]],
      "old/top_ids(2)": ids,
    },
  )
  completions = jnp.array([[[0, 1, 0, 0, 0]]])
  rollout = rollout.replace(
    tokens=rollout.tokens.replace(completions=completions)
  )
  surrogate = simko.simko_clip(
    k=2, alpha=0.01, press=1.1, quantile=0.5, clip=0.2
  )
  policy = types.Named({"log_probs_at(old/top_ids(2))": -1.0 * ids})
  values, _ = surrogate.fn(
    jnp.zeros((1, 1, 5)), jnp.full((1, 1, 5), advantage), policy, rollout
  )
  pressed = np.array([1.1 if advantage < 0 else 1, 1, 1, 1, 1])
  np.testing.assert_allclose(values, [[advantage * pressed]], rtol=1e-6)


def test_three_candidates_by_default():
  needs = map(str, methods.get("simko").loss.terms[0].needs)
  assert "old/top_ids(3)" in needs
