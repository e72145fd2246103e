"""BoN-mean: z-scored max@k weights, the normalisation of its paper.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import kl, policy_gradient
from rl.method import Method
from rl.parameter_sets import frozen
from rl.transforms import chain, group_normalize, max_at_k_weights, scores


def bon_mean(k: int = 4, clip: float = 0.2, beta: float = 0.01) -> Method:
  """A_i = (s_i - mean s) / std s, with s the max@k weights.

  s_i [P, S] is the unbiased max@k weight of sample i, `max_at_k_weights` of
  `rl.best_of_k`; mean and std (ddof 0) are over the n samples of its group.
  Subtracting the mean multiplies the expected gradient of max@k by 1 - k/n, and
  the division brings the advantages of every group to the same size. At k = n
  all weights are equal and nothing is learned, so choose k below n. The loss is
  that of GRPO: PPO-clip plus beta times k3, an estimator of the KL to the
  policy at the start of the run, averaged over the tokens of each sample, then
  over samples.
  Source: The Best of N Worlds (its "BoN-mean" baseline).

  Args:
    k: size of the set whose best score is maximised.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    beta: weight of the KL; 0 drops the reference and its forward pass.
  """
  aggregate = seq_mean_token_mean()
  loss = policy_gradient(ppo_clip(clip, clip), aggregate=aggregate)
  return Method(
    advantage=chain(scores(), max_at_k_weights(k), group_normalize(0)),
    loss=loss + beta * kl("k3", aggregate=aggregate) if beta else loss,
    parameter_sets=(("ref", frozen()),) if beta else (),
  )
