"""KTAE: tokens that tell the right samples from the wrong are paid more."""

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
  """Of each token of a group: how many samples of each kind contain its id.

  By sorting (id, sample) pairs, so no array has the size of the vocabulary.

  Args:
    tokens, valid: `[S, T]` ids, and which of them count.
    kinds: `[S, M]` 0/1, samples of each kind.

  Returns:
    `[S, T, M]`; a sample counts once however often it has the id.
  """
  ids = jnp.where(valid, tokens, -1).reshape(-1)
  who = jnp.repeat(jnp.arange(len(tokens)), tokens.shape[1])
  order = jnp.lexsort((who, ids))
  ids, who = ids[order], who[order]
  new_id = (ids != jnp.roll(ids, 1)).at[0].set(True)
  first = new_id | (who != jnp.roll(who, 1))
  word = jnp.cumsum(new_id) - 1
  samples = jnp.where(first[:, None], kinds[who], 0)
  held = jax.ops.segment_sum(samples, word, len(ids))[word]
  return jnp.zeros_like(held).at[order].set(held).reshape(*tokens.shape, -1)


def key_bonus(
  a: jax.Array, b: jax.Array, right: jax.Array, wrong: jax.Array, most: int
) -> jax.Array:
  """What `ktae` adds for an id in a of the right and b of the wrong samples.

  0 where right or wrong is 0. `most` >= right bounds the sum of the test.
  """

  def log_ways(n, k):
    ways = gammaln(n + 1.0) - gammaln(k + 1.0) - gammaln(n - k + 1.0)
    return jnp.where((k >= 0) & (k <= n), ways, -jnp.inf)

  held, everyone = a + b, right + wrong

  def log_chance(x):
    return log_ways(right, x) + log_ways(wrong, held - x)

  seen, x = log_chance(a), jnp.arange(most + 1.0)
  others = jax.vmap(log_chance, out_axes=-1)(x)
  as_rare = others <= seen[..., None] + 1e-4  # of rounding
  ways = jnp.exp(others - others.max(-1, keepdims=True))
  p = jnp.sum(jnp.where(as_rare, ways, 0.0), -1) / ways.sum(-1)
  fisher = jnp.where(p < 1 - 1e-5, jnp.exp(-2 * p), 0.0)

  def bits(k, n):
    share = k / jnp.maximum(n, 1.0)
    return (entr(share) + entr(1 - share)) / jnp.log(2.0) * n

  left = bits(a, held) + bits(right - a, everyone - held)
  gain = (bits(right, everyone) - left) / jnp.maximum(everyone, 1.0)
  x = jnp.arcsin(jnp.sqrt(a / jnp.maximum(right, 1.0)))
  x -= jnp.arcsin(jnp.sqrt(b / jnp.maximum(wrong, 1.0)))
  bonus = jnp.tanh((fisher + gain) * x / 4)
  return jnp.where((right > 0) & (wrong > 0), bonus, 0.0)


@transform("token")
def add_key_tokens(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """A_t + `key_bonus` of the token's id in its group; none at EOS."""
  valid, real = rollout.valid("token"), rollout.sample_mask
  verdicts = jnp.stack([rollout.correct == 1, rollout.correct == 0], -1)
  kinds = (verdicts & real[..., None]).astype(jnp.float32)
  held = jax.vmap(presence)(rollout.completions, valid, kinds)
  totals = kinds.sum(1)[:, None, None]
  args = (held[..., 0], held[..., 1], totals[..., 0], totals[..., 1])
  bonus = key_bonus(*args, real.shape[1])
  ends = sample_ends(rollout) & rollout.finished[..., None]
  return jnp.where(valid, signal + jnp.where(ends, 0.0, bonus), 0.0)


def ktae(clip: float = 0.2, ddof: int = 1) -> Method:
  """GRPO plus a bonus for ids that tell right samples of a group from wrong.

    A_t  A + 2 sigma((F + IG) x / 2) - 1, of the token's id, which a share a of
         the right and a share b of the wrong samples contain
    F    exp(-2 p), p of Fisher's exact test (two-sided); 0 at p = 1
    IG   the information gain in bits
    x    asin sqrt(a) - asin sqrt(b)

  The bonus is 0 where a group lacks one kind and at the EOS of a finished
  sample. Samples of unknown verdict are not counted. PPO-clip over the mean
  token, no KL.
  Left out: the optional term frequency in x.
  Source: Sun et al. 2025, KTAE: A Model-Free Algorithm to Key-Tokens Advantage
  Estimation in Mathematical Reasoning.
  """
  advantage = chain(scores(), group_normalize(ddof), broadcast())
  return Method(
    advantage=chain(advantage, add_key_tokens()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
