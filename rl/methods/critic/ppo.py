"""Proximal policy optimisation with a value head."""

import dataclasses

from rl.method import Method
from rl.methods.critic.values import (
  plus_old_values,
  reference_log_ratio,
  value_loss,
)
from rl.slots import frozen
from rl.surrogates import ppo_clip
from rl.terms import policy_gradient
from rl.transform import chain
from rl.transforms import gae, place_last, scores, whiten


def ppo(
  gamma: float = 1.0,
  lam: float = 1.0,
  beta: float = 0.05,
  clip: float = 0.2,
  value_clip: float = 0.2,
  value_coef: float = 0.5,
) -> Method:
  """Whitened generalised advantages of a learned critic, and PPO-clip.

    r_t     = R at the last token - beta (log pi_old - log pi_ref)
    delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lam A_{t+1}

  over the policy's own tokens, A whitened over all of the batch; the critic
  regresses on G = A + V_old with a clipped square. Means are over tokens. beta
  = 0 drops the reference. A truncated sample ends like a finished one: nothing
  is bootstrapped.
  Open: lam (1, or 0.95 in TRL), value_clip (0.2, or 0.5 in verl) and value_coef
  differ between releases.
  Deviation: the critic is a head of the policy, not a network of its own.
  Source: Schulman et al. 2017, Proximal Policy Optimization Algorithms; Ouyang
  et al. 2022, Training language models to follow instructions.
  """
  rewards = chain(scores(), place_last())
  if beta:
    rewards = rewards + -beta * reference_log_ratio()
  credit = chain(rewards, gae(gamma, lam))
  critic = dataclasses.replace(
    value_loss(value_clip), signal=chain(credit, plus_old_values())
  )
  return Method(
    advantage=chain(credit, whiten(ddof=1)),
    loss=policy_gradient(ppo_clip(clip, clip)) + value_coef * critic,
    slots=(("ref", frozen()),) if beta else (),
  )
