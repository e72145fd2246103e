"""RLOO, REINFORCE leave-one-out: the mean of the others is the baseline.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, leave_one_out, scores


def rloo() -> Method:
  """A_i = R_i - mean of the others' R; REINFORCE on whole samples.

  R_i [P, S] is the score of sample i; the others are the other samples of its
  group. The loss is -A log pi, summed over the tokens of a sample and averaged
  over samples. Its gradient is an unbiased estimate of grad E[R], for one
  update per rollout only. A group with one sample has A = 0 (in verl, A is then
  its score).
  Deviation: the paper subtracts a k1 penalty, an estimate of the KL to the
  starting policy, from the score; this implementation leaves it out.
  Source: Kool et al. 2019; Ahmadian et al. 2024, Back to Basics.
  """
  return Method(
    advantage=chain(scores(), leave_one_out()),
    loss=policy_gradient(reinforce(), aggregate=seq_mean_token_sum()),
  )
