"""Pref-GRPO: win rates within the group in place of scores.

Axes: P prompts, S samples per prompt (a group).
"""

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.methods.pairs import pairwise
from rl.transforms import among, chain, group_normalize, transform


def compared_pairs(rollout: types.Rollout, preferences: str) -> jax.Array:
  """Returns a mask `[P, S, S]` of pairs of two samples that were compared."""
  has_preference = jnp.isfinite(pairwise.preferred(rollout, preferences))
  return pairwise.pairs(rollout.sample_mask) & has_preference


def judged_samples(rollout: types.Rollout) -> jax.Array:
  """Returns a mask `[P, S]` of samples that the task compared with another."""
  return compared_pairs(rollout, "task").any(-1)


@transform(takes="none", gives="sample", needs=pairwise.needs_of_preferences)
def win_rates(
  _, rollout: types.Rollout, *, preferences: str = "scores"
) -> jax.Array:
  """Returns R_i, the mean of pref[i, j] over the samples j compared with i.

  A sample that was not compared has 0.
  """
  return masked.mean(
    pairwise.preferred(rollout, preferences),
    compared_pairs(rollout, preferences),
  )


def pref_grpo(
  clip: float = 0.2,
  beta: float = 0.04,
  ddof: int = 1,
  eps: float = 1e-6,
  preferences: str = "scores",
) -> Method:
  """GRPO with R_i = 1/(n-1) sum_{j != i} pref[i, j], pref in {0, 1/2, 1}.

  R_i [P, S] is the win rate of sample i: the share of its group, of size n,
  that it is preferred to. Win rates do not depend on the scale of the scores:
  any increasing transform of the scores leaves R as it is, and a small
  difference of scores is not amplified by a small standard deviation. If all
  pairs of a group are tied, A = 0. The loss is that of `grpo`.

  The paper's preferences are judgements of a preference model, which may be
  cyclic and may leave out pairs. With `preferences="task"` they are read from
  the extra "task/preferences"; R_i is then the mean over the samples that i was
  compared with, and a sample that was compared with none is in no statistic of
  its group and has A = 0. With `preferences="scores"`, for tasks without
  judgements, sample i is preferred to j if its score is higher.
  Deviation: clip and KL of the paper are for flow models; this implementation
  has those of `grpo`.
  Source: Wang et al. 2025, Pref-GRPO: Pairwise Preference Reward-based GRPO.
  Quantity: win_rates.

  Args:
    clip, beta, ddof, eps: same as in `grpo`.
    preferences: "scores" or "task", see above.
  """
  normalize = group_normalize(ddof, eps)
  if preferences == "task":
    normalize = among(judged_samples, normalize)
  return dataclasses.replace(
    grpo(clip, beta, ddof, eps),
    advantage=chain(win_rates(preferences), normalize),
  )
