"""Training on one problem: GRPO with a little KL and a little entropy."""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import entropy, kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import chain, group_normalize, scores


def one_shot(
  clip: float = 0.2,
  beta: float = 1e-3,
  entropy_coef: float = 1e-3,
  ddof: int = 1,
) -> Method:
  """GRPO + beta k3 - c H, the recipe of training on one problem.

  Late in such a run all samples are right and the advantages are 0; what still
  moves the policy are the entropy bonus and the KL. The single
  problem is the task's: each of its copies in a batch is a group of its own.
  Source: Wang et al. 2025, Reinforcement Learning for Reasoning in Large
  Language Models with One Training Example.
  """
  mean = seq_mean_token_mean()
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(ppo_clip(clip, clip), aggregate=mean)
    + beta * kl("k3", aggregate=mean)
    + -entropy_coef * entropy(mean),
    parameter_sets=(("ref", frozen()),),
  )
