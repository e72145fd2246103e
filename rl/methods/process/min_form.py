"""Min-form credit: the return is the worst step still to come, softly."""

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

  r*_k = s_k softmax_k(-s_k / temperature) stands on the last token of step k,
  so a sample collects the soft minimum of its step scores however many steps it
  makes. `verifiable` adds that much of the leave-one-out advantage of the
  known verdicts, of a fraction `labelled` of the prompts (the paper's best run:
  about a tenth): always the same prompts, by their ids.
  `horizon` is the longest completion, by default the T of the batch.
  Source: Cheng et al. 2025, Stop Summation (PURE), the paper's layout.

  Raises:
    ValueError: `labelled` is not in [0, 1].
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
