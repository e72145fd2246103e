"""Negative sample reinforcement: learn from wrong samples only."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.verdicts.signed import signed_verdicts
from rl.transforms import only, wrong_verdict


def nsr(clip: float = 0.2) -> Method:
  """A_i = -1 on wrong samples; right ones are not trained on.

  At a sampled wrong token k the logits move along p - onehot_k: its mass goes
  to the other tokens in proportion to what they have. A group without a wrong
  sample contributes nothing. Otherwise as `psr`, mean over the tokens of the
  wrong samples.
  Source: The Surprising Effectiveness of Negative Reinforcement.
  """
  return Method(
    advantage=signed_verdicts(),
    loss_filter=only(wrong_verdict),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
