"""CISPO: the importance weight is clipped, and no token loses its gradient."""

from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.weights import weighted_reinforce
from rl.transforms import chain, group_normalize, scores


def cispo(low: float = 1.0, high: float = 4.0, ddof: int = 1) -> Method:
  """Maximises sg[clip(rho, 1 - low, 1 + high)] A log pi over the mean token.

  `high` is an excess over 1, as in the paper and in verl: the largest weight is
  1 + high. TRL's `epsilon_high` is that weight itself, so its 5 is our 4.
  low = 1 is no lower bound. The z-score of the group; no KL. Without bounds
  this is REINFORCE with importance weights.
  Open: the paper tuned `high` and does not state it. Its optional mask of the
  tokens that PPO would clip is left out.
  Source: MiniMax 2025, MiniMax-M1.
  """
  bounds = (1 - low, 1 + high)
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(weighted_reinforce(bounds, bounds)),
  )
