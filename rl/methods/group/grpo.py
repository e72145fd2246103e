"""Group relative policy optimisation: the z-score of a group."""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import chain, group_normalize, scores


def grpo(
  clip: float = 0.2, beta: float = 0.04, ddof: int = 1, eps: float = 1e-6
) -> Method:
  """A_i = (R_i - mean R) / (std R + eps) on every token of sample i.

  PPO-clip, mean over samples of the mean over tokens, plus beta k3 to the
  starting policy. beta = 0 drops the reference and its forward pass.
  Deviation: a group of equal scores, or of one, has A exactly 0.
  Source: Shao et al. 2024, DeepSeekMath.
  """
  aggregate = seq_mean_token_mean()
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=aggregate)
  return Method(
    advantage=chain(scores(), group_normalize(ddof, eps)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
