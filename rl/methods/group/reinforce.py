"""REINFORCE with a running-mean baseline."""

from rl.losses import surrogates
from rl.losses.aggregates import seq_mean_token_sum
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, minus_running_mean, scores


def reinforce(decay: float = 0.95) -> Method:
  """A_i = R_i - b, b the moving average of earlier batches' mean score.

  Unbiased for grad E[R], and needs no group: S may be 1. Strictly on-policy.
  Source: Williams 1992.
  """
  return Method(
    advantage=chain(scores(), minus_running_mean(decay)),
    loss=policy_gradient(
      surrogates.reinforce(), aggregate=seq_mean_token_sum()
    ),
  )
