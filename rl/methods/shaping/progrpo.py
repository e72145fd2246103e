"""ProGRPO: advantages corrected by the confidence in prompt and answer.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

import jax
import jax.numpy as jnp

from rl import masked, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import (
  chain,
  group_normalize,
  right_verdict,
  scores,
  transform,
)

# A need, which is an array that a forward pass computes: log-probs [P, S, T] of
# the old policy (at the start of the training step).
_ANSWER = scoring.Need("old", scoring.log_probs)
_PROMPT = scoring.Need("old", scoring.log_probs, scoring.PROMPT)


def confidence(
  log_probs: jax.Array, mask: jax.Array, share: float
) -> jax.Array:
  """exp of the mean log-prob of the `share` least likely tokens.

  Args:
    log_probs: `[..., T]`.
    mask: `[..., T]` bool, tokens that exist.
    share: share of the tokens, rounded down, at least one.

  Returns:
    `[...]` in (0, 1]; 1 without tokens.
  """
  size = mask.sum(-1, keepdims=True)
  # Against rounding error: 0.2 of 5 tokens must be 1.
  count = jnp.floor(share * size + 1e-4)
  count = jnp.minimum(jnp.maximum(count, 1), size)
  ranked = jnp.sort(jnp.where(mask, log_probs, jnp.inf), -1)
  is_lowest = jnp.arange(mask.shape[-1]) < count
  return jnp.exp(masked.mean(ranked, is_lowest))


@transform(takes="sample", needs={_ANSWER, _PROMPT})
def add_confidence_gap(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, share: float
) -> jax.Array:
  """A + alpha (c(prompt) - c(answer)) in groups with a right sample."""
  prompts = scoring.view_tokens(rollout, scoring.PROMPT)
  valid = rollout.sample_mask
  prompt_confidence = confidence(
    rollout.extras[_PROMPT], prompts.mask, share
  )  # [P, 1]
  answer_confidence = confidence(
    rollout.extras[_ANSWER], rollout.valid("token"), share
  )  # [P, S]
  solved = (valid & right_verdict(rollout)).any(-1, keepdims=True)
  solved &= masked.count(valid, keepdims=True) > 1
  gap = prompt_confidence - answer_confidence
  return signal + jnp.where(valid & solved, alpha * gap, 0.0)


def progrpo(
  alpha: float = 0.3,
  share: float = 0.2,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """GRPO that favours the less confident of equally rewarded answers.

    A~_i = A_i + alpha (c(q) - c(o_i | q)),  c = exp(mean log pi)

  A_i [P, S] is the z-score of sample i's score in its group, q the prompt and
  o_i the answer. The mean is over the least likely tokens, of the answer or of
  the prompt from its second token on, under the old policy. Groups without a
  right sample, and those with one sample, keep A; groups of right samples only
  are corrected. The mean of the correction within a group is not 0. The loss is
  PPO-clip, averaged over tokens, without a KL.
  Open: alpha is not stated; 0.1 to 0.5 is worth a sweep.
  Source: Li et al. 2026, Back to Basics: Revisiting Exploration via Generative
  Probabilities (ProGRPO).

  Args:
    alpha: weight of the correction.
    share: share of the tokens, the least likely ones, in c.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  gap = add_confidence_gap(alpha, share)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), gap),
    loss=policy_gradient(ppo_clip(low, high)),
  )
