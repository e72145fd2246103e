"""Clip and delta: process rewards that do not grow with the number of steps.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

from rl import registry
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

  G_t [P, S, T] is the return-to-go of rewards r_k at the last token of step k,
  with s_k [P, S, K] the score of the step:

    clip        r_k = min(s_k - threshold, 0)
    delta       r_k = s_k - s_{k+1}, with 0 for the score of the last step,
                which is judged by success alone
    clip_delta  clip first, then delta

  A_success is the leave-one-out advantage of known verdicts. The others' mean
  return is the baseline of `min_form`. The loss is PPO-clip, averaged over
  tokens, without a KL.
  Open: the paper's threshold and alpha are not known to us.
  Deviation: baselines of the group take the place of the paper's critic.
  Source: Gao et al. 2024, On Designing Effective RL Reward at Training Time for
  LLM Reasoning.

  Args:
    form: "clip", "delta" or "clip_delta".
    threshold: score that a step must reach; None takes the mean score of the
      batch.
    alpha: weight of the process reward.
    labelled: share of the prompts whose verdicts are used, always the same ones
      by their ids.
    horizon: the longest completion in tokens, L; None takes T, the padded
      length of the batch.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if `form` is unknown, or `labelled` is not in [0, 1].
  """
  bounded = {
    "clip": (clip_rewards(threshold),),
    "delta": (delta_rewards(),),
    "clip_delta": (clip_rewards(threshold), delta_rewards()),
  }
  if form not in bounded:
    raise ValueError(registry.describe_unknown("form", form, bounded))
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
