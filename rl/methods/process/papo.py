"""PAPO: a process advantage among the right samples, beside the outcome's.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.process.step_transforms import mean_steps
from rl.transforms import (
  among,
  chain,
  group_normalize,
  known_verdict,
  right_verdict,
  step_scores,
  verdicts,
)


def papo(weight: float = 1.0, clip: float = 0.2) -> Method:
  """A_i = z(r_i) + weight z_right(s_i), the second only for right samples.

  z is the z-score in the group, (x - mean) / (std + 1e-6) with ddof 1. r_i is 1
  for a right sample and 0 for a wrong one; samples with an unknown verdict are
  left out. s_i is the process reward of a sample, the mean of its step scores,
  which is 0 without a step. z_right is the z-score among the right samples of
  the group: it ranks them by the quality of their steps, and cannot reward a
  wrong sample. It is 0 for wrong samples, and in groups with fewer than two
  right ones. A [P, S] is not normalised again, so that a right
  sample can have a negative one. The loss is PPO-clip, averaged over the tokens
  of all samples, without a KL.
  Deviation: in the paper the process reward is the grade 0, 0.5 or 1 that a
  judge gives to a whole right sample; here it is the mean of the step scores of
  the task.
  Source: Process-Aware Policy Optimization (PAPO), arXiv 2603.26535.
  Quantity: step_scores.

  Args:
    weight: weight of the process advantage.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  outcome = chain(verdicts(), among(known_verdict, group_normalize()))
  process = chain(
    step_scores(), mean_steps(), among(right_verdict, group_normalize())
  )
  return Method(
    advantage=outcome + weight * process,
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
