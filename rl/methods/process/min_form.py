"""Min-form credit (PURE): the return is a soft minimum of the step scores.

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

    r*_k = s_k softmax_k(-s_k / temperature)

  s_k [P, S, K] is the score of step k, and the softmax is over the steps of its
  sample. r*_k stands at the last token of step k, so that the rewards of a
  sample add up to the soft minimum of its scores for any number of steps: G at
  the first token is that minimum, and later tokens have the sum of the r* that
  are still to come. G and A are [P, S, T]. The others' mean return is the sum
  of G over all tokens of the other samples of the group, divided by (their
  number x `horizon`). The loss is PPO-clip, averaged over the tokens of all
  samples.
  Source: Cheng et al. 2025, Stop Summation (PURE), the paper's layout.
  Quantity: step_scores.

  Args:
    temperature: temperature of the softmax, in units of the score.
    verifiable: weight of the leave-one-out advantage of the verdicts, of
      samples whose verdict is known; 0 leaves it out.
    labelled: share of the prompts whose verdicts are used; a prompt is selected
      by its id, so that it is the same in every batch. The paper's best run has
      about a tenth. It has no effect if `verifiable` is 0.
    horizon: the longest completion in tokens; None takes T, the padded length
      of the batch.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `labelled` is not in [0, 1].
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
