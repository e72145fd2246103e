"""BroRL: hundreds of samples per prompt, and a reference that is renewed.

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
  on the samples of groups with a right and a wrong verdict, plus beta times k2,
  an estimator of the KL to the reference policy; both are averaged over the
  tokens of these samples. The reference policy is a copy of the policy that is
  renewed after every `every` training steps. What makes this method BroRL is
  the setting `config.rollout.samples`: as the number of samples grows, tokens
  that were not sampled lose their influence on whether an update raises or
  lowers the expected score.
  Open: beta and the period `every` are not stated in the description of the
  recipe that was at hand; the defaults are guesses.
  Source: Hu et al. 2025, BroRL: Scaling Reinforcement Learning via Broadened
  Exploration.

  Args:
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    beta: weight of the KL.
    every: number of training steps after which the reference policy is renewed.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(ppo_clip(low, high)) + beta * kl("k2"),
    parameter_sets=(("ref", sync(every)),),
  )
