"""Forward correction of a verifier that errs."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts import noise
from rl.transforms import chain, scores


def noisy_forward(false_negative: float = 0.2, clip: float = 0.2) -> Method:
  """A_i = r1 if passed, r1 - 1 if rejected: r1 = P(rejected | right) is enough.

  In the place of an advantage, with no baseline: its mean over the verifier's
  errors is 0 for right answers and -(1 - r0 - r1) for wrong ones, so that the
  expected gradient is parallel to the clean one for any r0 < 1 - r1. It is
  R~ + r1 - 1 of the observed R~: a constant baseline of 1 - r1, which any
  baseline of the group would cancel.
  Reads scores in {0, 1}, which are what was observed; verdicts may be the
  truth. PPO-clip, token mean. The default rate is an example, not the paper's.
  Source: RLVR under Imperfect Verifiers (forward correction).

  Raises:
    ValueError: the rate is no probability below 1.
  """
  noise.check_rates(0.0, false_negative)
  return Method(
    advantage=chain(scores(), noise.forward(false_negative)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
