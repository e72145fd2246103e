"""Maximum entropy: surprise is a reward, and what is to come of it counts."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import optax

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.implicit import minus_others_token_mean
from rl.transforms import chain, place_last, returns_to_go, scores, transform

Array = jax.Array
_OLD = scoring.Need("old", scoring.log_probs)


@transform(
  "token",
  init=lambda alpha, target, rate: {
    "log_alpha": jnp.log(jnp.float32(alpha)),
    "adam": optax.adam(rate).init(jnp.float32(0)),
  },
  needs={_OLD},
)
def plus_surprise(
  rewards: Array,
  rollout: types.Rollout,
  state,
  *,
  alpha: float,
  target: float,
  rate: float,
) -> tuple[Array, dict[str, Array]]:
  """r_t - alpha log pi_old(y_t); alpha rises while entropy is below `target`.

  J(alpha) = - alpha mean(log pi + target) is descended in log alpha by Adam,
  over the scored tokens; with rate 0 alpha stays.
  """
  valid, log_probs = rollout.valid("token"), rollout.extras[_OLD]
  alpha = jnp.exp(state["log_alpha"]) if alpha > 0 else 0.0
  gap = masked.mean(log_probs + target, valid, (0, 1, 2))
  step, adam = optax.adam(rate).update(-alpha * gap, state["adam"])
  new = {"log_alpha": state["log_alpha"] + step, "adam": adam}
  soft = jnp.where(valid, rewards - alpha * log_probs, 0.0)
  return soft, new


def soft_rl(
  alpha: float = 0.01,
  target: float = 0.5,
  rate: float = 3e-4,
  clip: float = 0.2,
) -> Method:
  """Soft returns: the score plus alpha times the surprise still to come.

  G_t = sum_{u >= t} (r_u - alpha log pi(y_u)), r the score on the last token,
  against the others' mean: entropy of *future* tokens is credited to earlier
  ones, which an entropy bonus does not do. One token: the fixed point is
  pi ~ exp(r / alpha). alpha is tuned to a target entropy in nats per token;
  target and the start of alpha depend on the task. alpha = 0 is plain RL.
  Deviation: no critics, replay or reparameterisation.
  Source: Haarnoja et al. 2018, Soft Actor-Critic.
  """
  return Method(
    advantage=chain(
      scores(),
      place_last(),
      plus_surprise(alpha, target, rate),
      returns_to_go(),
      minus_others_token_mean("paper"),
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
