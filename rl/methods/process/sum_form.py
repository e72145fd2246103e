"""Sum-form credit: the return is the sum of the scores of the present and later
steps.

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
  place_at_step_ends,
  returns_to_go,
  step_scores,
)


def sum_form(
  gamma: float = 1.0,
  verifiable: float = 0.0,
  labelled: float = 1.0,
  horizon: int | None = None,
  clip: float = 0.2,
) -> Method:
  """A_t = G_t - others' mean return, G the return-to-go of the step scores.

  The score s_k [P, S, K] of step k stands at its last token; G and A are [P, S,
  T]. This is the usual process reward. It has a weakness: the return of K steps
  with a positive score grows in proportion to K, so that a policy learns to add
  steps. `min_form` is compared with this method. Baseline and loss are those of
  `min_form`.
  Source: Cheng et al. 2025, Stop Summation (PURE); Uesato et al. 2022.
  Quantity: step_scores.

  Args:
    gamma: discount per token.
    verifiable, labelled, horizon, clip: same as in `min_form`.

  Raises:
    UsageError: if `labelled` is not in [0, 1].
  """
  process = chain(
    step_scores(),
    place_at_step_ends(),
    returns_to_go(gamma),
    minus_others_mean_return(horizon),
  )
  outcome = usable_verdicts(labelled, leave_one_out(), broadcast())
  return Method(
    advantage=process + verifiable * outcome if verifiable else process,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
