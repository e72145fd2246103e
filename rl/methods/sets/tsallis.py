"""Tsallis: the mean score, amplified by a power of the success rate.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import UsageError, advantages, masked, types
from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import among, chain, known_verdict, transform, verdicts


@transform(takes="sample")
def amplified(
  signal: jax.Array, rollout: types.Rollout, *, q: float
) -> jax.Array:
  """Returns (r_i - mean of the others) mean(r)^-q / n; 0 if none is right.

  Args:
    signal: `[P, S]` verdicts.
    rollout: the rollout.
    q: power of the amplification.
  """
  valid = rollout.sample_mask
  mean = masked.mean(signal, valid, keepdims=True)
  n = jnp.maximum(masked.count(valid, keepdims=True), 1.0)
  factor = jnp.where(mean > 0, mean, 1.0) ** -q / n
  return (
    jnp.where(mean > 0, advantages.leave_one_out(signal, valid), 0) * factor
  )


def tsallis(q: float = 0.75, clip: float = 0.2) -> Method:
  """Ascends E over prompts of (p^(1-q) - 1) / (1 - q), the Tsallis logarithm.

  p is the success rate of the prompt. A_i [P, S] is the leave-one-out advantage
  of the verdict of sample i over n, the number of samples of the group, times
  (mean verdict)^-q: the amplification p^-q, with p estimated from the group. q
  = 0 is the mean accuracy (`rloo`), and the limit q = 1 is log p (`maxrl`). A
  group without a right sample has no gradient. The mean depends on the samples
  that it multiplies, so that the estimate is biased by O(q / (n p^(q+1))); the
  unbiased estimate of the truncated series is `from_value("tsallis@0.75")`.
  Samples with an unknown verdict are left out. The loss is PPO-clip, summed
  over the tokens of all samples of a group and averaged over prompts.
  Left out: the paper's second estimator, which fine-tunes on samples of the
  posterior.
  Source: How Fast Should a Model Commit to Supervision? Training Reasoning
  Models on the Tsallis Loss Continuum (J_Q, GARL), arXiv 2604.25907, of which
  only the abstract was available.
  Quantity: correct.

  Args:
    q: power of the amplification, from 0 to 1.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: q is out of range.
  """
  if not 0 <= q <= 1:
    raise UsageError(f"q = {q} must be from 0 to 1; the paper uses 0.75")
  return Method(
    advantage=chain(verdicts(), among(known_verdict, amplified(q))),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
