"""PURE as in its OpenRLHF branch: the baseline is subtracted from rewards.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from rl import UsageError, registry
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

# Transforms that subtract the baseline, by the name of the baseline.
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
  The baseline b_k depends on `baseline`:

    token  mean reward per token of the other samples of the group, times the
           number of tokens of step k without its last one, the separator
    step   mean over the other samples of their mean reward per step

  The last token of a sample also has `verifiable` times the leave-one-out
  advantage of the verdict, of samples whose verdict is known. (The released
  code has verdict - 1 in place of the verdict; the advantage is the same.) A
  [P, S, T] is 0 at tokens that end a step: these are left out of the whitening,
  whose variance has ddof 0. The loss is PPO-clip, averaged over the tokens of
  all samples.
  Deviation: the released code adds a penalty 0.001 k1 to the reward; this
  implementation leaves it out (add `kl` to the loss instead). The released code
  finds separators by advantage == 0, and includes their distance from the mean
  in the variance. In this implementation a group with one sample has advantage
  0 and is left out of the whitening.
  Source: Cheng et al. 2025, Stop Summation (PURE), released code, main branch.
  Quantity: step_scores.

  Args:
    temperature: temperature of the soft minimum, in units of the step score.
    baseline: "token" or "step".
    verifiable: weight of the leave-one-out advantage of the verdicts; 0 leaves
      it out.
    labelled: share of the prompts whose verdicts are used; a prompt is selected
      by its id, so that it is the same in every batch. It has no effect if
      `verifiable` is 0.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if `baseline` is unknown, or `labelled` is not in [0, 1].
  """
  if baseline not in _BASELINES:
    raise UsageError(
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
  # `among` restricts whitening to tokens within steps, of groups with several
  # samples.
  return Method(
    advantage=chain(
      rewards, returns_to_go(), among(has_others, among(within_steps, whiten()))
    ),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
