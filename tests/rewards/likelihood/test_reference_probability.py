"""Tests of `rewards.likelihood.reference_probability`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, reference_views, worked_example

from rewards.likelihood import group_log_mean_advantages, reference_probability

group_log_mean_advantages = compiled.functions(group_log_mean_advantages)
reference_probability = compiled.functions(reference_probability)

LOGS = jnp.log(jnp.array([[0.9, 0.1], [0.5, 0.5]]))
MASK = jnp.ones((2, 2), bool)


@pytest.mark.parametrize(
  ("reward", "expected"),
  [
    (reference_probability.mean_reference_probability, [0.5, 0.5]),
    (reference_probability.reference_probability, [0.09, 0.25]),
    (reference_probability.reference_log_probability, [-2.407946, -1.386294]),
    (
      reference_probability.mean_reference_log_probability,
      [-1.203973, -0.693147],
    ),
    (group_log_mean_advantages.log_mean_advantages, [-0.385662, 0.635989]),
  ],
)
def test_the_family_s_numbers(reward, expected):
  np.testing.assert_allclose(reward(LOGS, MASK), expected, atol=1e-5)


def test_one_token_makes_all_probabilities_the_same():
  one = MASK & (jnp.arange(2) == 0)
  np.testing.assert_array_equal(
    reference_probability.reference_probability(LOGS, one),
    reference_probability.mean_reference_probability(LOGS, one),
  )


def test_long_references_do_not_underflow_in_log_space():
  logs = jnp.full((3, 400), -2.0).at[0, 0].set(-1.0)
  mask = jnp.ones(logs.shape, bool)
  assert (reference_probability.reference_probability(logs, mask) == 0).all()
  gained = group_log_mean_advantages.log_mean_advantages(logs, mask)
  expected = np.log((np.e + 2) / 3)
  np.testing.assert_allclose(gained[0], expected, atol=2e-4)
  assert (gained[1:] < 0).all()


def test_the_weakness_is_to_state_the_answer():
  """A copied answer is likelier than any reasoned one, right or wrong."""
  copied = jnp.log(jnp.full((1, 4), 0.999))
  reasoned = jnp.log(jnp.full((1, 4), 0.8))
  mask = jnp.ones((1, 4), bool)
  for reward in (
    reference_probability.reference_probability,
    reference_probability.mean_reference_probability,
  ):
    assert reward(copied, mask) > reward(reasoned, mask)


@pytest.mark.worked_example(
  "reward:probability",
  "reward:mean_probability",
  "reward:log_probability",
  "reward:mean_log_probability",
  "function:reference_probability.reference_probability",
  "function:reference_probability.mean_reference_probability",
  "function:reference_probability.reference_log_probability",
  "function:reference_probability.mean_reference_log_probability",
)
def test_references_of_one_to_three_tokens():
  """Probabilities (0.9, 0.1), (0.5, 0.5, 0.8) and 0.3, without the padding."""
  log_probs = jnp.log(jnp.asarray(reference_views.PROBABILITIES))
  rollout = reference_views.rollout()
  mask = rollout.views["reference"].mask
  log = np.log
  for name, function, expected in (
    # prod p_t, mean p_t, sum log p_t, mean log p_t
    ("probability", "reference_probability", [0.09, 0.2, 0.3]),
    ("mean_probability", "mean_reference_probability", [0.5, 0.6, 0.3]),
    (
      "log_probability",
      "reference_log_probability",
      [log(0.09), log(0.2), log(0.3)],
    ),
    (
      "mean_log_probability",
      "mean_reference_log_probability",
      [log(0.09) / 2, log(0.2) / 3, log(0.3)],
    ),
  ):
    value = worked_example.reward(name, rollout)
    np.testing.assert_allclose(value, [[*expected, 0]], rtol=1e-5)
    function = getattr(reference_probability, function)
    value = function(log_probs, mask)
    np.testing.assert_allclose(value[:, :3], [expected], rtol=1e-5)
    # An empty reference scores 0.
    assert not function(log_probs, jnp.zeros_like(mask)).any()
