"""Positive sample reinforcement: learns from right samples only.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import only, right_verdict


def psr(clip: float = 0.2) -> Method:
  """A_i = +1 on right samples; wrong samples are not trained on.

  A is [P, S], without a baseline or a scale. The loss is PPO-clip, averaged
  over the tokens of the right samples, without a KL. Right and wrong are the
  verdicts (`Rollout.correct`), not the scores. A sample that the length limit
  cut counts by its verdict (the tasks of this project call it wrong); a sample
  with an unknown verdict is left out.
  Source: The Surprising Effectiveness of Negative Reinforcement.
  Quantity: correct.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=signed_verdicts(),
    loss_filter=only(right_verdict),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
