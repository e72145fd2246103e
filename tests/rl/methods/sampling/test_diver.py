"""Worked example of DIVER."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, worked_example

from rl import methods, scoring


@pytest.mark.worked_example("method:diver")
def test_bonus_of_different_right_samples():
  """R + min(d, 0.09), or 0.42 for steps, in the first 100 training steps."""
  exists = np.array([[True, True, True, True, False]])
  for kind, cap in (("bleu", 0.09), ("steps", 0.42)):
    rollout = worked_example.rollout(
      [1, 1, 0.2, 0, 9],
      correct=[1, 1, 0, -1, 1],
      sample_mask=exists,
      step=jnp.int32(99),
      extras={f"host/diversity({kind})": [[0.05, 0.5, 0.4, 0.3, np.nan]]},
    )
    m = methods.get("diver", kind=kind)
    rewards = np.array([1.05, 1 + cap, 0.2, 0])
    wanted = (rewards - rewards.mean()) / rewards.std(ddof=1)
    actual = worked_example.advantages(m, rollout)
    np.testing.assert_allclose(actual, [[*wanted, 0]], rtol=1e-5)
    rewards = np.array([1, 1, 0.2, 0])
    wanted = (rewards - rewards.mean()) / rewards.std(ddof=1)
    rollout = rollout.replace(step=jnp.int32(100))
    actual = worked_example.advantages(m, rollout)
    np.testing.assert_allclose(actual, [[*wanted, 0]], rtol=1e-5)


@pytest.mark.worked_example("method:diver")
def test_diversity_of_tokens_and_clip():
  """A right sample 0 0, and wrong ones 1 1 1, 0 1 and 0: d > 0.09.

  BLEU is 0 where no bigram is shared; that of 0 against 0 0 or 0 1 is exp(1 -
  2/1), and 0 in the other direction.
  """
  rollout = clipped_group.group()
  ids = jnp.array([[[0, 0, 7], [1, 1, 1], [0, 1, 7], [0, 7, 7], [0, 0, 7]]])
  tokens = rollout.tokens.replace(completions=ids)
  m = methods.get("diver")
  scored = scoring.compute_on_host(
    m.signal_needs, rollout.replace(tokens=tokens)
  )
  e = 1 / np.e / 2
  d = np.asarray(scored.extras["host/diversity(bleu)"])[0]
  np.testing.assert_allclose(
    d, [1 - e / 3, 1, 1 - e / 3, 1 - 2 * e / 3, 0], rtol=1e-5
  )
  # With the bonus the mean of the scores changes, but not their z-scores.
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.TOKEN_MEAN, 0.8, 1.28
  )
  scored = scored.replace(tokens=rollout.tokens)
  clipped_group.check_loss(m, scored, expected)
