"""Dr. GRPO: no division by the standard deviation or by the sample's length.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.aggregates import seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import center, chain, scores


def dr_grpo(clip: float = 0.2, horizon: int | None = None) -> Method:
  """A_i = R_i - mean R; loss = sum over tokens / (samples x horizon).

  R_i [P, S] is the score of sample i and mean R the mean of its group. The loss
  is PPO-clip without a KL. A group with one sample, or with equal scores, has A
  = 0.
  Source: Liu et al. 2025, Understanding R1-Zero-like Training.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    horizon: constant that divides the sum over tokens; None takes T, the padded
      number of completion tokens per sample after padding. Another value
      multiplies the loss by a constant.
  """
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=seq_mean_token_sum_norm(horizon)
    ),
  )
