"""Backward correction of a verifier that errs."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts import noise
from rl.transforms import chain, leave_one_out, scores


def noisy_backward(
  false_positive: float = 0.1, false_negative: float = 0.2, clip: float = 0.2
) -> Method:
  """A_i = R^_i - others' mean, R^ = (R~ - r0) / (1 - r0 - r1).

  r0 = `false_positive` = P(passed | wrong) and r1 = `false_negative` =
  P(rejected | right); over the verifier's errors R^ has the mean of the true
  reward. It is affine in the observed R~, so with constant rates A is
  `leave_one_out` of R~ times 1 / (1 - r0 - r1): the size of the gradient is
  corrected, its direction was right. Under a group's standard deviation, or
  Adam, the size cancels too.
  Reads scores, which are what was observed; verdicts may be the truth.
  PPO-clip, token mean. The default rates are an example, not the paper's; for
  rates by prompt see `noise`. R^ is not clipped, which would bias it.
  Source: RLVR under Imperfect Verifiers (backward correction).

  Raises:
    ValueError: a rate is no probability, or r0 + r1 >= 1.
  """
  noise.check_rates(false_positive, false_negative)
  correction = noise.backward(false_positive, false_negative)
  return Method(
    advantage=chain(scores(), correction, leave_one_out()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
