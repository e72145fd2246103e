"""CISPO: clips the importance weight, so that no token loses its gradient.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.weights import weighted_reinforce
from rl.transforms import chain, group_normalize, scores


def cispo(low: float = 1.0, high: float = 4.0, ddof: int = 1) -> Method:
  """Maximises sg[clip(rho, 1 - low, 1 + high)] A log pi.

  rho [P, S, T] is the importance ratio of a token, sg stops the gradient, and A
  is the z-score of a sample's score in its group. The objective is averaged
  over the tokens of all samples, without a KL. Without bounds this is REINFORCE
  with importance weights.
  Open: the paper tuned `high` and does not state its value; 4 is a guess.
  Left out: the paper's optional mask of the tokens that PPO would clip.
  Source: MiniMax 2025, MiniMax-M1.

  Args:
    low: 1 - low is the smallest weight; low = 1 is no lower bound.
    high: 1 + high is the largest weight, as in the paper and in verl. TRL's
      `epsilon_high` is the weight itself: its 5 is 4 here.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  bounds = (1 - low, 1 + high)
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(weighted_reinforce(positive=bounds, negative=bounds)),
  )
