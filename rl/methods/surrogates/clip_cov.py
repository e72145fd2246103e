"""Clip-Cov: no gradient at a few tokens that would lower entropy the most.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import scoring, types
from rl.losses.surrogates import ppo_clip, surrogate
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.selection import lowest, token_covariance
from rl.sampling import random_keys
from rl.transforms import broadcast, chain, group_normalize, scores, transform

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the old policy (at the start of the training step).
_OLD_LOG_PROBS = scoring.Need("old", scoring.log_probs)
# A need: [P, S, T], the tokens that are selected once per rollout.
_SELECTED = scoring.provided("prepared", "selected")


@transform(takes="token", needs={_OLD_LOG_PROBS})
def select_by_covariance(
  signal: jax.Array,
  rollout: types.Rollout,
  *,
  fraction: float,
  low: float,
  high: float,
) -> jax.Array:
  """Selects tokens with cov in (low, high) at random, `[P, S, T]` bool.

  cov is that of `token_covariance`, and the signal is the advantage. Their
  number is `fraction` times the number of all tokens, rounded down, at least
  one; all tokens in (low, high) if there are fewer.
  """
  mask = rollout.valid("token")
  covariance = token_covariance(signal, rollout.extras[_OLD_LOG_PROBS], mask)
  in_range = mask & (covariance > low) & (covariance < high)
  shape = mask.shape[1:]  # [S, T]
  keys = random_keys.keys(rollout.keys, "clip_cov")
  random_numbers = jax.vmap(lambda key: jax.random.uniform(key, shape))(keys)
  count = jnp.maximum(jnp.floor(fraction * mask.sum()), 1.0)
  return lowest(random_numbers, in_range, count)


@surrogate(needs={_SELECTED})
def ppo_clip_of_others(
  log_ratio: jax.Array,
  advantages: jax.Array,
  policy: types.Named,
  rollout: types.Rollout,
  *,
  clip: float,
) -> tuple[jax.Array, dict[str, jax.Array]]:
  """`ppo_clip(clip, clip)`, with A = 0 at the tokens in "prepared/selected".

  Logs the share of these tokens as `policy/clip_frac_cov`.
  """
  selected = rollout.extras[_SELECTED]
  advantages = jnp.where(selected, 0.0, advantages)
  values, metrics = ppo_clip(clip, clip).fn(
    log_ratio, advantages, policy, rollout
  )
  return values, metrics | {"policy/clip_frac_cov": selected}


def clip_cov(
  fraction: float = 2e-4,
  low: float = 1.0,
  high: float = 5.0,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """GRPO without a KL, with A = 0 at a few tokens of high covariance.

    cov_t = (A_t - mean A) (log pi_t - mean log pi)

  A_t [P, S, T] is the z-score of a sample's score in its group, log pi_t the
  log-prob of token t under the policy at the start of the training step, and
  means are over the tokens of all samples. Of the tokens with cov in (low,
  high), as many as `fraction` times the number of all tokens are drawn at
  random, at least one. Drawn tokens have no gradient, but count in the mean
  over tokens that is the loss (PPO-clip).
  Deviation: the covariance is that of the policy before the step. In the
  released code it is that of the current policy; here the same tokens are drawn
  for all updates of a rollout.
  Source: Cui et al. 2025, The Entropy Mechanism of Reinforcement Learning.
  Quantity: select_by_covariance.

  Args:
    fraction: share of all tokens that lose their gradient.
    low, high: bounds of the covariance of these tokens.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  selected = chain(advantage, select_by_covariance(fraction, low, high))
  return Method(
    advantage=advantage,
    prepared=(("selected", selected),),
    loss=policy_gradient(ppo_clip_of_others(clip)),
  )
