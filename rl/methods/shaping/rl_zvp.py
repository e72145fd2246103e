"""RL-ZVP: prompts without variance of scores, credited by entropy.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)


@transform(takes="sample", gives="token", needs={_ENTROPY})
def credit_zero_variance(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float
) -> jax.Array:
  """alpha H_t if the whole group is right, -alpha (max H - H_t) if it is wrong.

  max H is over the tokens of the sample. Other groups keep the signal.
  """
  tokens, valid = rollout.valid("token"), rollout.sample_mask
  entropy = jnp.where(tokens, rollout.extras[_ENTROPY], 0.0)
  below_peak = entropy.max(-1, keepdims=True) - entropy
  is_flat = (signal == 0).all(-1) & (masked.count(valid) > 1)  # [P]
  right, wrong = (
    (is_flat & ((rollout.correct == v) | ~valid).all(-1))[:, None, None]
    for v in (1, 0)
  )
  shaped = jnp.where(right, alpha * entropy, signal[..., None])
  shaped = jnp.where(wrong, -alpha * below_peak, shaped)
  return jnp.where(tokens, shaped, 0.0)


def rl_zvp(alpha: float = 0.1, clip: float = 0.2, ddof: int = 1) -> Method:
  """GRPO that also learns from groups without variance, token by token.

    mixed group  A_t = the z-score of GRPO
    all right    A_t = alpha H_t
    all wrong    A_t = -alpha (max_t' H_t' - H_t)

  H_t [P, S, T] is the entropy of the old policy at token t: uncertain tokens
  are reinforced most, or penalised least. A group whose scores are equal but
  whose verdicts are unknown or differ, or that has one sample, has A = 0. The
  loss is PPO-clip, averaged over tokens, without a KL or filters.
  Open: alpha, 0.1 to 0.2 depending on the size of the model.
  Source: Le et al. 2025, No Prompt Left Behind (RL-ZVP).

  Args:
    alpha: scale of the advantages of groups without variance.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  credit = credit_zero_variance(alpha)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), credit),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
