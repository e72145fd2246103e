"""RLVR of Tulu 3: PPO on ten points for a right answer."""

import jax
import jax.numpy as jnp

from rl import types
from rl.method import Method
from rl.methods.critic.ppo import actor_critic
from rl.transforms import transform


@transform("none", "sample")
def points(
  _, rollout: types.Rollout, *, right: float, unfinished: float
) -> jax.Array:
  """`right` where the verdict is right, else 0; `unfinished` where cut off."""
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
  """PPO with a critic on alpha points for a right answer, less beta KL a token.

  A sample that does not end by itself gets `no_eos` whatever it says.

  Advantages are whitened, so alpha sets the price of the KL and the scale of
  the critic's targets.
  `value_coef` weighs (V - G)^2: 0.05 is the 0.1 that released PPO code has
  before one half of it.
  Open: lam and value_coef of the releases; the value head starts fresh, where
  theirs starts from a reward model.
  Source: Lambert et al. 2024, Tulu 3: Pushing Frontiers in Open Language Model
  Post-Training.
  """
  return actor_critic(
    points(alpha, no_eos), 1.0, lam, beta, clip, value_clip, value_coef
  )
