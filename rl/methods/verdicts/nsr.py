"""Negative sample reinforcement: learns from wrong samples only.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import only, wrong_verdict


def nsr(clip: float = 0.2) -> Method:
  """A_i = -1 on wrong samples; right samples are not trained on.

  A is [P, S]. At the sampled token k of a wrong sample the logits move in the
  direction p - onehot_k, with p the next-token distribution and onehot_k the
  indicator of k: the probability of k goes to the other tokens, in proportion
  to their probabilities. A group without a wrong sample contributes nothing.
  There is no baseline, no scale and no KL; the loss is PPO-clip, averaged over
  the tokens of the wrong samples. Wrong and right are the verdicts
  (`Rollout.correct`), not the scores; samples with an unknown verdict are left
  out.
  Source: The Surprising Effectiveness of Negative Reinforcement.
  Quantity: correct.

  Args:
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=signed_verdicts(),
    loss_filter=only(wrong_verdict),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
