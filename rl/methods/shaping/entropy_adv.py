"""Entropy as a bonus on the advantage."""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)


@transform("sample", "token", needs={_ENTROPY})
def add_entropy(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, kappa: float
) -> jax.Array:
  """A + min(alpha H_t, |A| / kappa)."""
  advantage = signal[..., None]
  bonus = alpha * rollout.extras[_ENTROPY]
  shaped = advantage + jnp.minimum(bonus, jnp.abs(advantage) / kappa)
  return jnp.where(rollout.valid("token"), shaped, 0.0)


def entropy_adv(
  alpha: float = 0.4, kappa: float = 2.0, clip: float = 0.2, ddof: int = 1
) -> Method:
  """GRPO's advantage, raised on uncertain tokens by up to a share of itself.

    A'_t = A + min(alpha H_t, |A| / kappa)

  H is the entropy of the old policy; no gradient flows through it, so it only
  moves credit: right answers are reinforced more, wrong ones blamed less, where
  the policy hesitates. kappa > 1 never turns a sign (a variant of the code has
  1, which can erase the blame). PPO-clip over the mean token, no KL.
  Source: Cheng et al. 2025, Reasoning with Exploration: An Entropy Perspective.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof), add_entropy(alpha, kappa)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
