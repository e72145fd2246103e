"""Strict min-form credit (PURE): the return is the minimum of later steps.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.labels import usable_verdicts
from rl.methods.process.step_transforms import minus_others_mean_return
from rl.transforms import (
  broadcast,
  broadcast_steps,
  chain,
  leave_one_out,
  returns_to_go,
  step_scores,
)


def strict_min_form(
  verifiable: float = 0.0,
  labelled: float = 1.0,
  horizon: int | None = None,
  clip: float = 0.2,
) -> Method:
  """A_t = G_t - others' mean return, G_t the minimum over later steps.

  G [P, S, T] at a token of step k is the minimum over k' >= k of the step
  scores s_k', so the present step is included. The soft form of `min_form`
  differs even in the limit of temperature 0: its return is 0 after the worst
  step, while here it is the minimum of the steps that follow. Baseline and loss
  are those of `min_form`.
  Deviation: the released code takes the minimum over the tokens of the padded
  completion, where tokens that end no step have 0, so that its returns are
  almost nowhere positive. In this implementation, as in the paper, the minimum
  is over steps.
  Source: Cheng et al. 2025, Stop Summation (PURE), strict min-form.
  Quantity: step_scores.

  Args:
    verifiable: weight of the leave-one-out advantage of the verdicts, of
      samples whose verdict is known; 0 leaves it out.
    labelled: share of the prompts whose verdicts are used. It has no effect if
      `verifiable` is 0.
    horizon: the longest completion in tokens; None takes T, the padded length
      of the batch.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `labelled` is not in [0, 1].
  """
  process = chain(
    step_scores(),
    returns_to_go(reduce="min"),
    broadcast_steps(),
    minus_others_mean_return(horizon),
  )
  outcome = usable_verdicts(labelled, leave_one_out(), broadcast())
  return Method(
    advantage=process + verifiable * outcome if verifiable else process,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
