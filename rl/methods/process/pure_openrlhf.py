"""PURE as in its OpenRLHF branch: the baseline is subtracted from rewards.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl import registry
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

  r*_k is the soft-min reward of step k, at its last token, as in `min_form`.
  b_k is the mean reward per token of the other samples, times the tokens of
  step k without its separator, the last one (`baseline` "token"), or their mean
  reward per step ("step"). At the last token stands `verifiable` times the
  leave-one-out advantage of the known verdicts (the released code has
  verdict - 1: the same). A [P, S, T] is 0 at tokens that end a step; these are
  left out of the whitening, whose variance has ddof 0. The loss is PPO-clip,
  averaged over tokens.
  Deviations: the reward has no penalty 0.001 k1 (add `kl` to the loss). The
  released whitening finds separators by advantage == 0, and counts their
  distance from the mean in the variance. A group with one sample has advantage
  0 and is left out of the whitening.
  Source: Cheng et al. 2025, Stop Summation (PURE), released code, main branch.

  Args:
    temperature: temperature of the soft minimum, in units of the score.
    baseline: "token" or "step".
    verifiable: weight of the leave-one-out advantage of known verdicts; 0
      leaves it out.
    labelled: share of the prompts whose verdicts are used, always the same ones
      by their ids.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if `baseline` is unknown, or `labelled` is not in [0, 1].
  """
  if baseline not in _BASELINES:
    raise ValueError(
      registry.describe_unknown("baseline", baseline, _BASELINES)
    )
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
