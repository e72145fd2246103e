"""REINFORCE++ with the group's mean as baseline: one spread for the batch."""

from rl import choices
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import broadcast, center, chain, scores, whiten


def reinforce_pp_baseline(
  beta: float = 1e-5, over: str = "token", clip: float = 0.2
) -> Method:
  """A_i = whiten(R_i - mean R), whitened over the whole batch.

  Statistics (ddof 0) over tokens weigh long samples more, over samples not. A
  constant added to a group changes nothing; a group of equal scores is at the
  batch's mean, which is 0 only over samples. PPO-clip, token mean, plus beta k2
  to the starting policy; beta = 0 drops the reference.
  Source: Hu et al. 2025, REINFORCE++; beta: the released scripts.

  Raises:
    ValueError: `over` is neither "token" nor "sample".
  """
  links = {"token": (broadcast(), whiten()), "sample": (whiten(),)}
  if over not in links:
    raise ValueError(choices.unknown("over", over, links))
  loss = policy_gradient(ppo_clip(clip, clip))
  return Method(
    advantage=chain(scores(), center(), *links[over]),
    loss=loss + beta * kl("k2") if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
