"""Clip and delta: process rewards that do not grow with the number of steps.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

from rl import UsageError, registry
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

  G_t [P, S, T] is the return-to-go of the rewards r_k. r_k stands at the last
  token of step k, and s_k [P, S, K] is the score of that step:

    clip        r_k = min(s_k - threshold, 0)
    delta       r_k = s_k - s_{k+1}; the last step has r = 0, and its score
                counts as 0: it is judged by the outcome of the sample alone
    clip_delta  clip first, then delta

  A_success is the leave-one-out advantage of the verdicts, of samples whose
  verdict is known. The others' mean return is the baseline of `min_form`, from
  the other samples of the group. The loss is PPO-clip, averaged over the tokens
  of all samples, without a KL.
  Open: the paper's threshold and alpha are not known; the defaults are guesses.
  Deviation: the paper has a critic; this implementation has baselines of the
  group.
  Source: Gao et al. 2024, On Designing Effective RL Reward at Training Time for
  LLM Reasoning.
  Quantity: step_scores.

  Args:
    form: "clip", "delta" or "clip_delta".
    threshold: score that a step must reach, in units of the step score; None
      takes the mean of all step scores of the batch.
    alpha: weight of the process reward.
    labelled: share of the prompts whose verdicts are used; a prompt is selected
      by its id, so that it is the same in every batch.
    horizon: the longest completion in tokens; None takes T, the padded length
      of the batch.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `form` is unknown, or `labelled` is not in [0, 1].
  """
  transforms_of_form = {
    "clip": (clip_rewards(threshold),),
    "delta": (delta_rewards(),),
    "clip_delta": (clip_rewards(threshold), delta_rewards()),
  }
  if form not in transforms_of_form:
    raise UsageError(
      registry.describe_unknown("form", form, transforms_of_form)
    )
  process = chain(
    step_scores(),
    *transforms_of_form[form],
    place_at_step_ends(),
    returns_to_go(),
    minus_others_mean_return(horizon),
  )
  # A_success of known verdicts.
  outcome = usable_verdicts(labelled, leave_one_out(), broadcast())
  return Method(
    advantage=outcome + alpha * process,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
