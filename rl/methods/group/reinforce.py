"""REINFORCE with a running mean of earlier scores as baseline.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, minus_running_mean, scores


def reinforce(decay: float = 0.95) -> Method:
  """A_i = R_i - b, b the moving average of the mean scores of earlier batches.

  R_i [P, S] is the score of sample i and b one number per batch, 0 in the first
  one. The loss is -A log pi, summed over the tokens of a sample and averaged
  over samples. The gradient is an unbiased estimate of grad E[R] and compares
  no samples of a group: S may be 1. It is right for one update per rollout
  only.
  Source: Williams 1992.

  Args:
    decay: weight of the earlier batches when a batch is added to the average.
  """
  return Method(
    advantage=chain(scores(), minus_running_mean(decay)),
    loss=policy_gradient(
      surrogates.reinforce(), aggregate=seq_mean_token_sum()
    ),
  )
