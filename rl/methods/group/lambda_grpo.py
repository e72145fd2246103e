"""lambda-GRPO: divides by the number of samples that share a token's prefix.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import broadcast, chain, group_normalize, scores, transform

Array = jax.Array


def count_sharing(
  completions: Array, lengths: Array, sample_mask: Array
) -> Array:
  """Counts the samples of a group that agree up to and including each token.

  n_it is the number of samples whose first t + 1 tokens are those of sample i,
  sample i included.

  Args:
    completions: `[P, S, T]` ids.
    lengths: `[P, S]`, number of tokens of each completion.
    sample_mask: `[P, S]` bool, samples that exist.

  Returns:
    `[P, S, T]` float32; 0 at tokens that do not exist.
  """
  t = jnp.arange(completions.shape[-1])
  exists = (t < lengths[..., None]) & sample_mask[..., None]  # [P, S, T]
  equal = completions[:, :, None] == completions[:, None]  # [P, S, S, T]
  equal &= exists[:, :, None] & exists[:, None]
  # A prefix is shared as long as no earlier token differs.
  shared = jnp.cumprod(equal, axis=-1, dtype=jnp.int32)
  return shared.sum(2).astype(jnp.float32)


@transform(takes="token")
def divide_by_sharing(signal: Array, rollout: types.Rollout) -> Array:
  """Returns the signal `[P, S, T]` over `count_sharing`."""
  tokens = rollout.tokens
  count = count_sharing(tokens.completions, tokens.lengths, rollout.sample_mask)
  return signal / jnp.maximum(count, 1.0)


def lambda_grpo(clip: float = 0.2) -> Method:
  """A_it = z(R_i) / n_it, where n_it samples agree up to token t, included.

  z is the z-score of the score in the group, (R - mean) / (std + 1e-4) with
  ddof 1. In GRPO with one update per rollout, a token that n samples share is
  pushed by the sum of their advantages: n times that of their mean score, which
  is a process reward of the shared prefix whose weight grows with n. The
  division takes that factor away. A is [P, S, T]. The loss is PPO-clip,
  averaged over the tokens of all samples; the average divides by the number of
  tokens, not by the sum of 1 / n_it.
  Deviation: without the KL, which is off in the released command; with it, the
  paper divides its terms too.
  Source: GRPO is Secretly a Process Reward Model (lambda-GRPO),
  arXiv 2509.21154.
  Quantity: divide_by_sharing.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(
      scores(), group_normalize(eps=1e-4), broadcast(), divide_by_sharing()
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
