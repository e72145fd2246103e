"""Pass@k Training: the z-scored best of random k-subsets."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, pass_at_k_advantages, scores


def pass_at_k(
  k: int = 4, form: str = "analytic", low: float = 0.2, high: float = 0.28
) -> Method:
  """A_i = mean over the k-subsets that hold i of their z-scored maximum.

  Clip-higher and token mean. A group in which every k-subset has the same
  maximum (fewer than k wrong samples, or none right) has A exactly 0: the
  prompt counts as solved, or teaches nothing. At k = n that is every
  group; `max_at_k` still learns there from a single best sample, and anywhere
  from k - 1 wrong ones. `form` is "analytic" (exact), "bootstrap" or
  "full" (random or disjoint subsets; "full" needs two of them, k <= n/2).
  Source: Chen et al. 2025, Pass@k Training.
  """
  return Method(
    advantage=chain(scores(), pass_at_k_advantages(k, form)),
    loss=policy_gradient(ppo_clip(low, high)),
  )
