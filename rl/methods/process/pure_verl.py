"""PURE in the layout of its verl branch: one return for process and outcome."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.labels import usable_verdicts
from rl.methods.process.step_transforms import (
  has_others,
  minus_others_mean_return,
)
from rl.transforms import (
  among,
  chain,
  min_form_rewards,
  place_at_step_ends,
  place_last,
  returns_to_go,
  step_scores,
  whiten,
)


def pure_verl(
  temperature: float = 0.1,
  verifiable: float = 1.0,
  labelled: float = 1.0,
  horizon: int | None = None,
  clip: float = 0.2,
  ddof: int = 1,
) -> Method:
  """A_t = whiten(G_t - sum_{j != i} sum_t G_jt / ((n - 1) L)).

  G is the return-to-go of r*_k on the last token of step k plus `verifiable`
  times a known verdict, of a fraction `labelled` of the prompts, on the last
  token of the sample. The outcome thus shares the baseline, which divides sums
  over *real* tokens by the *padded* length L (`horizon`, by default the T of
  the batch): where the others are shorter than L their success is charged in
  part only, so that equal rewards have a positive advantage before whitening.
  `min_form` keeps the outcome out of this; without outcome and whitening the
  two are equal. Whitening is over all tokens of the batch, `ddof` = 1 as
  released.
  Deviations: no penalty 0.001 k3 in the reward (add `kl` to the loss); a group
  of one has advantage 0 and stays out of the whitening.
  Source: Cheng et al. 2025, Stop Summation (PURE), released code, verl branch.

  Raises:
    ValueError: `labelled` is not in [0, 1].
  """
  returns = returns_to_go(), minus_others_mean_return(horizon)
  process = chain(
    step_scores(), min_form_rewards(temperature), place_at_step_ends(), *returns
  )
  # Both stages are linear, and so an unknown verdict is in no baseline.
  outcome = usable_verdicts(labelled, place_last(), *returns)
  advantage = process + verifiable * outcome if verifiable else process
  return Method(
    advantage=chain(advantage, among(has_others, whiten(ddof))),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
