"""PPO, proximal policy optimisation with a value head.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.critic.values import plus_old_values, value_loss
from rl.parameter_sets import frozen
from rl.transforms import (
  Transform,
  chain,
  gae,
  log_ratios,
  place_last,
  scores,
  whiten,
)


def ppo(
  gamma: float = 1.0,
  lam: float = 1.0,
  beta: float = 0.05,
  clip: float = 0.2,
  value_clip: float = 0.2,
  value_coef: float = 0.5,
) -> Method:
  """Whitened generalised advantages of a learned critic, under PPO-clip.

    r_t      (R at the last token, else 0) - beta (log pi_old - log pi_ref)
    delta_t  r_t + gamma V_{t+1} - V_t
    A_t      delta_t + gamma lam A_{t+1}

  R [P, S] is the score of a sample, pi_ref the policy at the start of the run
  and V_t [P, S, T] the critic's value before token t; t runs over the scored
  tokens. A is whitened over all tokens of the batch. The critic regresses on
  G = A + V_old, A before whitening, with a clipped squared error. Both losses
  are averaged over tokens. A truncated sample ends like a finished one: nothing
  is bootstrapped.
  Open: lam (1, or 0.95 in TRL), value_clip (0.2, or 0.5 in verl) and value_coef
  differ between releases.
  Deviation: the critic is a head of the policy, not a network of its own.
  Source: Schulman et al. 2017, Proximal Policy Optimization Algorithms; Ouyang
  et al. 2022, Training language models to follow instructions.

  Args:
    gamma: discount per token.
    lam: lambda, decay of the advantage estimator per token.
    beta: weight of the KL penalty; 0 drops the reference and its forward pass.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    value_clip: distance |V - V_old| beyond which a value has no gradient.
    value_coef: weight of the critic's loss.
  """
  return actor_critic(scores(), gamma, lam, beta, clip, value_clip, value_coef)


def actor_critic(
  outcome: Transform,
  gamma: float,
  lam: float,
  beta: float,
  clip: float,
  value_clip: float,
  value_coef: float,
) -> Method:
  """Returns `ppo` with a transform to samples, `outcome`, in place of R."""
  rewards = chain(outcome, place_last())
  if beta:
    rewards += -beta * log_ratios("old", "ref")
  credit = chain(rewards, gae(gamma, lam))
  targets = chain(credit, plus_old_values())
  critic = value_loss(value_clip).of(signal=targets)
  return Method(
    advantage=chain(credit, whiten(ddof=1)),
    loss=policy_gradient(ppo_clip(clip, clip)) + value_coef * critic,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
