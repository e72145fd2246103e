"""REINFORCE++ with the group's mean as baseline, whitened over the batch.

Axes: P prompts, S samples per prompt (a group).
"""

from rl import registry
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import broadcast, center, chain, scores, whiten


def reinforce_pp_baseline(
  beta: float = 1e-5, whiten_over: str = "token", clip: float = 0.2
) -> Method:
  """A_i = whiten(R_i - mean R), whitened over the batch.

  R_i [P, S] is the score of sample i and mean R the mean of its group, the
  samples of one prompt. Adding a constant to the scores of a group changes
  nothing. A group of equal scores has 0 before whitening, and after it too if
  samples are counted; if tokens are counted, the mean that is subtracted need
  not be 0. The loss is PPO-clip plus beta k2, an estimator of the KL to the
  policy at the start of the run, averaged over tokens.
  Source: Hu et al. 2025, REINFORCE++; beta: the released scripts.

  Args:
    beta: weight of the KL; 0 drops the reference and its forward pass.
    whiten_over: units that mean and standard deviation (ddof 0) count: "token", so
      that long samples weigh more, or "sample".
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if `whiten_over` is neither "token" nor "sample".
  """
  whitening = {"token": (broadcast(), whiten()), "sample": (whiten(),)}
  if whiten_over not in whitening:
    raise ValueError(
      registry.describe_unknown("whiten_over", whiten_over, whitening)
    )
  loss = policy_gradient(ppo_clip(clip, clip))
  return Method(
    advantage=chain(scores(), center(), *whitening[whiten_over]),
    loss=loss + beta * kl("k2") if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
