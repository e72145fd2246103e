"""Writing-Zero (BRPO): a random member of the group is the reference.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.pairs.pairwise import preferences
from rl.sampling import random_keys
from rl.transforms import chain, transform


@transform(takes="none", gives="sample")
def against_random_member(
  _, rollout: types.Rollout, *, limit: float
) -> jax.Array:
  """+1 if i beats the reference, else -1; 0 in groups with one-sided results.

  It is also 0 for the reference, and where the judge did not compare the two.
  """
  valid = rollout.sample_mask
  weights = jnp.where(valid, 0.0, -jnp.inf)  # log-weights of the draw
  keys = random_keys.keys(rollout.keys, "brpo_writing")
  reference = jax.vmap(jax.random.categorical)(keys, weights)[:, None]  # [P, 1]
  preferred = jnp.take_along_axis(
    preferences(rollout), reference[..., None], -1
  )
  sign = jnp.where(preferred[..., 0] == 1, 1.0, -1.0)
  is_compared = valid & (jnp.arange(valid.shape[-1]) != reference)
  is_compared &= jnp.isfinite(preferred[..., 0])
  advantages = jnp.where(is_compared, sign, 0.0)
  imbalance = jnp.abs(advantages.sum(-1)) / jnp.maximum(
    masked.count(valid), 1.0
  )
  return jnp.where((imbalance <= limit)[:, None], advantages, 0.0)


@transform(takes="sample")
def informative_groups(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """A filter: the samples of groups in which some sample has a signal."""
  has_signal = (signal != 0).any(-1, keepdims=True)
  return jnp.broadcast_to(has_signal, rollout.sample_mask.shape)


def brpo_writing(limit: float = 0.6, clip: float = 0.2) -> Method:
  """A_i = +1 if sample i beats a random sample of its group, else -1.

  A is [P, S]. The reference is drawn with the prompt's key and has A = 0; there
  is no mean and no standard deviation. To beat it is to be preferred under
  every order of presentation: a tie or a contradiction is a loss. Groups with
  |sum A| / n > `limit`, n the size of the group, are left out, and so are
  groups with one sample. Preferences are the task's ("task/preferences"), or
  else the order of the scores. The loss is PPO-clip, averaged over tokens,
  without a KL; it is ours, as the paper's surrogate was not at hand.
  Deviation: groups are dropped instead of sampled until the batch is full.
  Source: Jia et al. 2025, Writing-Zero (bootstrapped relative policy
  optimisation).

  Args:
    limit: largest |sum A| / n of a group.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  advantage = against_random_member(limit)
  return Method(
    advantage=advantage,
    loss_filter=chain(advantage, informative_groups()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
