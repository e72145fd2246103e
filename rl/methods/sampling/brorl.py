"""BroRL: hundreds of samples per prompt, and a reference that is reset.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import sync
from rl.transforms import chain, group_normalize, mixed_verdicts, scores


def brorl(
  low: float = 0.2,
  high: float = 0.28,
  beta: float = 1e-3,
  every: int = 100,
  ddof: int = 1,
) -> Method:
  """ProRL's recipe, meant for about 512 samples of each of a few prompts.

  A [P, S] is the z-score of a sample's score in its group. The loss is PPO-clip
  on groups of mixed verdicts, plus beta k2, an estimator of the KL to a
  reference policy; both are averaged over tokens. What makes it BroRL is
  `config.rollout.samples`: as the number N of samples grows, the influence of
  the unsampled tokens of the softmax on the sign of an update vanishes.
  Open: beta and the period are not stated in what we have of the recipe.
  Source: Hu et al. 2025, BroRL: Scaling Reinforcement Learning via Broadened
  Exploration.

  Args:
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    beta: weight of the KL.
    every: training steps between resets of the reference to the policy.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(ppo_clip(low, high)) + beta * kl("k2"),
    parameter_sets=(("ref", sync(every)),),
  )
