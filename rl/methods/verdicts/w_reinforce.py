"""Weighted-REINFORCE: a small weight on right samples, 1 on wrong ones.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import known_verdict, only


def w_reinforce(positive: float = 0.1, clip: float = 0.2) -> Method:
  """A_i = +lambda on right samples, -1 on wrong ones, lambda = `positive`.

  A is [P, S]. lambda = 1 is REINFORCE with rewards of +-1. lambda = 0 is `nsr`
  up to a factor: the loss is divided by the number of tokens of all samples
  with a known verdict, in `nsr` by that of the wrong samples. There is no
  baseline, no scale and no KL; the loss is PPO-clip. Right and wrong are the
  verdicts (`Rollout.correct`), not the scores; samples with an unknown verdict
  are left out.
  Source: The Surprising Effectiveness of Negative Reinforcement.
  Quantity: correct.

  Args:
    positive: lambda, the advantage of right samples.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=signed_verdicts(right=positive),
    loss_filter=only(known_verdict),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
