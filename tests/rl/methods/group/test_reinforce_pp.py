"""Worked examples of REINFORCE++."""

import numpy as np
import pytest
from helpers import clip_example, worked_example

from rl import methods, types

# k1 = log pi_old - log pi_ref of each token; 0.0001 k1 is of the size of R.
K1 = np.array(
  [[[900, 3000, 1000], [9, 9, 9], [6000, 9, 9], [2000, 500, 9]]], float
)


def whitened(returns, exists):
  """(G - mean G) / std G (ddof 0) over all tokens."""
  present = returns[exists]
  z = (returns - present.mean()) / np.sqrt(present.var() + 1e-8)
  return np.where(exists, z, 0)


@pytest.mark.worked_example("method:reinforce_pp")
def test_whitened_returns_of_score_and_kl():
  """Scores 1, 0.2 and 0.3 at the last of 3, 1 and 2 tokens, less 0.0001 k1."""
  rollout = clip_example.rollout([1, 0, 0.2, 0.3])
  old = clip_example.old_log_probs(rollout)
  exists = clip_example.mask(rollout) > 0
  # G_t = r_t + G_{t+1}, with r = R at the last token - 0.0001 k1.
  last, second = 1 - 0.1, 1 - 0.1 - 0.3
  returns = np.array(
    [
      [
        [second - 0.09, second, last],
        [0] * 3,
        [0.2 - 0.6, 0, 0],
        [0.3 - 0.05 - 0.2, 0.3 - 0.05, 0],
      ]
    ]
  )
  m = methods.get("reinforce_pp")
  weights = exists / 6
  clip_example.check_clip(
    m,
    rollout,
    whitened(returns, exists),
    weights,
    0.2,
    0.2,
    old=old,
    other={"ref": old - K1},
  )


@pytest.mark.worked_example("method:reinforce_pp")
def test_discount():
  """With gamma 0.5 and beta 0.001: G_t = r_t + 0.5 G_{t+1}."""
  rollout = clip_example.rollout([1, 0, 0.2, 0.3])
  extras = {"old/log_probs": -K1, "ref/log_probs": -2 * K1}
  rollout = rollout.replace(extras=types.Named(extras))
  exists = clip_example.mask(rollout) > 0
  returns = np.array(
    [
      [
        [-0.9 - 1.5 + 0, -3 + 0, 1 - 1],
        [0] * 3,
        [0.2 - 6, 0, 0],
        [-2 + 0.5 * (0.3 - 0.5), 0.3 - 0.5, 0],
      ]
    ]
  )
  m = methods.get("reinforce_pp", beta=0.001, gamma=0.5)
  np.testing.assert_allclose(
    worked_example.advantages(m, rollout),
    whitened(returns, exists),
    atol=1e-5,
  )
