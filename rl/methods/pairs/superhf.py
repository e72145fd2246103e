"""SuperHF: supervised learning on the best sample of each group."""

import dataclasses

from rl.losses.surrogates import reinforce
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.methods.pairs.contrast import best_of_group
from rl.parameter_sets import frozen
from rl.transforms import chain, scores


def superhf(beta: float = 0.0) -> Method:
  """One supervised update on the best sample of each group.

    loss = mean of -log pi over the tokens of the best samples
           + beta * mean of k3 over all tokens

  This is REINFORCE with weight 1 for the first best sample of a group and 0 for
  the others, without a baseline: a group of equal scores trains on its first
  sample. Samples without a token are never the best. k3 estimates the KL to
  ref, the policy at the start of the run. The number of samples per prompt
  corresponds to the paper's superbatch of 16.
  Deviation: the paper has KL(ref || pi) of the whole next-token distribution;
  this implementation has k3 at the sampled tokens. For samples of the current
  policy, the expected gradient of k3 is that of KL(ref || pi), and k3 is never
  negative either.
  Source: Mukobi et al. 2023, SuperHF: Supervised Iterative Learning from Human
  Feedback.

  Args:
    beta: weight of the KL; it is 0 in the defaults of the released code and
      small in the paper's runs. 0 drops the reference policy and its forward
      pass.
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
