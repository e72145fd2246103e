"""Tests of `rewards.steps.information_gain`."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards import base
from rewards.steps import information_gain
from rl import credit, types

information_gain = compiled.functions(information_gain)


@pytest.mark.worked_example("function:information_gain.information_gains")
def test_information_gain_s_numbers():
  before = jnp.array([0.1, 0.3, 0.2])
  mask = jnp.ones(3, bool)
  result = information_gain.information_gains(before, mask, 1.0)
  np.testing.assert_allclose(result, [0.2, -0.1, 1.0], atol=1e-6)
  returns = credit.returns_to_go(result, mask)
  np.testing.assert_allclose(returns, [1.1, 0.9, 1.0], atol=1e-6)
  alone = information_gain.information_gains(before, jnp.arange(3) < 1, 0.7)
  np.testing.assert_allclose(alone, [0.7, 0, 0], rtol=1e-6)
  idle = information_gain.information_gains(jnp.full(3, 0.4), mask, 0.0)
  np.testing.assert_array_equal(idle, 0)


def view(*texts):
  """Tokens `[1, N, R]`, with the reference answer's mask of each text."""
  mask = jnp.asarray([texts], bool)
  zeros = jnp.zeros(mask.shape, jnp.int32)
  prompts = jnp.zeros((1, 1), jnp.int32)
  lengths = mask.sum(-1)
  return types.Tokens(prompts, prompts == 0, zeros, lengths, mask)


@pytest.mark.worked_example("reward:information_gain")
def test_the_binding_has_the_policys_probability_of_the_answer():
  """p is exp of the mean log-prob of the answer's tokens, per text."""
  rollout = worked_example.rollout(
    (0.75, 0.5, 0.25),
    steps=((1, 1, 2, 1), (1, 1), (1, 1)),
    sample_mask=jnp.array([[True, True, False]]),
    extras={
      # p_0 = exp((log .1 + log .4) / 2) = .2; the third token is padding.
      str(base.BARE_REFERENCE_LOG_PROBS): np.log([[[0.1, 0.4, 0.9]]]),
      # After steps 1 and 2: .3 and .6, .5 and .05, and of the sample that does
      # not exist .7 and .8.
      str(base.STEP_REFERENCE_LOG_PROBS): np.log(
        [
          [
            *([0.3, 0.3, 0.9], [0.9, 0.4, 0.9]),
            *([0.5, 0.5, 0.5], [0.5, 0.005, 0.9]),
            *([0.7, 0.7, 0.9], [0.8, 0.8, 0.9]),
          ]
        ]
      ),
    },
    views={
      "bare_reference": view([1, 1, 0]),
      "step_references": view(
        *([1, 1, 0], [1, 1, 0], [1, 1, 1]),
        *([1, 1, 0], [1, 1, 0], [1, 1, 0]),
      ),
    },
  )
  got = worked_example.reward("information_gain", rollout)
  np.testing.assert_allclose(
    got[0],
    # Step 3 of sample 0 has no text of its own, and the last step has R.
    [[0.3 - 0.2, 0.6 - 0.3, 0, 0.75], [0.5 - 0.2, 0.5, 0, 0], [0, 0, 0, 0]],
    atol=1e-6,
  )


@pytest.mark.worked_example("function:information_gain.next_entry")
def test_the_entry_after_the_last_is_0():
  np.testing.assert_array_equal(
    information_gain.next_entry(jnp.array([[2.0, 3.0, 5.0]])), [[3, 5, 0]]
  )
  alone = information_gain.next_entry(jnp.array([[2.0], [3.0]]))
  np.testing.assert_array_equal(alone, [[0], [0]])


@pytest.mark.worked_example("reward:information_gain")
def test_gains_of_two_prompts_with_one_sample_each():
  """p is .1, .3, .6 before the three steps of one, and .5, .1 of the other."""
  one = jnp.ones((2, 2, 1), bool)
  texts = types.Tokens(
    prompts=jnp.zeros((2, 1), jnp.int32),
    prompt_mask=jnp.ones((2, 1), bool),
    completions=jnp.zeros(one.shape, jnp.int32),
    lengths=jnp.ones((2, 2), jnp.int32),
    mask=one,
  )
  first = texts.replace(
    completions=texts.completions[:, :1],
    lengths=texts.lengths[:, :1],
    mask=one[:, :1],
  )
  rollout = worked_example.rollout(
    [[0.75], [0.25]],
    [[3], [3]],
    step_mask=jnp.array([[[True] * 3], [[True, True, False]]]),
    extras={
      str(base.BARE_REFERENCE_LOG_PROBS): np.log([[[0.1]], [[0.5]]]),
      str(base.STEP_REFERENCE_LOG_PROBS): np.log(
        [[[0.3], [0.6]], [[0.1], [0.9]]]
      ),
    },
    views={"bare_reference": first, "step_references": texts},
  ).replace(step_scores=jnp.zeros((2, 1, 3)))
  got = worked_example.reward("information_gain", rollout)
  np.testing.assert_allclose(
    got, [[[0.2, 0.3, 0.75]], [[-0.4, 0.25, 0]]], atol=1e-6
  )
