"""More samples for hard prompts, in a second pass."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import choices, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling import samplers
from rl.transforms import center, chain, group_normalize, mixed_verdicts, scores

Array = jax.Array
SCHEDULES = ("equal_treatment", "hardness_weighted")


def accuracy(rollout: types.Rollout) -> Array:
  """`[P]` share of the known verdicts that are right."""
  known = rollout.sample_mask & (rollout.correct >= 0)
  return masked.mean(rollout.correct == 1, known)


def further_samples(
  solved: Array, pilot: int, schedule: str, standardized: bool
) -> Array:
  """`[P]` samples after which the group's total |A| reaches its target.

  S(a) = 2 a (1 - a), or 2 sqrt(a (1 - a)) of standardized advantages, is the
  mean |A|, with peak 1/2 or 1; a prompt without a right sample counts as half
  a right one, a prompt solved half the time gets no more.
    equal treatment     ceil((peak - pilot S) / S), peak of `pilot` samples
    hardness weighted   ceil((2 (1 - a) peak - pilot S) / S)
  """
  a = jnp.maximum(solved, 0.5 / pilot)
  spread = 2 * a * (1 - a)
  peak = 0.5 * pilot
  if standardized:
    spread, peak = 2 * jnp.sqrt(a * (1 - a)), 1.0 * pilot
  target = peak * (2 * (1 - a) if schedule == SCHEDULES[1] else 1.0)
  wanted = jnp.ceil((target - pilot * spread) / spread - 1e-4)
  return jnp.where(solved < 0.5, wanted, 0).astype(jnp.int32)


def dars(
  schedule: str = "equal_treatment",
  pilot: int = 8,
  total: int | None = None,
  standardized: bool = False,
  clip: float = 0.2,
) -> Method:
  """Prompts solved less than half the time get more samples in a second pass.

  After a pilot of 8 samples, `further_samples` up to `total` in all (None: 32
  for equal treatment, 64 for hardness-weighted), or to the slots that the
  rollout has. A = R - mean R over the merged group (z-score if `standardized`);
  groups all right or all wrong are dropped. pilot >= slots: no second pass, and
  none for a prompt of which no verdict is known.
  The breadth variant is the config's: larger batches, two epochs.
  Source: Yang et al. 2025, Depth-Breadth Synergy in RLVR (DARS).

  Raises:
    ValueError: unknown schedule.
  """
  if schedule not in SCHEDULES:
    raise ValueError(choices.unknown("schedule", schedule, SCHEDULES))

  if total is None:
    total = 32 if schedule == SCHEDULES[0] else 64

  def budget(rollout, most, memory):
    solved = accuracy(rollout)
    wanted = further_samples(solved, pilot, schedule, standardized)
    judged = (rollout.sample_mask & (rollout.correct >= 0)).any(-1)
    wanted = jnp.where(judged, wanted, 0)
    return jnp.minimum(wanted, min(total - pilot, most)), memory

  baseline = group_normalize(ddof=0) if standardized else center()
  return Method(
    advantage=chain(scores(), baseline),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(ppo_clip(clip, clip)),
    sampler=samplers.second_pass(
      pilot, budget, f"second_pass({schedule}, pilot={pilot}, total={total})"
    ),
  )
