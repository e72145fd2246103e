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

  The subsets are of the group of sample i, the n samples of one prompt; A is
  [P, S]. The loss is PPO-clip, averaged over tokens. If all k-subsets of a
  group have the same maximum (fewer than k samples are wrong, or none is
  right), A is exactly 0: the prompt counts as solved, or teaches nothing. At
  k = n this is so for every group; `max_at_k` still learns there from a single
  best sample, and for smaller k from groups with k - 1 wrong samples.
  Source: Chen et al. 2025, Pass@k Training.

  Args:
    k: size of the subsets.
    form: "analytic" (exact), "bootstrap" (random subsets) or "full" (disjoint
      subsets, of which there must be two: k <= n/2).
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), pass_at_k_advantages(k, form)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
