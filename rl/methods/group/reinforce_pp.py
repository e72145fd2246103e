"""REINFORCE with a KL penalty per token and returns whitened over the batch."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import probes, types
from rl.method import Method
from rl.slots import frozen
from rl.surrogates import ppo_clip
from rl.terms import policy_gradient
from rl.transform import chain, transform
from rl.transforms import place_last, returns_to_go, scores, whiten

_OLD = probes.Need("old", probes.log_probs)
_REF = probes.Need("ref", probes.log_probs)


@transform("token", needs={_OLD, _REF})
def minus_kl(
  rewards: jax.Array, rollout: types.Rollout, *, beta: float
) -> jax.Array:
  """r_t - beta (log pi_old - log pi_ref), the k1 estimate at each token."""
  k1 = rollout.extras[_OLD] - rollout.extras[_REF]
  return jnp.where(rollout.valid("token"), rewards - beta * k1, 0.0)


def reinforce_pp(
  beta: float = 1e-4, gamma: float = 1.0, clip: float = 0.2
) -> Method:
  """A_t = whiten(G_t), G_t = sum_{u >= t} gamma^(u - t) (r_u - beta k1_u).

  r is the score, on the last token. Mean and standard deviation (ddof 0) are
  over all tokens of the batch, so long samples weigh more; no group is needed.
  PPO-clip, token mean. beta = 0 drops the reference and its forward pass.
  With equal scores everywhere what is whitened is the KL alone. Deviation: a
  batch of fewer than two tokens rests.
  Source: Hu 2025, REINFORCE++; beta: the released scripts.
  """
  penalty = (minus_kl(beta),) if beta else ()
  return Method(
    advantage=chain(
      scores(), place_last(), *penalty, returns_to_go(gamma), whiten()
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
    slots=(("ref", frozen()),) if beta else (),
  )
