"""REINFORCE with a KL penalty per token and returns whitened over the batch."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import (
  chain,
  log_ratios,
  place_last,
  returns_to_go,
  scores,
  whiten,
)


def reinforce_pp(
  beta: float = 1e-4, gamma: float = 1.0, clip: float = 0.2
) -> Method:
  """A_t = whiten(G_t), G_t = sum_{u >= t} gamma^(u - t) (r_u - beta k1_u).

  r is the score, on the last token, and k1 = log pi_old - log pi_ref. Mean and
  standard deviation (ddof 0) are over all tokens of the batch, so long samples
  weigh more; no group is needed. PPO-clip, token mean. beta = 0 drops the
  reference and its forward pass. With equal scores everywhere, and gamma 1,
  what is whitened is the KL alone.
  Deviation: a batch of fewer than two tokens rests.
  Source: Hu 2025, REINFORCE++; beta: the released scripts.
  """
  rewards = chain(scores(), place_last())
  if beta:
    rewards += -beta * log_ratios("old", "ref")
  return Method(
    advantage=chain(rewards, returns_to_go(gamma), whiten()),
    loss=policy_gradient(ppo_clip(clip, clip)),
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
