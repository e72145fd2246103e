"""DAPO: a wider clip above 1, and only groups of mixed verdicts.

Axes: P prompts, S samples per prompt (a group).
"""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.shaping.overlong import soft_overlong
from rl.transforms import (
  chain,
  finished,
  group_normalize,
  mixed_verdicts,
  scores,
)


def dapo(
  low: float = 0.2,
  high: float = 0.28,
  max_length: int = 20480,
  cache: int = 4096,
  ddof: int = 1,
) -> Method:
  """GRPO's z-score, clip-higher, mean over tokens, no KL, two filters.

  A_i [P, S] is the z-score of sample i's score in its group, after a penalty on
  long samples: the score falls by up to 1 over the last `cache` tokens before
  `max_length` (soft overlong punishment). Samples are trained on if EOS ended
  them (overlong filtering) and their group has a right and a wrong verdict
  (dynamic sampling); the penalty changes scores, not verdicts. The loss
  is PPO-clip with different ranges below and above 1 (clip-higher), averaged
  over the tokens of all samples that are trained on.
  Deviation: the paper samples until the batch is full of groups that pass the
  filter; this implementation drops the other groups.
  Source: Yu et al. 2025, DAPO.

  Args:
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    max_length: number of tokens at which the penalty reaches 1. The default is
      the paper's, which samples of shorter tasks never reach.
    cache: number of tokens before `max_length` over which the penalty grows
      from 0 to 1 (L_cache in the paper).
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(
      scores(), soft_overlong(max_length, cache), group_normalize(ddof)
    ),
    loss_filter=mixed_verdicts() & finished(),
    loss=policy_gradient(ppo_clip(low, high)),
  )
