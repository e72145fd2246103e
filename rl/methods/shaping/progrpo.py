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
_ANSWER_LOG_PROBS = scoring.Need("old", scoring.log_probs)
# A need: log-probs of the tokens of the prompts, under the same policy.
_PROMPT_LOG_PROBS = scoring.Need("old", scoring.log_probs, scoring.PROMPT)


def confidence(
  log_probs: jax.Array, mask: jax.Array, share: float
) -> jax.Array:
  """exp of the mean log-prob of the `share` least likely tokens.

  Args:
    log_probs: `[..., T]`.
    mask: `[..., T]` bool, tokens that exist.
    share: share of the tokens, rounded down, but at least one token.

  Returns:
    `[...]` from 0 to 1; 1 if there are no tokens.
  """
  num_tokens = mask.sum(-1, keepdims=True)
  # 1e-4 is against rounding error: a share of 0.2 of 5 tokens must be 1 token.
  count = jnp.floor(share * num_tokens + 1e-4)
  count = jnp.minimum(jnp.maximum(count, 1), num_tokens)
  ascending = jnp.sort(jnp.where(mask, log_probs, jnp.inf), -1)
  is_lowest = jnp.arange(mask.shape[-1]) < count
  return jnp.exp(masked.mean(ascending, is_lowest))


@transform(takes="sample", needs={_ANSWER_LOG_PROBS, _PROMPT_LOG_PROBS})
def add_confidence_gap(
  signal: jax.Array, rollout: types.Rollout, *, alpha: float, share: float
) -> jax.Array:
  """Returns A + alpha (c(prompt) - c(answer)), c as in `progrpo`.

  Groups without a right sample, and those with a single sample, keep A.
  """
  prompts = scoring.view_tokens(rollout, scoring.PROMPT)
  valid = rollout.sample_mask
  prompt_confidence = confidence(
    rollout.extras[_PROMPT_LOG_PROBS], prompts.mask, share
  )  # [P, 1]
  answer_confidence = confidence(
    rollout.extras[_ANSWER_LOG_PROBS], rollout.valid("token"), share
  )  # [P, S]
  is_corrected = (valid & right_verdict(rollout)).any(-1, keepdims=True)
  is_corrected &= masked.count(valid, keepdims=True) > 1
  gap = prompt_confidence - answer_confidence
  return signal + jnp.where(valid & is_corrected, alpha * gap, 0.0)


def progrpo(
  alpha: float = 0.3,
  share: float = 0.2,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """GRPO that favours the less confident of equally rewarded answers.

    A~_i = A_i + alpha (c(q) - c(o_i | q)),  c = exp(mean log pi_old)

  A_i [P, S] is the z-score of sample i's score in its group, q the prompt, o_i
  the answer and pi_old the policy at the start of the training step. The mean
  is over the `share` least likely tokens of the answer, or of the prompt from
  its second token on. A group keeps A if it has no right sample, or only one
  sample; any other group is corrected, also one whose samples are all right.
  The mean of the correction within a group is not 0. The loss is PPO-clip,
  averaged over the tokens of all samples, without a KL.
  Open: the paper does not state alpha; 0.3 is a guess, and values from 0.1 to
  0.5 are worth a comparison.
  Source: Li et al. 2026, Back to Basics: Revisiting Exploration via Generative
  Probabilities (ProGRPO).
  Quantity: old/log_probs, by sample.

  Args:
    alpha: weight of the correction.
    share: share of the tokens, the least likely ones, that c is computed from.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  gap = add_confidence_gap(alpha, share)
  return Method(
    advantage=chain(scores(), group_normalize(ddof), gap),
    loss=policy_gradient(ppo_clip(low, high)),
  )
