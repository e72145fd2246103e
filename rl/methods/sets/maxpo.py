"""MaxPO: max@k with a leave-two-out baseline.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.method import Method
from rl.methods.sets.max_at_k import max_at_k


def maxpo(k: int = 4, clip: float = 0.2) -> Method:
  """A_i = k/n (s_i - b_i), with the improvement s_i that sample i brings.

    s_i = mean over the (k-1)-subsets J of the other samples of
          max(g_i - max_J g, 0)
    b_i = mean over j != i of s_j, computed in the group without i

  g_i [P, S] is the score of sample i of a group of n. b_i is a leave-two-out
  baseline: sample j is compared with samples other than i and j. For
  2 <= k < n, A [P, S] is unbiased for the gradient of max@k and sums to exactly
  0 over the group. For k = n, where b_i does not exist, A is 0; for k = 1 it is
  `rl.advantages.leave_one_out` divided by n. It equals the baseline "centered"
  of `max_at_k`, which is computed by sorting, in place of the O(n^2) sums of
  the definition. The loss is that of `max_at_k`.
  Source: MaxPO, arXiv 2606.06080; checked against code of its authors and not
  against the paper, whose loss is not known.

  Args:
    k: size of the set whose best score is maximised.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return max_at_k(k, baseline="centered", clip=clip)
