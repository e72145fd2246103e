"""REINFORCE leave-one-out: the mean of the others is the baseline."""

from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, leave_one_out, scores


def rloo() -> Method:
  """A_i = R_i - mean of the others; sequence-level REINFORCE.

  Unbiased for grad E[R]; strictly on-policy: one update per rollout.
  A group of one has A = 0 (verl: its score).
  Deviation: without the paper's k1 penalty in the reward.
  Source: Kool et al. 2019; Ahmadian et al. 2024, Back to Basics.
  """
  return Method(
    advantage=chain(scores(), leave_one_out()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
  )
