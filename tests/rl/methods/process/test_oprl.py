"""Worked examples of online process rewards for agents."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, process_example, worked_example

from rl import methods

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
  wanted = -np.log([1 / (1 + np.exp(q[j] - q[i])) for i, j in pairs])
  np.testing.assert_allclose(loss, wanted.mean(), rtol=1e-5)
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
