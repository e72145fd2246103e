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
  """Returns the advantage of `rl_zvp` from the z-scores of the group.

    all right    alpha H_t
    all wrong    -alpha (max H - H_t), the maximum over the tokens of the sample
    other group  the signal

  A group is all right, or all wrong, if every sample has this verdict, all
  scores are equal (the signal is exactly 0) and it has more than one sample.
  """
  tokens, valid = rollout.valid("token"), rollout.sample_mask
  entropy = jnp.where(tokens, rollout.extras[_ENTROPY], 0.0)
  below_peak = entropy.max(-1, keepdims=True) - entropy
  is_flat = (signal == 0).all(-1) & (masked.count(valid) > 1)  # [P]
  all_right, all_wrong = (
    (is_flat & ((rollout.correct == v) | ~valid).all(-1))[:, None, None]
    for v in (1, 0)
  )  # [P, 1, 1] each
  shaped = jnp.where(all_right, alpha * entropy, signal[..., None])
  shaped = jnp.where(all_wrong, -alpha * below_peak, shaped)
  return jnp.where(tokens, shaped, 0.0)


def rl_zvp(alpha: float = 0.1, clip: float = 0.2, ddof: int = 1) -> Method:
  """GRPO that also learns from groups without variance, token by token.

    scores differ          A_t = the z-score of GRPO
    equal scores, right    A_t = alpha H_t
    equal scores, wrong    A_t = -alpha (max_u H_u - H_t), u over the sample

  H_t [P, S, T] is the entropy of the next-token distribution at token t, under
  the policy at the start of the training step: in a group that is all right
  uncertain tokens are reinforced most, and in a group that is all wrong they
  are penalised least. A group of equal scores has A = 0 if a verdict is
  unknown, if verdicts differ, or if it has one sample. The loss is PPO-clip,
  averaged over the tokens of all samples, without a KL; no sample or token is
  filtered out.
  Open: the paper has alpha between 0.1 and 0.2, depending on the size of the
  model.
  Source: Le et al. 2025, No Prompt Left Behind (RL-ZVP).
  Quantity: old/entropy.

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
