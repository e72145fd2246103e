"""GSPO: whole sequences are weighed, and clipped, at once."""

from rl.losses import ratios
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores


def gspo(low: float = 3e-4, high: float = 4e-4, ddof: int = 1) -> Method:
  """PPO-clip of s_i = exp(mean_t log rho_t), the same at all tokens of i.

  The value is s_i everywhere, the gradient each token's own:
  sg[s_i] rho_t / sg[rho_t]. Mean over samples of the mean over tokens, which
  makes it the gradient of s_i A_i; the z-score of the group; no KL.
  Source: Zheng et al. 2025, Group Sequence Policy Optimization.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      ppo_clip(low, high),
      ratio=ratios.sequence_mean,
      aggregate=seq_mean_token_mean(),
    ),
  )
