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


def compared_pairs(rollout: types.Rollout) -> jax.Array:
  """`[P, S, S]` bool, pairs of two samples for which there is a preference."""
  has_preference = jnp.isfinite(pairwise.preferences(rollout))
  return pairwise.pairs(rollout.sample_mask) & has_preference


def compared_samples(rollout: types.Rollout) -> jax.Array:
  """`[P, S]` bool, samples that were compared with another one."""
  return compared_pairs(rollout).any(-1)


@transform(takes="none", gives="sample")
def win_rates(_, rollout: types.Rollout) -> jax.Array:
  """R_i, the mean of pref[i, j] over the samples j that i was compared with."""
  return masked.mean(pairwise.preferences(rollout), compared_pairs(rollout))


def pref_grpo(
  clip: float = 0.2, beta: float = 0.04, ddof: int = 1, eps: float = 1e-6
) -> Method:
  """GRPO with R_i = 1/(n-1) sum_{j != i} pref[i, j], pref in {0, 1/2, 1}.

  R [P, S] is the share of its group, of size n, that a sample wins against. Win
  rates have the same spread for any scale of the scores: no small difference is
  amplified by a small standard deviation, and any monotone transform of the
  scores leaves R as it is. If all are tied, A = 0; preferences may be cyclic.
  Preferences are the task's ("task/preferences"), of all pairs or of some, or
  else the order of the scores. A sample that was not compared is in no
  statistic and has A = 0. Clip and KL are those of GRPO; the paper's are for
  flow models.
  Source: Wang et al. 2025, Pref-GRPO: Pairwise Preference Reward-based GRPO.

  Args:
    clip, beta, ddof, eps: same as in `grpo`.
  """
  return dataclasses.replace(
    grpo(clip, beta, ddof, eps),
    advantage=chain(
      win_rates(), among(compared_samples, group_normalize(ddof, eps))
    ),
  )
