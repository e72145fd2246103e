"""GSPO: importance ratios and clips of whole sequences.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl.losses import ratios
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores


def gspo(low: float = 3e-4, high: float = 4e-4, ddof: int = 1) -> Method:
  """PPO-clip of s_i = exp(mean_t log rho_t), one ratio for a whole sample.

  rho_t [P, S, T] is the importance ratio of token t, the mean is over the
  tokens of sample i, and A_i is the z-score of its score in its group. Every
  token of sample i has the value s_i, with the gradient of sg[s_i] rho_t /
  sg[rho_t], where sg stops the gradient. The mean of this over the tokens of
  the sample has the gradient of s_i. The loss is averaged over the tokens of
  each sample, then over samples, without a KL.
  Source: Zheng et al. 2025, Group Sequence Policy Optimization.

  Args:
    low, high: clip range [1 - low, 1 + high] of s_i.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      ppo_clip(low, high),
      ratio=ratios.sequence_mean,
      aggregate=seq_mean_token_mean(),
    ),
  )
