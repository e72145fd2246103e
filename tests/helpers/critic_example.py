"""Advantages of a critic by their equations, for worked examples.

One group of five samples of 3, 2, 1, 2 and 1 tokens; the second does not exist.
"""

import numpy as np

VALUES = np.array(
  [[[0.5, 0.6, 0.9], [7, 7, 7], [0.3, 7, 7], [-0.4, 0.1, 7], [0.2, 7, 7]]]
)
# log pi_old - log pi_ref of each token.
K1 = np.array(
  [[[2, -1, 4], [9, 9, 9], [3, 9, 9], [-1.5, 5, 9], [0.5, 9, 9]]], float
)
LENGTHS = (3, 0, 1, 2, 1)


def gae(rewards, gamma, lam):
  """delta_t + gamma lam A_{t+1}, delta_t = r_t + gamma V_{t+1} - V_t.

  After the last token of a sample, V and A are 0.

  Args:
    rewards: `[1, 5, 3]`, r.
    gamma: discount.
    lam: lambda, a number or one for each sample.
  """
  advantages = np.zeros(rewards.shape)
  for i, (n, lam_i) in enumerate(
    zip(LENGTHS, np.broadcast_to(lam, 5), strict=True)
  ):
    later_value = later_advantage = 0.0
    for t in reversed(range(n)):
      value = VALUES[0, i, t]
      delta = rewards[0, i, t] + gamma * later_value - value
      later_advantage = delta + gamma * lam_i * later_advantage
      later_value = value
      advantages[0, i, t] = later_advantage
  return advantages


def at_last(outcomes):
  """Returns the outcome of each sample at its last token, `[1, 5, 3]`."""
  rewards = np.zeros(VALUES.shape)
  for i, n in enumerate(LENGTHS):
    if n:
      rewards[0, i, n - 1] = outcomes[i]
  return rewards


def whitened(advantages, mask):
  """(A - mean A) / std A (n - 1) over the 7 tokens."""
  present = advantages[mask > 0]
  std = np.sqrt(((present - present.mean()) ** 2).sum() / 6)
  return np.where(mask > 0, (advantages - present.mean()) / std, 0)
