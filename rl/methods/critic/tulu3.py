"""RLVR of Tulu 3: PPO with a reward of ten for a right answer.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import types
from rl.method import Method
from rl.methods.critic.ppo import actor_critic
from rl.transforms import transform


@transform(takes="none", gives="sample")
def points(
  _, rollout: types.Rollout, *, right: float, unfinished: float
) -> jax.Array:
  """`right` if the verdict is right, else 0; `unfinished` if truncated."""
  earned = jnp.where(rollout.correct == 1, right, 0.0)
  return jnp.where(rollout.finished, earned, unfinished)


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

  R [P, S] is `no_eos` for a truncated sample, whatever its verdict. Advantages
  are whitened, so alpha sets the weight of the KL relative to R, and the scale
  of the critic's targets.
  Open: lam and value_coef differ between releases. The value head starts from
  new parameters, theirs from a reward model.
  Source: Lambert et al. 2024, Tulu 3: Pushing Frontiers in Open Language Model
  Post-Training.

  Args:
    alpha: reward of a right answer.
    no_eos: reward of a truncated sample.
    beta, lam, clip, value_clip: same as in `ppo`.
    value_coef: weight of (V - G)^2; 0.05 is one half of the 0.1 of released PPO
      code, whose squared error has a factor of one half.
  """
  return actor_critic(
    points(alpha, no_eos), 1.0, lam, beta, clip, value_clip, value_coef
  )
