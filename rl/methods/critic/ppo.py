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
  """PPO-clip with whitened generalised advantages of a learned critic.

    r_t      (R if t is the last token, else 0)
             - beta (log pi_old - log pi_ref), at the sampled token t
    delta_t  r_t + gamma V_{t+1} - V_t
    A_t      delta_t + gamma lam A_{t+1}

  R [P, S] is the score of a sample, pi_old the policy at the start of the
  training step, pi_ref the policy at the start of the run, and V_t [P, S, T]
  the critic's value before token t, under the parameters at the start of the
  step. t runs over the scored tokens of a sample; after its last token, V and A
  are 0, also if the length limit cut the sample (nothing is bootstrapped). A is
  whitened over the tokens of all samples. The critic regresses on G = A + V
  with the clipped squared error of `value_loss`, where A is the advantage
  before whitening. Both losses are averaged over the tokens of all samples.
  Open: releases differ in lam (1; TRL has 0.95), value_clip (0.2; verl has 0.5)
  and value_coef; the defaults here are a choice among them.
  Deviation: the paper's critic is a network of its own; this implementation
  reads its values from a head of the policy.
  Source: Schulman et al. 2017, Proximal Policy Optimization Algorithms; Ouyang
  et al. 2022, Training language models to follow instructions.

  Args:
    gamma: discount per token.
    lam: lambda, decay of the advantage estimator per token.
    beta: weight of the KL penalty; 0 drops the reference policy and its forward
      pass.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    value_clip: distance |V - V_old| from the value V_old at the start of the
      step, beyond which a value that moved towards G has no gradient.
    value_coef: weight of the critic's loss.
  """
  rewards = chain(scores(), place_last())
  return actor_critic(rewards, gamma, lam, beta, clip, value_clip, value_coef)


def actor_critic(
  rewards: Transform,
  gamma: float,
  lam: float,
  beta: float,
  clip: float,
  value_clip: float,
  value_coef: float,
) -> Method:
  """Returns `ppo` with other rewards than R at the last token.

  Args:
    rewards: transform that gives the rewards of tokens, without the KL.
    gamma, lam, beta, clip, value_clip, value_coef: same as in `ppo`.
  """
  if beta:
    rewards += -beta * log_ratios("old", "ref")
  credit = chain(rewards, gae(gamma, lam))  # A of `ppo` before whitening
  targets = chain(credit, plus_old_values())
  critic_loss = value_loss(value_clip).of(signal=targets)
  return Method(
    advantage=chain(credit, whiten(ddof=1)),
    loss=policy_gradient(ppo_clip(clip, clip)) + value_coef * critic_loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
