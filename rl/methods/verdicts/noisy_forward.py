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

  A [P, S] takes the place of an advantage, without a baseline: it is
  R~ + r1 - 1, with R~ in {0, 1} the score that the verifier observed. Its mean
  over the verifier's errors is 0 for right answers and -(1 - r0 - r1) for wrong
  ones, with r0 = P(accepted | wrong), so the expected gradient is parallel to
  the one with true rewards for any r0 < 1 - r1. 1 - r1 acts as a constant
  baseline, which any baseline of the group would cancel. The method reads
  scores, not verdicts, as verdicts may be the truth. The loss is PPO-clip,
  averaged over tokens.
  Source: RLVR under Imperfect Verifiers (forward correction).

  Args:
    false_negative: r1; the default is an example, not the paper's.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if the rate is not a probability below 1.
  """
  noise.check_rates(0.0, false_negative)
  return Method(
    advantage=chain(scores(), noise.forward(false_negative)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
