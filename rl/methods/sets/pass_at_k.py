"""Pass@k Training: the z-scored best of random k-subsets.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, pass_at_k_advantages, scores


def pass_at_k(
  k: int = 4, form: str = "analytic", low: float = 0.2, high: float = 0.28
) -> Method:
  """A_i = mean over the k-subsets that contain i of their z-scored maximum.

  The subsets are those of the group of sample i, of n samples. The maximum
  score of a subset is z-scored among the subsets; A is [P, S]. The loss is
  PPO-clip, averaged over the tokens of all samples. If all k-subsets of a group
  have the same maximum (with scores of 0 and 1: fewer than k samples are wrong,
  or none is right), A is exactly 0, so solved prompts and hopeless ones are not
  trained on. At k = n this holds for every group; there `max_at_k` still learns
  from a single best sample, and for smaller k from groups with exactly k - 1
  wrong samples.
  Source: Chen et al. 2025, Pass@k Training.

  Args:
    k: size of the subsets.
    form: "analytic" takes the mean over all subsets exactly. "bootstrap" takes
      the sum over those of n random subsets that contain the sample; "full"
      over disjoint subsets, of which there must be two (k <= n/2) for A to
      differ from 0.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), pass_at_k_advantages(k, form)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
