"""MaxRL: the policy gradient of the truncated log of the success rate.

Axes: P prompts, S samples per prompt (a group).
"""

import jax
import jax.numpy as jnp

from rl import advantages, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import among, chain, known_verdict, transform, verdicts


@transform(takes="sample")
def relative_to_mean(signal: jax.Array, rollout: types.Rollout) -> jax.Array:
  """Returns (R_i - mean R) / mean R of the group; 0 if the mean is not above 0.

  Args:
    signal: `[P, S]` rewards of at least 0.
    rollout: the rollout.
  """
  valid = rollout.sample_mask
  mean = masked.mean(signal, valid, keepdims=True)
  centered = advantages.center(signal, valid)
  return jnp.where(mean > 0, centered / jnp.where(mean > 0, mean, 1.0), 0.0)


def maxrl(clip: float = 0.2) -> Method:
  """A_i = (r_i - mean r) / mean r, with r_i = 1 for a right sample, else 0.

  A [P, S] is w/c for each of the c right samples of a group and -1 for each of
  its w wrong ones, and 0 if no sample is right. Samples with an unknown verdict
  are left out. Over the n samples of a group, (1/n) sum_i A_i grad log pi(y_i)
  is an unbiased estimate of the gradient of

    f(p) = - sum_{j=1}^{n-1} (1 - p)^j / j,

  log p truncated after degree n - 1, where p is the success rate of the prompt.
  The weight of a prompt is f'(p) = (1 - (1 - p)^(n-1)) / p: n - 1 for p -> 0,
  and 1 for p = 1. That of the mean score is 1 everywhere. `from_value` has the
  same advantages, divided by n, for the series of log p of degree n - 1. The
  loss is PPO-clip, averaged over the tokens of all samples, without a KL, so
  that long samples weigh more than in the estimate above.
  Deviation: the released code adds 1e-6 to the mean that it divides by.
  Source: Maximum Likelihood Reinforcement Learning (MaxRL), arXiv 2602.02710.
  It states the truncation as n, which holds for its estimator without a
  baseline.
  Quantity: correct.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio. The paper
      makes one update per rollout, in which it has no effect.
  """
  return Method(
    advantage=chain(verdicts(), among(known_verdict, relative_to_mean())),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
