"""Strict min-form credit: the return is the worst step still to come."""

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
  """A_t = G_t - others' mean return, G_t the least of steps not yet over.

  Unlike the soft form of temperature 0, whose return is 0 after the worst
  step, this one goes on with the next worst. `verifiable`, `labelled` and
  `horizon` as in `min_form`.
  Deviation: the released code takes its minimum over *tokens* of the padded
  row, zeros included, so its returns are almost nowhere positive; the paper's,
  and this one, over steps.
  Source: Cheng et al. 2025, Stop Summation (PURE), strict min-form.

  Raises:
    ValueError: `labelled` is not in [0, 1].
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
