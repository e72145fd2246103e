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
  """For each token of a group, counts the samples that contain its id.

  It sorts pairs (id, sample), so that no array has the size of the vocabulary.

  Args:
    tokens: `[S, T]` ids.
    valid: `[S, T]` bool, tokens that are included.
    kinds: `[S, M]` 0/1, whether a sample is in each of M classes.

  Returns:
    `[S, T, M]`, the number of samples of each class that contain the id; a
    sample counts once however often it contains the id.
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
  """Returns the bonus of `ktae` for an id that a right and b wrong samples
  contain.

  Args:
    a, b: number of right and of wrong samples that contain the id.
    right, wrong: number of all right and of all wrong samples of the group,
      broadcastable to a; the bonus is 0 if either is 0.
    max_right: static number, at least `right`; the exact test adds up that many
      probabilities.

  Returns:
    An array shaped like `a`.
  """

  def log_ways(n, k):  # log of the binomial coefficient, -inf outside
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return jnp.where((k >= 0) & (k <= n), ways, -jnp.inf)

  with_id, total = a + b, right + wrong

  # Log of the probability that x of the samples with the id are right, up to a
  # constant.
  def log_probability(x):
    return log_ways(right, x) + log_ways(wrong, with_id - x)

  observed = log_probability(a)
  counts = jnp.arange(max_right + 1.0)  # every possible x
  log_probabilities = jax.vmap(log_probability, out_axes=-1)(counts)
  # The two-sided test adds up the probabilities of all counts that are at most
  # as likely as the observed one, up to rounding error.
  as_rare = log_probabilities <= observed[..., None] + 1e-4
  # Relative to the largest, so that the exponentials do not overflow.
  ways = jnp.exp(log_probabilities - log_probabilities.max(-1, keepdims=True))
  p_value = jnp.sum(jnp.where(as_rare, ways, 0.0), -1) / ways.sum(-1)
  fisher = jnp.where(
    p_value < 1 - 1e-5, jnp.exp(-2 * p_value), 0.0
  )  # F of `ktae`

  def bits(k, n):  # n times the entropy of a share k / n
    share = k / jnp.maximum(n, 1.0)
    return (entr(share) + entr(1 - share)) / jnp.log(2.0) * n

  remaining = bits(a, with_id) + bits(right - a, total - with_id)
  gain = (bits(right, total) - remaining) / jnp.maximum(total, 1.0)  # IG
  x = jnp.arcsin(jnp.sqrt(a / jnp.maximum(right, 1.0)))
  x -= jnp.arcsin(jnp.sqrt(b / jnp.maximum(wrong, 1.0)))
  # 2 sigmoid(y / 2) - 1 = tanh(y / 4)
  bonus = jnp.tanh((fisher + gain) * x / 4)
  return jnp.where((right > 0) & (wrong > 0), bonus, 0.0)


@transform(takes="none", gives="token")
def key_tokens(_, rollout: types.Rollout) -> jax.Array:
  """Returns `key_bonus` of the token's id in its group, `[P, S, T]`.

  There is no bonus at the EOS of a finished sample.
  """
  valid, valid_samples = rollout.valid("token"), rollout.sample_mask
  verdicts = jnp.stack([rollout.correct == 1, rollout.correct == 0], -1)
  # Classes right and wrong, [P, S, 2]; unknown verdicts are in neither.
  kinds = (verdicts & valid_samples[..., None]).astype(jnp.float32)
  counts = jax.vmap(presence)(rollout.completions, valid, kinds)  # [P, S, T, 2]
  totals = kinds.sum(1)[:, None, None]  # [P, 1, 1, 2]
  args = (counts[..., 0], counts[..., 1], totals[..., 0], totals[..., 1])
  bonus = key_bonus(*args, valid_samples.shape[1])
  ends = sample_ends(rollout) & rollout.finished[..., None]
  return jnp.where(valid & ~ends, bonus, 0.0)


def ktae(clip: float = 0.2, ddof: int = 1) -> Method:
  """GRPO plus a bonus for ids that right samples contain more often.

    A_t  A + 2 sigmoid((F + IG) x / 2) - 1, for the id of token t
    F    exp(-2 p), with p of Fisher's exact test (two-sided); 0 at p = 1
    IG   information gain about the verdict, in bits
    x    asin sqrt(a) - asin sqrt(b)

  a is the share of the right samples of the group that contain the id, and b
  that of the wrong ones; p and IG compare whether a sample contains the id with
  whether it is right. The bonus is negative for ids that wrong samples contain
  more often. A [P, S] is the z-score of a sample's score in its group. There is
  no bonus in a group without right or without wrong samples, and none at the
  EOS of a finished sample. Samples with an unknown verdict are not counted. The
  loss is PPO-clip, averaged over the tokens of all samples, without a KL.
  Left out: the paper has an optional term in x, the frequency of the id.
  Source: Sun et al. 2025, KTAE: A Model-Free Algorithm to Key-Tokens Advantage
  Estimation in Mathematical Reasoning.
  Quantity: key_tokens.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  return Method(
    advantage=advantage + key_tokens(),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
