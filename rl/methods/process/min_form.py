"""Min-form credit (PURE): the return is the soft minimum of later steps.

Axes: P prompts, S samples per prompt (a group), T completion tokens, K
reasoning steps.
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.labels import usable_verdicts
from rl.methods.process.step_transforms import minus_others_mean_return
from rl.transforms import (
  broadcast,
  chain,
  leave_one_out,
  min_form_rewards,
  place_at_step_ends,
  returns_to_go,
  step_scores,
)


def min_form(
  temperature: float = 0.1,
  verifiable: float = 0.0,
  labelled: float = 1.0,
  horizon: int | None = None,
  clip: float = 0.2,
) -> Method:
  """A_t = G_t - others' mean return, G the return-to-go of soft-min rewards.

  r*_k = s_k softmax_k(-s_k / temperature) stands at the last token of step k,
  with s_k [P, S, K] the score of the step, so a sample collects the soft
  minimum of its scores for any number of steps. G and A are [P, S, T]; the
  others' mean return is the sum of the other samples' G over their tokens,
  divided by L and their number. The loss is PPO-clip, averaged over tokens.
  Source: Cheng et al. 2025, Stop Summation (PURE), the paper's layout.

  Args:
    temperature: temperature of the softmax, in units of the score.
    verifiable: weight of the leave-one-out advantage of known verdicts; 0
      leaves it out.
    labelled: share of the prompts whose verdicts are used, always the same ones
      by their ids. The paper's best run has about a tenth.
    horizon: the longest completion in tokens, L; None takes T, the padded
      length of the batch.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if `labelled` is not in [0, 1].
  """
  process = chain(
    step_scores(),
    min_form_rewards(temperature),
    place_at_step_ends(),
    returns_to_go(),
    minus_others_mean_return(horizon),
  )
  outcome = usable_verdicts(labelled, leave_one_out(), broadcast())
  return Method(
    advantage=process + verifiable * outcome if verifiable else process,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
