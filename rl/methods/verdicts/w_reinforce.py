"""Weighted-REINFORCE: a little of the right samples, all of the wrong ones."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import known_verdict, only


def w_reinforce(positive: float = 0.1, clip: float = 0.2) -> Method:
  """A_i = +lambda on right samples, -1 on wrong ones, lambda = `positive`.

  1 is REINFORCE with rewards of +-1, 0 is `nsr` up to the number of tokens it
  divides by: here all tokens with a known verdict. Otherwise as `psr`.
  Source: The Surprising Effectiveness of Negative Reinforcement.
  """
  return Method(
    advantage=signed_verdicts(right=positive),
    loss_filter=only(known_verdict),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
