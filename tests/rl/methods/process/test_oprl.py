"""Worked examples of online process rewards for agents."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, process_example, worked_example

from rl import methods, types
from rl.methods.process import oprl

# log pi_prm - log pi_old of each token, then its sum over each turn.
GAP = np.array(
  [
    [
      [4, -2, 10, 99],
      [99, 99, 99, 99],
      [-6, 1, 2, 5],
      [3, 12, -8, 99],
      [7, 8, 99, 99],
    ]
  ],
  float,
)
TURNS = {0: [2, 10], 2: [-6, 8], 3: [3, 12, -8], 4: [15]}


@pytest.mark.worked_example("method:oprl")
@pytest.mark.parametrize(
  ("hyper", "beta", "weight", "sides"),
  [
    ({}, 0.05, 1, "above, below"),
    ({"beta": 0.1, "process_coef": 3.0}, 0.1, 3, "above"),
  ],
)
def test_policy(hyper, beta, weight, sides):
  """Leave-one-out of scores, and of turns pooled over the other samples."""
  example = process_example.rollout()
  scores = {0: 1.0, 2: 0.2, 3: 0.5, 4: -0.3}
  row = [scores.get(i, np.nan) for i in range(5)]
  example = example.replace(scores=jnp.array([row], jnp.float32))
  advantages = np.zeros((1, 5, 4))
  for i, turns in TURNS.items():
    outcome = scores[i] - np.mean([scores[j] for j in TURNS if j != i])
    others = np.concatenate([TURNS[j] for j in TURNS if j != i])
    process = beta * (np.array(turns) - others.mean())
    of_tokens = np.repeat(process, process_example.STEPS[i])
    advantages[0, i, : len(of_tokens)] = outcome + weight * of_tokens
  old = np.full((1, 5, 4), -20.0)
  example = example.replace(behavior_log_probs=jnp.full((1, 5, 4), -3.0))
  clip_example.check_clip(
    methods.get("oprl", **hyper)["policy"],
    example,
    advantages,
    process_example.MASK / 12,
    0.2,
    0.2,
    sides=sides,
    old=old,
    other={"prm": np.where(process_example.MASK > 0, old + GAP, -1)},
  )


@pytest.mark.worked_example("method:oprl")
def test_reward_model():
  """-log sigma(Q_i - Q_j), a mean over right i and wrong j."""
  example = process_example.rollout().replace(
    correct=jnp.array([[1, 1, 0, 1, -1]], jnp.int8),
    behavior_log_probs=jnp.full((1, 5, 4), -20.0),
  )
  log_probs = np.where(process_example.MASK > 0, GAP - 20, -1)
  loss, slopes = worked_example.loss(
    methods.get("oprl")["prm"], example, log_probs
  )
  # Q = 0.05 x sum over turns / number of turns.
  q = {i: 0.05 * np.mean(turns) for i, turns in TURNS.items()}
  pairs = (0, 2), (3, 2)
  expected = -np.log([1 / (1 + np.exp(q[j] - q[i])) for i, j in pairs])
  np.testing.assert_allclose(loss, expected.mean(), rtol=1e-5)
  # The slope in Q_i is sigma(Q_i - Q_j) - 1, that in Q_j its negative.
  of_q = dict.fromkeys(range(5), 0.0)
  for i, j in pairs:
    slope = 1 / (1 + np.exp(q[j] - q[i])) - 1
    of_q[i] += slope / 2
    of_q[j] -= slope / 2
  wanted_slopes = np.zeros((1, 5, 4))
  for i, turns in TURNS.items():
    wanted_slopes[0, i] = 0.05 * of_q[i] / len(turns)
  np.testing.assert_allclose(
    slopes, wanted_slopes * process_example.MASK, rtol=1e-5, atol=1e-8
  )


def test_tokens_that_do_not_count_are_in_no_step():
  """A token in a step may not be scored; the second sample does not exist."""
  rollout = worked_example.rollout(
    [0, 0, 0],
    steps=[[2, 1], [1, 1], [3]],
    sample_mask=jnp.array([[True, False, True]]),
  )
  scored = rollout.mask.at[0, 0, 1].set(False).at[0, 2, 0].set(False)
  rollout = rollout.replace(tokens=rollout.tokens.replace(mask=scored))
  signal = jnp.array([[[1, np.nan, 4], [np.nan] * 3, [np.nan, 5, 7]]])
  sums, _ = oprl.sum_tokens_in_steps().apply(signal, rollout, ())
  np.testing.assert_array_equal(sums, [[[1, 4], [0, 0], [12, 0]]])


def test_two_samples_of_one_turn_have_each_other_as_baseline():
  """The third sample does not exist."""
  rollout = worked_example.rollout(
    [0, 0, 0],
    steps=[[1], [1], [1]],
    sample_mask=jnp.array([[True, True, False]]),
  )
  signal = jnp.array([[[1.0], [0.25], [np.nan]]])
  centered, _ = oprl.minus_others_pooled_mean().apply(signal, rollout, ())
  np.testing.assert_allclose(centered[..., 0], [[0.75, -0.75, 0]])


def test_q_is_divided_by_the_turns_with_a_scored_token():
  """No token of the wrong sample's first turn is scored: one turn counts."""
  rollout = worked_example.rollout(
    [0, 0],
    steps=[[1, 1, 1], [1, 2]],
    correct=[1, 0],
    behavior_log_probs=np.full((1, 2, 3), -2.0),
  )
  scored = rollout.mask.at[0, 1, 0].set(False)
  rollout = rollout.replace(tokens=rollout.tokens.replace(mask=scored))
  gap = jnp.array([[[0.5, 1, 1.5], [9, 0.25, 0.5]]])
  losses = oprl.trajectory_preferences(2.0).fn(
    None, types.Named({"log_probs": gap - 2}), rollout
  )
  # Q = 2 (0.5 + 1 + 1.5) / 3 and 2 (0.25 + 0.5).
  np.testing.assert_allclose(losses, [np.log1p(np.exp(1.5 - 2))], rtol=1e-6)
