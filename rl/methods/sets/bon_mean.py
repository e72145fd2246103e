"""Best-of-N max@k with a z-score: the normalisation its paper recommends."""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import chain, group_normalize, max_at_k_weights, scores


def bon_mean(k: int = 4, clip: float = 0.2, beta: float = 0.01) -> Method:
  """A_i = (s_i - mean s) / std s, with s the max@k weights; then as GRPO.

  The direction is max@k's: subtracting the mean scales the expected gradient by
  1 - k/n, and the division sets its size per group. At k = n the weights are
  flat and nothing is learned; k must stay below n.
  Source: The Best of N Worlds (its "BoN-mean" baseline).
  """
  aggregate = seq_mean_token_mean()
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=aggregate)
  return Method(
    advantage=chain(scores(), max_at_k_weights(k), group_normalize(0)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
