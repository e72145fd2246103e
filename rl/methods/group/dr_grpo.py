"""GRPO done right: no division by the spread or by the sample's length."""

from rl.losses.aggregates import seq_mean_token_sum_norm
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import center, chain, scores


def dr_grpo(clip: float = 0.2, horizon: int | None = None) -> Method:
  """A_i = R_i - mean R; loss = sum over tokens / (samples x horizon).

  `horizon` is a constant, by default the T of the batch; changing it rescales
  the learning rate only. A group of one has A = 0. Source: Liu et al. 2025,
  Understanding R1-Zero-like Training.
  """
  return Method(
    advantage=chain(scores(), center()),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=seq_mean_token_sum_norm(horizon)
    ),
  )
