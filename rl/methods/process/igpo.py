"""IGPO, information gain-based policy optimisation: rewards of turns.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K turns
or reasoning steps.
"""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.methods.process.step_transforms import normalize_in_group
from rl.parameter_sets import frozen
from rl.transforms import (
  broadcast_steps,
  chain,
  returns_to_go,
  step_scores,
)


def igpo(
  gamma: float = 1.0, beta: float = 0.001, clip: float = 0.2, eps: float = 1e-6
) -> Method:
  """A_k = sum over turns l >= k of gamma^(l - k) z_l, at every token of turn k.

  z_l is the reward of turn l as a z-score over all turns of the group. The
  rewards [P, S, K] are step scores: with the step reward `information_gain()`,
  that of a turn is the rise of the policy's probability of the reference
  answer, and that of the last turn is the outcome. The loss is PPO-clip plus
  beta times k3, an estimator of the KL to the policy at the start of the run;
  both are averaged over the tokens of each sample, then over samples.
  Deviation: the released code subtracts the mean of the group at the same token
  index and does not divide by a standard deviation; this is the paper's form.
  Source: Wang et al. 2025, Information Gain-based Policy Optimization (IGPO).
  Quantity: information_gain.

  Args:
    gamma: discount per turn.
    beta: weight of the KL; 0 drops the reference and its forward pass.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    eps: constant added to the standard deviation.
  """
  aggregate = seq_mean_token_mean()
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=aggregate)
  return Method(
    advantage=chain(
      step_scores(),
      normalize_in_group(eps),
      returns_to_go(gamma),
      broadcast_steps(),
    ),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
