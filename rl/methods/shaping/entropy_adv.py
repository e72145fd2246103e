"""GRPO with an entropy bonus on the advantage.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: entropy [P, S, T] of
# each token under the old policy (at the start of the training step).
_ENTROPY = scoring.Need("old", scoring.entropy)


@transform(takes="sample", gives="token", needs={_ENTROPY})
def add_entropy(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, kappa: float
) -> jax.Array:
  """Returns A + min(alpha H_t, |A| / kappa) at each scored token."""
  advantage = signal[..., None]
  bonus = alpha * rollout.extras[_ENTROPY]
  shaped = advantage + jnp.minimum(bonus, jnp.abs(advantage) / kappa)
  return jnp.where(rollout.valid("token"), shaped, 0.0)


def entropy_adv(
  alpha: float = 0.4, kappa: float = 2.0, clip: float = 0.2, ddof: int = 1
) -> Method:
  """GRPO's advantage, raised at uncertain tokens by up to a share of itself.

    A'_t = A + min(alpha H_t, |A| / kappa)

  A is the z-score of a sample's score in its group and H_t [P, S, T] the
  entropy of the next-token distribution at token t, under the policy at the
  start of the training step. H is not differentiated. Hence where H is high,
  right answers are reinforced more and wrong ones are penalised less. With
  kappa > 1 the sign of A never changes; a variant of the released code has
  kappa = 1, which can set A of a wrong answer to 0. The loss is PPO-clip,
  averaged over the tokens of all samples, without a KL.
  Source: Cheng et al. 2025, Reasoning with Exploration: An Entropy Perspective.
  Quantity: old/entropy.

  Args:
    alpha: weight of the entropy.
    kappa: the bonus is at most |A| / kappa.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof), add_entropy(alpha, kappa)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
