"""REINFORCE++ with the group's mean as baseline, whitened over the batch.

Axes: P prompts, S samples per prompt (a group).
"""

from rl import UsageError, registry
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import broadcast, center, chain, scores, whiten


def reinforce_pp_baseline(
  beta: float = 1e-5, whiten_over: str = "token", clip: float = 0.2
) -> Method:
  """A_i = whiten(R_i - mean R), mean R of the group, whitened over the batch.

  R_i [P, S] is the score of sample i. Adding a constant to the scores of a
  group changes nothing. With `whiten_over` "sample", a group of equal scores
  has A = 0. With "token" it has A = 0 only if the mean of R_i - mean R over all
  tokens is 0; if samples have different lengths it usually is not, and such a
  group then has a small advantage. The loss is PPO-clip plus beta times k2, an
  estimator of the KL to the policy at the start of the run; both are averaged
  over the tokens of all samples.
  Source: Hu et al. 2025, REINFORCE++; beta: the released scripts.

  Args:
    beta: weight of the KL; 0 drops the reference and its forward pass.
    whiten_over: what the mean and standard deviation (ddof 0) are over:
      "token", all tokens, so that long samples weigh more, or "sample", all
      samples.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `whiten_over` is neither "token" nor "sample".
  """
  whitening = {"token": (broadcast(), whiten()), "sample": (whiten(),)}
  if whiten_over not in whitening:
    raise UsageError(
      registry.describe_unknown("whiten_over", whiten_over, whitening)
    )
  loss = policy_gradient(ppo_clip(clip, clip))
  return Method(
    # center() is over each group, whiten() over the batch.
    advantage=chain(scores(), center(), *whitening[whiten_over]),
    loss=loss + beta * kl("k2") if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
