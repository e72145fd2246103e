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

  R~_i [P, S] is the score of sample i, 0 or 1, as the verifier gave it; the
  others are the other samples of its group; r0 = `false_positive` = P(accepted
  | wrong) and r1 = `false_negative` = P(rejected | right). The mean of R^ over
  the verifier's errors is the true reward; R^ is not clipped to [0, 1], which
  would bias it. With constant rates A is 1 / (1 - r0 - r1) times the advantage
  `leave_one_out` of R~: only the size of the expected gradient changes, as its
  direction is right without a correction. Dividing by a group's standard
  deviation, or Adam, would cancel this factor. The method reads scores, not
  verdicts, because the verdicts of a task may be the truth. The loss is
  PPO-clip, averaged over the tokens of all samples. For rates that differ
  between prompts see `noise`.
  Source: RLVR under Imperfect Verifiers (backward correction).

  Args:
    false_positive, false_negative: r0 and r1; the defaults are examples and not
      from the paper.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if a rate is not in [0, 1), or r0 + r1 >= 1.
  """
  noise.check_rates(false_positive, false_negative)
  correction = noise.backward(false_positive, false_negative)
  return Method(
    advantage=chain(scores(), correction, leave_one_out()),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
