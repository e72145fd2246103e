"""PURE as in its verl branch: one return for process and outcome.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

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

  G [P, S, T] is the return-to-go of the soft-min rewards of `min_form`, plus
  `verifiable` times the known verdict at the last token of the sample; i is the
  sample of token t, j runs over the other samples of its group, n is the size
  of the group and L is `horizon`. The outcome thus has the baseline of the
  process rewards, which divides sums over the tokens of samples by the padded
  length L. If the other samples are shorter than L, only a part of their
  success is subtracted, so that samples with equal rewards have a positive
  advantage before whitening. `min_form` does not subtract this baseline from
  the outcome; without outcome and whitening both methods are equal. Whitening
  is over the tokens of all samples. The loss is PPO-clip, averaged over the
  tokens of all samples.
  Deviation: the released code adds a penalty 0.001 k3 to the reward; this
  implementation leaves it out (add `kl` to the loss instead). In this
  implementation a group with one sample has advantage 0 and is left out of the
  whitening.
  Source: Cheng et al. 2025, Stop Summation (PURE), released code, verl branch.
  Quantity: step_scores.

  Args:
    temperature: temperature of the soft minimum, in units of the step score.
    verifiable: weight of the verdicts; 0 leaves them out.
    labelled: share of the prompts whose verdicts are used; a prompt is selected
      by its id, so that it is the same in every batch. It has no effect if
      `verifiable` is 0.
    horizon: L, the longest completion in tokens; None takes T, the padded
      length of the batch.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    ddof: the variance is divided by the number of tokens - ddof; the released
      code has 1.

  Raises:
    UsageError: if `labelled` is not in [0, 1].
  """
  returns = returns_to_go(), minus_others_mean_return(horizon)
  process = chain(
    step_scores(), min_form_rewards(temperature), place_at_step_ends(), *returns
  )
  # Returns and baseline are linear, so process and outcome can be added after
  # both. In this order, samples with an unknown verdict are left out of the
  # baseline of the outcome only.
  outcome = usable_verdicts(labelled, place_last(), *returns)
  advantage = process + verifiable * outcome if verifiable else process
  return Method(
    advantage=chain(advantage, among(has_others, whiten(ddof))),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
