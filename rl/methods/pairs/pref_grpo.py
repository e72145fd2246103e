"""Pref-GRPO: win rates within the group in place of scores."""

import dataclasses

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.method import Method
from rl.methods.group.grpo import grpo
from rl.methods.pairs import pairwise
from rl.transforms import among, chain, group_normalize, transform


def compared(rollout: types.Rollout) -> jax.Array:
  """`[P, S, S]` the pairs of two samples that the judge has an opinion on."""
  known = jnp.isfinite(pairwise.preferences(rollout))
  return pairwise.pairs(rollout.sample_mask) & known


def judged(rollout: types.Rollout) -> jax.Array:
  """`[P, S]` the samples that were compared with another one."""
  return compared(rollout).any(-1)


@transform("none", "sample")
def win_rates(_, rollout: types.Rollout) -> jax.Array:
  """R_i, the mean of pref[i, j] over the others that i was compared with."""
  return masked.mean(pairwise.preferences(rollout), compared(rollout))


def pref_grpo(
  clip: float = 0.2, beta: float = 0.04, ddof: int = 1, eps: float = 1e-6
) -> Method:
  """GRPO whose reward is the share of its group that a sample wins against.

  R_i = 1/(n-1) sum_{j != i} pref[i, j], pref in {0, 1/2, 1}; then `grpo`.

  Win rates have one spread whatever the scores, so that no gap of a hundredth
  is blown up by a small standard deviation; any monotone change of the scores
  leaves them alone. All ties: A = 0. Cycles are fine.
  Preferences are the task's ("task/preferences"), of all pairs or of some (what
  was compared with nothing is in no statistic and has A = 0), else the order of
  the scores. Clip and KL are those of GRPO here; the paper's are
  for flow models.
  Source: Wang et al. 2025, Pref-GRPO: Pairwise Preference Reward-based GRPO.
  """
  return dataclasses.replace(
    grpo(clip, beta, ddof, eps),
    advantage=chain(win_rates(), among(judged, group_normalize(ddof, eps))),
  )
