"""Backward correction of the rewards of a verifier that errs.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts import noise
from rl.transforms import chain, leave_one_out, scores


def noisy_backward(
  false_positive: float = 0.1, false_negative: float = 0.2, clip: float = 0.2
) -> Method:
  """A_i = R^_i - mean of the others' R^, with R^ = (R~ - r0) / (1 - r0 - r1).

  R~_i [P, S] is the score of sample i, which the verifier observed;
  r0 = `false_positive` = P(accepted | wrong) and
  r1 = `false_negative` = P(rejected | right). Over the verifier's errors R^ has
  the mean of the true reward; it is not clipped, which would bias it. With
  constant rates A is `leave_one_out` of R~ times 1 / (1 - r0 - r1): the size of
  the gradient is corrected, its direction was right already. Under a group's
  standard deviation, or under Adam, the size cancels too. The method reads
  scores, not verdicts, as verdicts may be the truth. The loss is PPO-clip,
  averaged over tokens. For rates by prompt see `noise`.
  Source: RLVR under Imperfect Verifiers (backward correction).

  Args:
    false_positive, false_negative: r0 and r1; the defaults are examples, not
      the paper's.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if a rate is not a probability below 1, or r0 + r1 >= 1.
  """
  noise.check_rates(false_positive, false_negative)
  correction = noise.backward(false_positive, false_negative)
  return Method(
    advantage=chain(scores(), correction, leave_one_out()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
