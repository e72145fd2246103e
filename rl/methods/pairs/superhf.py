"""Supervised iterative learning from human feedback: imitate the best."""

import dataclasses

from rl.losses.surrogates import reinforce
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.methods.pairs.contrast import best_of_group
from rl.parameter_sets import frozen
from rl.transforms import chain, scores


def superhf(beta: float = 0.0) -> Method:
  """One supervised step on the best sample of each group.

  loss = mean over the tokens of the best samples of -log pi
         + beta mean over all tokens of k3 to the starting policy

  REINFORCE with the weight 1 on the first best sample and 0 on the others, and
  no baseline: a group of equal scores teaches its first sample. Samples without
  a token are never the best. S is the paper's superbatch, 16.
  Deviation: KL(ref || pi) of the whole law becomes k3 at the sampled tokens,
  whose gradient on-policy is that KL's, and which like it is never negative.
  beta is 0 in the code's defaults; the paper's runs take a small one.
  Source: Mukobi et al. 2023, SuperHF: Supervised Iterative Learning from Human
  Feedback.
  """
  best = chain(scores(), best_of_group())
  imitation = dataclasses.replace(
    policy_gradient(reinforce()), loss_filter=best
  )
  return Method(
    advantage=best,
    loss=imitation + beta * kl("k3") if beta else imitation,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
