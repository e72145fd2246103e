"""Positive sample reinforcement: learn from right samples only."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import only, right_verdict


def psr(clip: float = 0.2) -> Method:
  """A_i = +1 on right samples; wrong ones are not trained on.

  No baseline, no scale, no KL; PPO-clip, mean over the tokens of the right
  samples. Reads verdicts, not scores; a truncated sample is what its verdict
  says (the tasks here call it wrong), an unknown verdict teaches nothing.
  Source: The Surprising Effectiveness of Negative Reinforcement.
  """
  return Method(
    advantage=signed_verdicts(),
    loss_filter=only(right_verdict),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
