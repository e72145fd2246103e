"""DAPO: a clip with more room above, and only groups that disagree."""

from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.methods.surrogates.overlong import soft_overlong
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
  """GRPO's z-score, clip-higher, token mean, no KL, two filters.

  Trained on: samples that ended by themselves (overlong filtering), of groups
  with a right and a wrong verdict (dynamic sampling). Filters read the verdict,
  not the shaped score. The last `cache` tokens before `max_length` cost up to
  1 of the score (soft overlong punishment); the paper's lengths, which shorter
  tasks never reach.
  Deviation: filtered groups are dropped, not resampled until the batch is full;
  that loop belongs to the host.
  Source: Yu et al. 2025, DAPO.
  """
  return Method(
    advantage=chain(
      scores(), soft_overlong(max_length, cache), group_normalize(ddof)
    ),
    loss_filter=mixed_verdicts() & finished(),
    loss=policy_gradient(ppo_clip(low, high)),
  )
