"""The policy gradient of any objective of the tail of the scores.

Axes: P prompts, S samples per prompt (a group).
"""

from collections.abc import Sequence

from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.sets import tail_objectives
from rl.transforms import chain, lift, scores

tail_advantages = lift(
  tail_objectives.tail_advantages, valid=lambda rollout: rollout.sample_mask
)


def from_value(
  objective: str | Sequence[float] = "log@4",
  baseline: str = "centered",
  floor: float = 0.0,
  clip: float = 0.2,
) -> Method:
  """Ascends E over prompts of the integral of g(P(R > tau)) over tau.

  R is the score of a sample, and g the objective as a function of the
  probability to be better than tau. If scores are verdicts, this is g of the
  success rate. A_i [P, S] is the weight of sample i, whose sum A_i grad log
  pi(y_i) over the group is an unbiased estimate of the gradient:
  `tail_advantages` of `rl.methods.sets.tail_objectives`, which lists the names
  of objectives. "mean" is the mean score, "max@4" the best of 4, and the
  default log truncated after degree 4; (1, 0, 0, 0, -1) is max@4 by its
  coefficients in powers of 1 - P(R > tau), and `power_series` of the same
  module computes those of any other g. The degree must be below the number of
  samples of a group, or at most equal to it if not centered. The loss is
  PPO-clip, summed over the tokens of all samples of a group and averaged over
  prompts; the expected gradient of the first update of a rollout is exact.
  Source: Advantage Shaping as Surrogate Reward Maximization, arXiv 2510.23049,
  of which only the abstract was available: a function of the success rate gives
  an advantage. The unbiased estimate for any series, and for graded scores, is
  from this project.

  Args:
    objective: a name, such as "log@4", or coefficients of g in powers of 1 - P,
      from degree 0.
    baseline: one of `rl.methods.sets.tail_objectives.BASELINES`.
    floor: a score that no sample is below; "leave_one_out_minus_one" reads it.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  if not isinstance(objective, str):
    objective = tuple(objective)
  advantage = tail_advantages(objective, baseline=baseline, floor=floor)
  return Method(
    advantage=chain(scores(), advantage),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
