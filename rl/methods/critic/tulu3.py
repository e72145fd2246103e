"""RLVR of Tulu 3: PPO with a reward of ten for a right answer.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import types
from rl.method import Method
from rl.methods.critic.ppo import actor_critic
from rl.transforms import chain, place_last, transform


@transform(takes="none", gives="sample")
def points(
  _, rollout: types.Rollout, *, right: float, unfinished: float
) -> jax.Array:
  """Returns the reward of a sample by its verdict.

  Args:
    right: reward of a sample whose verdict is right; another verdict has 0.
    unfinished: reward of a sample that the length limit cut, whatever its
      verdict.
  """
  by_verdict = jnp.where(rollout.correct == 1, right, 0.0)
  return jnp.where(rollout.finished, by_verdict, unfinished)


def tulu3(
  alpha: float = 10.0,
  no_eos: float = -10.0,
  beta: float = 0.05,
  lam: float = 0.95,
  clip: float = 0.2,
  value_clip: float = 0.2,
  value_coef: float = 0.05,
) -> Method:
  """`ppo` with R = alpha for a right answer and 0 for others, gamma = 1.

  R [P, S] is `no_eos` for a sample that the length limit cut, whatever its
  verdict. It does not depend on the score of a sample, and so not on the reward
  of a config, for which there is `ppo`. Advantages are whitened, so the size of
  alpha matters in two places: relative to the KL penalty, and in the targets of
  the critic.
  Open: releases differ in lam and value_coef; the defaults here are a choice
  among them.
  Deviation: the value head starts from new parameters; in the paper it starts
  from a reward model.
  Source: Lambert et al. 2024, Tulu 3: Pushing Frontiers in Open Language Model
  Post-Training.
  Quantity: correct.

  Args:
    alpha: reward of a right answer.
    no_eos: reward of a sample that the length limit cut.
    beta, lam, clip, value_clip: same as in `ppo`.
    value_coef: weight of the critic's squared error. The released PPO code has
      0.1 and a factor of one half in the error; `value_loss` has no such
      factor, so 0.05 is the same.
  """
  rewards = chain(points(alpha, no_eos), place_last())
  return actor_critic(rewards, 1.0, lam, beta, clip, value_clip, value_coef)
