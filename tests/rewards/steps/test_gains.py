"""Tests of `rewards.steps.gains`."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards.steps import gains

gains = compiled.functions(gains)


def test_progress_of_the_best_of_four():
  chance = gains.best_of(jnp.array([0.2, 0.5]), 4)
  np.testing.assert_allclose(chance, [0.5904, 0.9375], rtol=1e-6)
  gain = gains.step_gains(chance[1:], chance[0], jnp.ones(1, bool))
  np.testing.assert_allclose(gain, 0.3471, rtol=1e-5)


def test_the_best_of_k_on_a_chain():
  """1 - (1 - V)^K is the chance that one of K independent tries succeeds."""
  v, k = 0.3, 3
  total = 0.0
  for tries in itertools.product((0, 1), repeat=k):
    weight = np.prod([v if t else 1 - v for t in tries])
    total += weight * max(tries)
  np.testing.assert_allclose(gains.best_of(v, k), total, rtol=1e-6)


def test_own_gains_are_advantages():
  """On a tabular chain E over actions of V(next) - V is 0 in every state."""
  rng = np.random.default_rng(6)
  policy = rng.dirichlet(np.ones(3), size=4)
  after = rng.random((4, 3))
  value = (policy * after).sum(1)
  gain = gains.step_gains(
    jnp.asarray(after, jnp.float32)[..., None],
    jnp.asarray(value, jnp.float32)[:, None],
    jnp.ones((4, 3, 1), bool),
  )[..., 0]
  np.testing.assert_allclose((policy * gain).sum(1), 0, atol=1e-6)


def test_steps_after_the_answer_is_known_gain_nothing():
  after = jnp.array([0.5, 1.0, 1.0, 0.75])
  gain = gains.step_gains(after, 0.25, jnp.ones(4, bool))
  np.testing.assert_allclose(gain, [0.25, 0.5, 0, -0.25], atol=1e-6)


@pytest.mark.worked_example("reward:gains", "function:gains.best_of")
def test_the_binding_has_the_values_of_the_sampler():
  """V of the prompt 0.2, then 0.5, 0.3 and 0.5, 1; three samples."""
  rollout = worked_example.rollout(
    (1, 0, 0),
    steps=((1, 1), (1, 1), (1,)),
    extras={
      "sampler/values": [[[0.5, 0.3], [0.5, 1.0], [0.1, 9.0]]],
      "sampler/prompt_values": [0.2],
    },
  )
  got = worked_example.reward("gains", rollout)
  np.testing.assert_allclose(
    got, [[[0.3, -0.2], [0.3, 0.5], [-0.1, 0.0]]], atol=1e-6
  )
  # PAV's prover takes the best of 4: 1 - (1 - V)^4 of .2, .5, .3, 1 and .1.
  best = {0.2: 0.5904, 0.5: 0.9375, 0.3: 0.7599, 1.0: 1.0, 0.1: 0.3439}
  expected = [
    [best[0.5] - best[0.2], best[0.3] - best[0.5]],
    [best[0.5] - best[0.2], best[1.0] - best[0.5]],
    [best[0.1] - best[0.2], 0.0],
  ]
  prover = worked_example.reward("gains", rollout, tries=4)
  np.testing.assert_allclose(prover[0], expected, atol=1e-4)


@pytest.mark.worked_example("reward:gains", "function:gains.step_gains")
def test_gains_of_two_prompts():
  """V_k - V_{k-1} of 2, 3 and 1 steps, and of a sample that does not exist."""
  mask = np.array([[[1, 1, 0], [1, 1, 1]], [[1, 0, 0], [1, 1, 1]]], bool)
  nan = np.nan
  after = [[[0.75, 0.125, nan], [0.875, 0.25, 0.625]]]
  after += [[[0.5, nan, nan], [0.375, 1.0, 0.0]]]
  rollout = worked_example.rollout(
    np.zeros((2, 2)),
    np.full((2, 2), 3),
    sample_mask=jnp.array([[True, True], [True, False]]),
    step_mask=jnp.asarray(mask),
    extras={"sampler/values": after, "sampler/prompt_values": [0.5, 0.125]},
  ).replace(step_scores=jnp.zeros(mask.shape))
  expected = [[[0.25, -0.625, 0], [0.375, -0.625, 0.375]]]
  expected += [[[0.375, 0, 0], [0, 0, 0]]]
  np.testing.assert_array_equal(
    worked_example.reward("gains", rollout), expected
  )


@pytest.mark.worked_example("function:gains.best_of")
def test_the_best_of_three():
  """1 - (1 - V)^3, the prover of PAV, for V = 1/4 and 1/2."""
  result = gains.best_of(jnp.array([0.25, 0.5]), 3)
  np.testing.assert_array_equal(result, [1 - 27 / 64, 7 / 8])
