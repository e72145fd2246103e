"""GRPO, group relative policy optimisation: the z-score within a group.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import chain, group_normalize, scores


def grpo(
  clip: float = 0.2, beta: float = 0.04, ddof: int = 1, eps: float = 1e-6
) -> Method:
  """A_i = (R_i - mean R) / (std R + eps) at every token of sample i.

  R_i [P, S] is the score of sample i; mean and standard deviation are over its
  group, the samples of one prompt. The loss is PPO-clip plus beta times k3, an
  estimator of the KL to the policy at the start of the run; both are averaged
  over the tokens of each sample, then over samples.
  Deviation: the paper's formula is not exactly 0 for equal scores, because of
  rounding, and not defined for one sample. In this implementation a group of
  equal scores, or with one sample, has A exactly 0.
  Source: Shao et al. 2024, DeepSeekMath.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    beta: weight of the KL; 0 drops the reference and its forward pass.
    ddof: the standard deviation of n samples divides by n - ddof.
    eps: constant added to the standard deviation.
  """
  aggregate = seq_mean_token_mean()
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=aggregate)
  return Method(
    advantage=chain(scores(), group_normalize(ddof, eps)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
