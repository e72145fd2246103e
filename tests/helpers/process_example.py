"""Credit of steps by its equations, for worked examples.

One group of five samples of up to four tokens; the second does not exist.
"""

import jax.numpy as jnp
import numpy as np

from helpers import clip_example

STEPS = [[2, 1], [1, 2], [1, 3], [1, 1, 1], [2]]  # tokens of each step
SCORES = [[0.6, -0.3], [5, -5], [-0.2, 0.8], [0.9, 0.1, 0.4], [0.5]]
VERDICTS = [1, 1, 0, 1, -1]
LENGTHS = np.array([3, 0, 4, 3, 2])
MASK = (np.arange(4) < LENGTHS[:, None])[None].astype(float)


def rollout():
  """Returns the rollout; scores of samples and of padded steps say nothing."""
  example = clip_example.rollout(
    [0.1, 0, 0.2, 0.3, 0.4], steps=STEPS, step_scores=SCORES
  )
  step_scores = jnp.where(example.step_mask, example.step_scores, jnp.nan)
  return example.replace(
    correct=jnp.array([VERDICTS], jnp.int8), step_scores=step_scores
  )


def at_step_ends(rewards):
  """Returns the reward of each step at its last token, `[1, 5, 4]`."""
  placed = np.zeros((1, 5, 4))
  for i, sizes in enumerate(STEPS):
    if LENGTHS[i]:
      placed[0, i, np.cumsum(sizes) - 1] = rewards[i]
  return placed


def at_last(outcomes):
  """Returns the outcome of each sample at its last token, `[1, 5, 4]`."""
  placed = np.zeros((1, 5, 4))
  for i, n in enumerate(LENGTHS):
    placed[0, i, n - 1] = outcomes[i] if n else 0
  return placed


def to_go(rewards, gamma=1.0):
  """G_t = r_t + gamma G_{t+1} of tokens."""
  returns = rewards.copy()
  for t in (2, 1, 0):
    returns[..., t] += gamma * returns[..., t + 1]
  return returns * MASK


def soft_min_rewards(temperature):
  """r_k = s_k softmax_k(-s_k / temperature) of the steps of each sample."""
  rewards = []
  for scores in SCORES:
    weights = np.exp(-np.array(scores) / temperature)
    rewards.append(scores * weights / weights.sum())
  return rewards


def minus_others(returns, horizon=4, members=(0, 2, 3, 4)):
  """G_it - the sum of G over the others' tokens / ((n - 1) horizon)."""
  centered = np.zeros(returns.shape)
  for i in members:
    others = sum(returns[0, j].sum() for j in members if j != i)
    baseline = others / ((len(members) - 1) * horizon)
    centered[0, i] = returns[0, i] - baseline
  return centered * MASK


def whitened(advantages, where, ddof):
  """(A - mean A) / std A over the tokens where it is not 0."""
  present = advantages[where]
  std = np.sqrt(((present - present.mean()) ** 2).sum() / (len(present) - ddof))
  return np.where(where, (advantages - present.mean()) / std, 0)


# Leave-one-out of the known verdicts 1, 0 and 1: 1 - 1/2, 0 - 1 and 1 - 1/2.
OUTCOME = np.array([[0.5, 0, -1, 0.5, 0]])


def check(m, advantages):
  """Compares advantages, and the loss: PPO-clip 0.2, a mean over 12 tokens."""
  clip_example.check_advantages(m, rollout(), advantages)
  clip_example.check_clip(m, rollout(), advantages, MASK / 12, 0.2, 0.2)
