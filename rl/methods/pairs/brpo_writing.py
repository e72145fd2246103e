"""Writing-Zero (BRPO): a random member of the group is the reference.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.pairs import pairwise
from rl.sampling import random_keys
from rl.transforms import chain, transform


@transform(takes="none", gives="sample", needs=pairwise.needs_of_preferences)
def against_random_member(
  _, rollout: types.Rollout, *, limit: float, preferences: str = "scores"
) -> jax.Array:
  """Returns +1 for samples that beat a random sample of their group, else -1.

  That sample is the reference. It has 0, and so has a sample that the judge did
  not compare with it. A whole group has 0 if |sum of these values| / n, n its
  number of samples, exceeds `limit`.
  """
  valid = rollout.sample_mask
  weights = jnp.where(valid, 0.0, -jnp.inf)  # log-weights of the draw
  keys = random_keys.keys(rollout.keys, "brpo_writing")
  reference = jax.vmap(jax.random.categorical)(keys, weights)[:, None]  # [P, 1]
  preferred = jnp.take_along_axis(
    pairwise.preferred(rollout, preferences), reference[..., None], -1
  )
  # A tie (1/2) counts as a loss.
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
  """Keeps the samples of groups in which a sample has a signal other than 0."""
  has_signal = (signal != 0).any(-1, keepdims=True)
  return jnp.broadcast_to(has_signal, rollout.sample_mask.shape)


def brpo_writing(
  limit: float = 0.6, clip: float = 0.2, preferences: str = "scores"
) -> Method:
  """A_i = +1 if sample i beats a random sample of its group, else -1.

  A is [P, S]. The random sample, the reference, is drawn with the PRNG key of
  the prompt and has A = 0; no mean is subtracted and nothing is divided by a
  standard deviation. Sample i beats the reference if it is preferred in every
  order of presentation: a tie, or two contradicting judgements, count as a
  loss. Groups with |sum_i A_i| / n > `limit`, n the size of the group, are not
  trained on, and neither are groups with one sample. The loss is PPO-clip,
  averaged over the tokens of all samples, without a KL.

  The paper's preferences are judgements of a reward model that compares two
  texts. With `preferences="task"` they are read from the extra
  "task/preferences", the answers to the question `preference` of
  `rewards.judged`; with `preferences="scores"`, for tasks without judgements,
  sample i is preferred to j if its score is higher.
  Open: the paper's surrogate was not at hand; PPO-clip is a choice of this
  implementation.
  Deviation: the paper samples until the batch is full of groups within the
  limit; this implementation drops the other groups.
  Source: Jia et al. 2025, Writing-Zero (bootstrapped relative policy
  optimisation).
  Quantity: task/preferences.

  Args:
    limit: largest |sum A| / n of a group.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    preferences: "scores" or "task", see above.
  """
  advantage = against_random_member(limit, preferences)
  return Method(
    advantage=advantage,
    loss_filter=chain(advantage, informative_groups()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
