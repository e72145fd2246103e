"""Sum-form credit: the return is the sum of the step scores to come."""

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

  The usual process reward, and its weakness: K passable steps collect K units,
  so a policy learns to pad. `gamma` discounts per token; `verifiable`,
  `labelled` and `horizon` as in `min_form`, of which this is the baseline.
  Source: Cheng et al. 2025, Stop Summation (PURE); Uesato et al. 2022.

  Raises:
    ValueError: `labelled` is not in [0, 1].
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
