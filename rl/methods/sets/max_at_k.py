"""max@k: the policy gradient of the expected best of k samples.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.aggregates import prompt_mean_token_sum
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, max_at_k_weights, scores


def max_at_k(
  k: int = 4, baseline: str = "leave_one_out_minus_one", clip: float = 0.2
) -> Method:
  """Ascends E over prompts of E[max of k scores], for any real score.

  A_i [P, S] is the unbiased max@k weight of sample i, `max_at_k_weights` of
  `rl.best_of_k`. The loss is PPO-clip, summed over the tokens of all samples
  of a group and averaged over prompts. The expected gradient of the first
  update of a rollout is exactly that of max@k; in later updates the clip makes
  it approximate. k = 1 maximises the mean score, without a baseline. Among the
  baselines, the default leaves the fewest groups without a gradient: where all
  its weights are 0 (with scores of 0 and 1: no sample is right, or fewer than k
  - 1 are wrong), the weights under any other baseline are all equal and prefer
  no sample. The default also learns at k = n, n the size of the group, where
  "centered" never does.
  Source: Walder & Karkhanis 2025, Pass@K Policy Optimization.

  Args:
    k: size of the set whose best score is maximised.
    baseline: one of `rl.best_of_k.BASELINES`.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
  """
  return Method(
    advantage=chain(scores(), max_at_k_weights(k, baseline)),
    loss=policy_gradient(
      ppo_clip(clip, clip), aggregate=prompt_mean_token_sum()
    ),
  )
