"""Semi-online DPO: pairs are sampled with older parameters of the policy."""

from rl.losses.terms import nll
from rl.method import Method
from rl.methods.pairs.contrast import (
  best_against_worst,
  best_of_group,
  contrasted,
  contrastive,
)
from rl.parameter_sets import frozen, sync
from rl.transforms import chain, scores


def semi_online_dpo(
  every: int = 10, beta: float = 0.1, nll_coef: float = 0.0
) -> Method:
  """DPO on the best and the worst sample of each group of an older policy.

    loss = -log sigma(beta (d(y_+) - d(y_-))), d = log pi - log ref

  y_+ and y_- are the first samples of a group with the highest and the lowest
  score, d is a sum over the tokens of a sample, and sigma is the sigmoid. A
  group of equal scores has no pair and is left out. ref is the policy at the
  start of the run. The loss is averaged over the groups with a pair.
  Source: Lanchantin et al. 2025, Bridging Offline and Online Reinforcement
  Learning for LLMs.

  Args:
    every: number of training steps after which the generator, the parameters
      that sample, becomes a copy of the policy; 1 is online, the paper's
      largest is 100.
    beta: factor of the log-ratios d.
    nll_coef: weight of the mean of -log pi over the tokens of all y_+.
  """
  pair = chain(scores(), best_against_worst())
  loss = contrastive(beta)
  if nll_coef:
    # The best sample, if the group has a pair.
    chosen = chain(pair, best_of_group()) & chain(pair, contrasted())
    loss = loss + nll_coef * nll().of(loss_filter=chosen)
  return Method(
    advantage=pair,
    loss_filter=chain(pair, contrasted()),
    loss=loss,
    parameter_sets=(("ref", frozen()), ("generator", sync(every))),
    behavior="generator",
  )
