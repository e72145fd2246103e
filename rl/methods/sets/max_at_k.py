"""max@k: the policy gradient of the expected best of k samples."""

from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, max_at_k_weights, scores


def max_at_k(
  k: int = 4, baseline: str = "leave_one_out_minus_one", clip: float = 0.2
) -> Method:
  """Ascends E over prompts of E[max of k scores], for any real score.

  Each sample weighs its unbiased max@k weight (`rl.objectives`), summed over
  the group and its tokens, averaged over prompts: at the first update of a
  rollout the expected gradient is exactly that of max@k. PPO-clip guards later
  updates. k = 1 maximises the mean, with no baseline.
  The default baseline is the last to fall silent: a group in which it is 0
  (with 0/1 scores: none right, or fewer than k - 1 wrong) has equal weights
  under every other, and it learns at k = n, where "centered" never does.
  Source: Walder & Karkhanis 2025, Pass@K Policy Optimization.
  """
  return Method(
    advantage=chain(scores(), max_at_k_weights(k, baseline)),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
