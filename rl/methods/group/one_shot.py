"""Training on a single problem: GRPO with a small KL and entropy bonus."""

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
  """GRPO + beta k3 - entropy_coef H, the recipe of training on one problem.

  k3 estimates the KL to the policy at the start of the run and H is the entropy
  of the next-token distribution; all three terms are averaged over the tokens
  of each sample, then over samples. The advantage is the z-score of a sample's
  score in its group. Late in such a run all samples of the problem are right
  and the advantage is 0; the entropy bonus and the KL still move the policy.
  The task provides the one problem; each of its copies in a batch has a group
  of its own.
  Source: Wang et al. 2025, Reinforcement Learning for Reasoning in Large
  Language Models with One Training Example.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    beta: weight of the KL.
    entropy_coef: weight of the entropy bonus.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  aggregate = seq_mean_token_mean()
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(ppo_clip(clip, clip), aggregate=aggregate)
    + beta * kl("k3", aggregate=aggregate)
    + -entropy_coef * entropy(aggregate),  # a bonus, so its weight is negative
    parameter_sets=(("ref", frozen()),),
  )
