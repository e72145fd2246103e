"""Maximum-entropy RL: returns that include the entropy of later tokens.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

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
# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the old policy (at the start of the training step).
_OLD = scoring.Need("old", scoring.log_probs)


@transform(
  takes="token",
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
  """Returns r_t - alpha log pi_old(y_t); alpha rises if entropy is low.

  Adam descends J(alpha) = -alpha mean(log pi_old + target) in log alpha, with
  the mean over all scored tokens of the batch: alpha rises while the entropy,
  estimated by -mean log pi_old, is below `target`. With rate 0, alpha is
  constant; with alpha 0 it stays 0.
  """
  valid, log_probs = rollout.valid("token"), rollout.extras[_OLD]
  alpha = jnp.exp(state["log_alpha"]) if alpha > 0 else 0.0
  entropy_shortfall = masked.mean(log_probs + target, valid, (0, 1, 2))
  step, adam = optax.adam(rate).update(
    -alpha * entropy_shortfall, state["adam"]
  )
  new_state = {"log_alpha": state["log_alpha"] + step, "adam": adam}
  soft_rewards = jnp.where(valid, rewards - alpha * log_probs, 0.0)
  return soft_rewards, new_state


def soft_rl(
  alpha: float = 0.01,
  target: float = 0.5,
  rate: float = 3e-4,
  clip: float = 0.2,
) -> Method:
  """Soft returns: the score plus alpha times the surprise of later tokens.

    G_t = sum_{u >= t} (r_u - alpha log pi_old(y_u))

  r [P, S, T] is the score at the last token of a sample and 0 elsewhere, u runs
  over the tokens of the sample, and pi_old is the policy at the start of the
  training step. A_t is G_t minus the mean over the other samples of the group
  of their mean G per token. The surprise -log pi_old of a token is an estimate
  of the entropy; it is credited to the token and to all earlier ones, whereas
  an entropy bonus in the loss affects each token alone. For completions of one
  token the fixed point is pi proportional to exp(r / alpha). alpha is tuned to
  a target entropy; suitable values of the target and of the first alpha depend
  on the task. alpha = 0 is RL without an entropy term. The loss is PPO-clip,
  averaged over the tokens of all samples.
  Deviation: the paper's critics, replay buffer and reparameterised gradient are
  left out.
  Source: Haarnoja et al. 2018, Soft Actor-Critic.
  Quantity: old/log_probs.

  Args:
    alpha: first weight of the surprise.
    target: target entropy, in nats per token.
    rate: learning rate of log alpha under Adam.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
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
