"""Writing-Zero: a random member of the group is what the others must beat."""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.pairs.pairwise import preferences
from rl.sampling import random_keys
from rl.transforms import chain, transform


@transform("none", "sample")
def against_random_member(
  _, rollout: types.Rollout, *, limit: float
) -> jax.Array:
  """+1 where i beats the reference, -1 where not; 0 in lopsided groups.

  0 too where the judge did not compare the two.
  """
  valid = rollout.sample_mask
  weights = jnp.where(valid, 0.0, -jnp.inf)
  keys = random_keys.keys(rollout.keys, "brpo_writing")
  drawn = jax.vmap(jax.random.categorical)(keys, weights)[:, None]
  wins = jnp.take_along_axis(preferences(rollout), drawn[..., None], -1)
  sign = jnp.where(wins[..., 0] == 1, 1.0, -1.0)
  challenger = valid & (jnp.arange(valid.shape[-1]) != drawn)
  challenger &= jnp.isfinite(wins[..., 0])
  advantages = jnp.where(challenger, sign, 0.0)
  share = jnp.abs(advantages.sum(-1)) / jnp.maximum(masked.count(valid), 1.0)
  return jnp.where((share <= limit)[:, None], advantages, 0.0)


@transform("sample")
def informative_groups(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """A filter: groups in which some sample has a signal."""
  some = (signal != 0).any(-1, keepdims=True)
  return jnp.broadcast_to(some, rollout.sample_mask.shape)


def brpo_writing(limit: float = 0.6, clip: float = 0.2) -> Method:
  """Compares each sample with a random one of its group: won +1, else -1.

  A_ref = 0 for the reference, drawn by the prompt's key; no mean, no standard
  deviation. A win is a preference of 1, under every order of presentation: ties
  and contradictions lose. Groups with |sum A| / n > `limit` are left out, and
  so are groups of one.
  Preferences are the task's ("task/preferences"), else the order of the scores.
  PPO-clip, token mean, no KL: ours, as the paper's surrogate was not at hand.
  Deviation: groups are dropped, not sampled until the batch is full.
  Source: Jia et al. 2025, Writing-Zero (bootstrapped relative policy
  optimisation).
  """
  advantage = against_random_member(limit)
  return Method(
    advantage=advantage,
    loss_filter=chain(advantage, informative_groups()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
