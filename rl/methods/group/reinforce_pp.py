"""REINFORCE++: a KL penalty per token, and returns whitened over the batch.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

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

  t and u are tokens of one sample. r_u [P, S, T] is the score at the last token
  of a sample and 0 elsewhere, and k1_u = log pi_old - log pi_ref at token u,
  with pi_old the policy at the start of the training step and pi_ref that at
  the start of the run. Returns G are whitened (ddof 0) over the tokens of all
  samples, so long samples weigh more; groups are not used. The loss is
  PPO-clip, averaged over the tokens of all samples. If all scores are equal and
  gamma is 1, only the KL varies, and whitening brings it to variance 1.
  Deviation: the paper does not treat a batch of fewer than two tokens; this
  implementation gives it A = 0.
  Source: Hu 2025, REINFORCE++; beta: the released scripts.

  Args:
    beta: weight of the KL penalty; 0 drops the reference policy and its forward
      pass.
    gamma: discount per token.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  rewards = chain(scores(), place_last())
  if beta:
    rewards += -beta * log_ratios("old", "ref")
  return Method(
    advantage=chain(rewards, returns_to_go(gamma), whiten()),
    loss=policy_gradient(ppo_clip(clip, clip)),
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
