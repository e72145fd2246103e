"""KTAE: a bonus for tokens that distinguish right samples from wrong ones.

Axes: P prompts, S samples per prompt (a group), T completion tokens, M classes
of samples.
"""

import jax
import jax.numpy as jnp
from jax.scipy.special import entr, gammaln

from rl import types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  broadcast,
  chain,
  group_normalize,
  sample_ends,
  scores,
  transform,
)


def presence(
  tokens: jax.Array, valid: jax.Array, kinds: jax.Array
) -> jax.Array:
  """For each token of a group, the number of samples that contain its id.

  It sorts (id, sample) pairs, so no array has the size of the vocabulary.

  Args:
    tokens: `[S, T]` ids.
    valid: `[S, T]` bool, tokens that count.
    kinds: `[S, M]` 0/1, the membership of samples in M classes.

  Returns:
    `[S, T, M]` number of samples of each class; a sample counts once however
      often it contains the id.
  """
  ids = jnp.where(valid, tokens, -1).reshape(-1)
  sample = jnp.repeat(jnp.arange(len(tokens)), tokens.shape[1])
  order = jnp.lexsort((sample, ids))
  ids, sample = ids[order], sample[order]
  new_id = (ids != jnp.roll(ids, 1)).at[0].set(True)
  # Marks the first of equal (id, sample) pairs.
  is_first = new_id | (sample != jnp.roll(sample, 1))
  # Index of the id among the distinct ids.
  id_index = jnp.cumsum(new_id) - 1
  members = jnp.where(is_first[:, None], kinds[sample], 0)
  counts = jax.ops.segment_sum(members, id_index, len(ids))[id_index]
  # Back from sorted order to [S, T, M].
  return jnp.zeros_like(counts).at[order].set(counts).reshape(*tokens.shape, -1)


def key_bonus(
  a: jax.Array, b: jax.Array, right: jax.Array, wrong: jax.Array, max_right: int
) -> jax.Array:
  """The bonus of `ktae` for ids that a right and b wrong samples contain.

  Args:
    a, b: number of right and of wrong samples that contain the id.
    right, wrong: number of right and of wrong samples, broadcastable to a; the
      bonus is 0 if either is 0.
    max_right: number that is at least `right`; it bounds the sum of the test.
  """

  def log_ways(n, k):  # log of the binomial coefficient, -inf outside
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return jnp.where((k >= 0) & (k <= n), ways, -jnp.inf)

  containing, total = a + b, right + wrong

  def log_chance(x):  # of x right samples with the id, up to a constant
    return log_ways(right, x) + log_ways(wrong, containing - x)

  observed, x = log_chance(a), jnp.arange(max_right + 1.0)
  log_chances = jax.vmap(log_chance, out_axes=-1)(x)
  # The two-sided test adds up the probabilities of all counts that are as rare
  # as the observed one, up to rounding error.
  as_rare = log_chances <= observed[..., None] + 1e-4
  # Relative to the largest, so that the exponentials do not overflow.
  ways = jnp.exp(log_chances - log_chances.max(-1, keepdims=True))
  p = jnp.sum(jnp.where(as_rare, ways, 0.0), -1) / ways.sum(-1)
  fisher = jnp.where(p < 1 - 1e-5, jnp.exp(-2 * p), 0.0)

  def bits(k, n):  # n times the entropy of a share k / n
    share = k / jnp.maximum(n, 1.0)
    return (entr(share) + entr(1 - share)) / jnp.log(2.0) * n

  remaining = bits(a, containing) + bits(right - a, total - containing)
  gain = (bits(right, total) - remaining) / jnp.maximum(total, 1.0)
  x = jnp.arcsin(jnp.sqrt(a / jnp.maximum(right, 1.0)))
  x -= jnp.arcsin(jnp.sqrt(b / jnp.maximum(wrong, 1.0)))
  bonus = jnp.tanh((fisher + gain) * x / 4)
  return jnp.where((right > 0) & (wrong > 0), bonus, 0.0)


@transform(takes="token")
def add_key_tokens(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """A_t + `key_bonus` of the token's id in its group; no bonus at EOS."""
  valid, valid_samples = rollout.valid("token"), rollout.sample_mask
  verdicts = jnp.stack([rollout.correct == 1, rollout.correct == 0], -1)
  # Classes right and wrong, [P, S, 2]; unknown verdicts are in neither.
  kinds = (verdicts & valid_samples[..., None]).astype(jnp.float32)
  counts = jax.vmap(presence)(rollout.completions, valid, kinds)  # [P, S, T, 2]
  totals = kinds.sum(1)[:, None, None]  # [P, 1, 1, 2]
  args = (counts[..., 0], counts[..., 1], totals[..., 0], totals[..., 1])
  bonus = key_bonus(*args, valid_samples.shape[1])
  ends = sample_ends(rollout) & rollout.finished[..., None]
  return jnp.where(valid, signal + jnp.where(ends, 0.0, bonus), 0.0)


def ktae(clip: float = 0.2, ddof: int = 1) -> Method:
  """GRPO plus a bonus for ids that tell right samples of a group from wrong.

    A_t  A + 2 sigmoid((F + IG) x / 2) - 1 for the token's id, which a share a
         of the right and a share b of the wrong samples contain
    F    exp(-2 p), with p of Fisher's exact test (two-sided); 0 at p = 1
    IG   information gain about the verdict, in bits
    x    asin sqrt(a) - asin sqrt(b)

  A [P, S] is the z-score of a sample's score in its group. There is no bonus in
  a group that lacks right or wrong samples, and none at the EOS of a finished
  sample. Samples with unknown verdict are not counted. The loss is PPO-clip,
  averaged over tokens, without a KL.
  Left out: the optional term frequency in x.
  Source: Sun et al. 2025, KTAE: A Model-Free Algorithm to Key-Tokens Advantage
  Estimation in Mathematical Reasoning.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  return Method(
    advantage=chain(advantage, add_key_tokens()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
