"""Forward correction of the rewards of a verifier that errs.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts import noise
from rl.transforms import chain, scores


def noisy_forward(false_negative: float = 0.2, clip: float = 0.2) -> Method:
  """A_i = r1 if accepted, r1 - 1 if rejected, with r1 = P(rejected | right).

  A [P, S] has no baseline: it is R~ + r1 - 1, with R~ the score of the sample,
  0 or 1, as the verifier gave it. Its mean over the verifier's errors is 0 for
  right answers and -(1 - r0 - r1) for wrong ones, with r0 = P(accepted |
  wrong), so that the expected gradient is parallel to the one with true rewards
  for any r0 < 1 - r1. The constant r1 - 1 is what makes this so: subtracting
  the mean of the group would cancel it. The method reads scores, not verdicts,
  because the verdicts of a task may be the truth. The loss is PPO-clip,
  averaged over the tokens of all samples.
  Source: RLVR under Imperfect Verifiers (forward correction).

  Args:
    false_negative: r1; the default is an example and not from the paper.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if r1 is not in [0, 1).
  """
  noise.check_rates(0.0, false_negative)
  return Method(
    advantage=chain(scores(), noise.forward(false_negative)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
