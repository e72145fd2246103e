"""Zero-variance prompts, credited by entropy."""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

_ENTROPY = scoring.Need("old", scoring.entropy)


@transform("sample", "token", needs={_ENTROPY})
def credit_zero_variance(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float
) -> jax.Array:
  """+alpha H_t where a whole group is right, -alpha (max H - H_t) if wrong.

  The maximum is over the tokens of the sample. Other groups keep the signal.
  """
  valid, real = rollout.valid("token"), rollout.sample_mask
  entropy = jnp.where(valid, rollout.extras[_ENTROPY], 0.0)
  below_peak = entropy.max(-1, keepdims=True) - entropy
  silent = (signal == 0).all(-1) & (masked.count(real) > 1)
  right, wrong = (
    (silent & ((rollout.correct == v) | ~real).all(-1))[:, None, None]
    for v in (1, 0)
  )
  shaped = jnp.where(right, alpha * entropy, signal[..., None])
  shaped = jnp.where(wrong, -alpha * below_peak, shaped)
  return jnp.where(valid, shaped, 0.0)


def rl_zvp(alpha: float = 0.1, clip: float = 0.2, ddof: int = 1) -> Method:
  """GRPO that learns from groups without variance, token by token.

    mixed group   the z-score of GRPO
    all right     A_t = alpha H_t: uncertain tokens are reinforced most
    all wrong     A_t = -alpha (max_t' H_t' - H_t): uncertain ones blamed least

  H is the entropy of the old policy. A group is right or wrong by its verdicts,
  and keeps A = 0 if they are unknown or differ at equal scores, as does a group
  of one.
  Open: alpha, 0.1 to 0.2 by the size of the model. The loss is PPO-clip over
  the mean token without KL or filters.
  Source: Le et al. 2025, No Prompt Left Behind (RL-ZVP).
  """
  return Method(
    advantage=chain(
      scores(), group_normalize(ddof), credit_zero_variance(alpha)
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
