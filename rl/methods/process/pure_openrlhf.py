"""PURE in the layout of its OpenRLHF branch: the baseline is in the reward."""

from rl import choices
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.labels import usable_verdicts
from rl.methods.process.step_transforms import (
  has_others,
  minus_others_step_mean,
  minus_others_token_rate,
  within_steps,
)
from rl.transforms import (
  among,
  chain,
  leave_one_out,
  min_form_rewards,
  place_at_step_ends,
  place_last,
  returns_to_go,
  step_scores,
  whiten,
)

_BASELINES = {
  "token": minus_others_token_rate,
  "step": minus_others_step_mean,
}


def pure_openrlhf(
  temperature: float = 0.1,
  baseline: str = "token",
  verifiable: float = 1.0,
  labelled: float = 1.0,
  clip: float = 0.2,
) -> Method:
  """A_t = whiten(return-to-go of r*_k - b_k and of the outcome's advantage).

  b_k is what the others earn per token times the tokens of step k without its
  separator (`baseline` = "token"), or their mean reward per step ("step"). On
  the last token stands `verifiable` times the leave-one-out advantage of the
  known verdicts (of ok - 1 in the released code: the same), of a fraction
  `labelled` of the prompts. Tokens that end a step have advantage 0 and are not
  in the whitening, whose variance is biased.
  Deviations: no penalty 0.001 k1 in the reward (add `kl` to the loss); the
  released whitening finds separators by advantage == 0 and lets their
  distance from the mean into the variance; a group of one has advantage 0 and
  stays out of the whitening.
  Source: Cheng et al. 2025, Stop Summation (PURE), released code, main branch.

  Raises:
    ValueError: `baseline` is unknown, or `labelled` is not in [0, 1].
  """
  if baseline not in _BASELINES:
    raise ValueError(choices.unknown("baseline", baseline, _BASELINES))
  process = chain(
    step_scores(),
    min_form_rewards(temperature),
    place_at_step_ends(),
    _BASELINES[baseline](),
  )
  outcome = usable_verdicts(labelled, leave_one_out(), place_last())
  rewards = process + verifiable * outcome if verifiable else process
  return Method(
    advantage=chain(
      rewards, returns_to_go(), among(has_others, among(within_steps, whiten()))
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
