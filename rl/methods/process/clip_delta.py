"""Clip and delta: process rewards that cannot be farmed by adding steps."""

from rl import choices
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.labels import usable_verdicts
from rl.methods.process.step_transforms import (
  clip_rewards,
  delta_rewards,
  minus_others_mean_return,
)
from rl.transforms import (
  broadcast,
  chain,
  leave_one_out,
  place_at_step_ends,
  returns_to_go,
  step_scores,
)


def clip_delta(
  form: str = "clip_delta",
  threshold: float | None = None,
  alpha: float = 0.1,
  labelled: float = 1.0,
  horizon: int | None = None,
  clip: float = 0.2,
) -> Method:
  """A_t = A_success + alpha (G_t - others' mean return), G of bounded rewards.

  clip: r_k = min(s_k - threshold, 0). delta: r_k = s_k - s_{k+1}, the last step
  judged by success alone. clip_delta: first the one, then the other. Success is
  the leave-one-out advantage of the known verdicts of a fraction `labelled` of
  the prompts.
  `threshold` None is the mean score of the batch; neither it nor `alpha` is
  known from the paper. Deviation: group baselines (`horizon` as in `min_form`)
  for the paper's critic.
  Source: Gao et al. 2024, On Designing Effective RL Reward at Training Time for
  LLM Reasoning.

  Raises:
    ValueError: `form` is unknown, or `labelled` is not in [0, 1].
  """
  bounded = {
    "clip": (clip_rewards(threshold),),
    "delta": (delta_rewards(),),
    "clip_delta": (clip_rewards(threshold), delta_rewards()),
  }
  if form not in bounded:
    raise ValueError(choices.unknown("form", form, bounded))
  dense = chain(
    step_scores(),
    *bounded[form],
    place_at_step_ends(),
    returns_to_go(),
    minus_others_mean_return(horizon),
  )
  success = usable_verdicts(labelled, leave_one_out(), broadcast())
  return Method(
    advantage=success + alpha * dense,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
