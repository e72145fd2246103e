"""SetPO: GRPO with what each sample adds to the diversity of its group.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

_BUCKETS = 1024  # of the hash of two neighbouring tokens


def similarities(tokens: jax.Array, mask: jax.Array) -> jax.Array:
  """Returns the cosines of the counts of token pairs, `[..., S, S]`.

  A pair is two neighbouring tokens; the first token of a sample has a pair with
  nothing. Pairs with the same hash, of 1024, count as equal.

  Args:
    tokens: `[..., S, T]` int.
    mask: `[..., S, T]` bool, tokens that count.
  """
  previous = jnp.where(mask, tokens + 1, 0)[..., :-1]
  previous = jnp.pad(previous, [(0, 0)] * (tokens.ndim - 1) + [(1, 0)])
  # Two odd factors, so that the order of a pair matters.
  pairs = (tokens * 2654435 + previous * 40503) % _BUCKETS
  zeros = jnp.zeros((*tokens.shape[:-1], _BUCKETS))
  rows = jnp.indices(tokens.shape, sparse=True)[:-1]
  counts = zeros.at[(*rows, pairs)].add(mask.astype(jnp.float32))
  length = jnp.linalg.norm(counts, axis=-1, keepdims=True)
  units = counts / jnp.where(length > 0, length, 1.0)
  return jnp.einsum("...if,...jf->...ij", units, units, precision="highest")


def marginal_diversities(kernel: jax.Array, valid: jax.Array) -> jax.Array:
  """Returns D(Y) - D(Y without i), with D = 1 - the mean of K over all pairs.

  Args:
    kernel: `[..., S, S]`, similarities K of the samples, 1 of equal ones.
    valid: `[..., S]` bool, samples that exist.

  Returns:
    `[..., S]`; 0 for samples that do not exist, and in a group of one.
  """
  both = valid[..., :, None] & valid[..., None, :]
  kernel = jnp.where(both, kernel, 0.0)
  n = masked.count(valid, keepdims=True)
  total = kernel.sum((-2, -1))[..., None]
  of_sample = 2 * kernel.sum(-1) - jnp.diagonal(kernel, axis1=-2, axis2=-1)
  without = (total - of_sample) / jnp.maximum(n - 1, 1) ** 2
  marginal = without - total / jnp.maximum(n, 1) ** 2
  return jnp.where(valid & (n > 1), marginal, 0.0)


@transform(takes="none", gives="sample")
def marginal_diversity(_, rollout: types.Rollout) -> jax.Array:
  """Returns `marginal_diversities` of the tokens that the policy wrote."""
  kernel = similarities(rollout.completions, rollout.valid("token"))
  return marginal_diversities(kernel, rollout.sample_mask)


def setpo(weight: float = 0.1, clip: float = 0.2) -> Method:
  """A = z-score of the score + weight times that of a marginal diversity.

  The diversity D of a group is 1 - the mean similarity of two of its samples,
  drawn with replacement, and the marginal diversity of sample i [P, S] is D of
  the group minus D without i. It is larger, the fewer samples are like i, and
  negative for the most common one. The similarity is the cosine of the counts
  of neighbouring token pairs. Both z-scores are over the group. The loss is
  PPO-clip, averaged over the tokens of all samples.
  Open: the paper's kernel, its form of D and its weight; the abstract, which
  has the marginal contribution that leaves one out, does not state them.
  Source: Li et al. 2026, SetPO: Set-Level Policy Optimization for
  Diversity-Preserving LLM Reasoning, arXiv 2602.01062, not checked against the
  paper.
  Quantity: marginal_diversity.

  Args:
    weight: weight of the diversity.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  outcome = chain(scores(), group_normalize())
  diversity = chain(marginal_diversity(), group_normalize())
  return Method(
    advantage=outcome + weight * diversity,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
