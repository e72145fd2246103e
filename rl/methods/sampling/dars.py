"""DARS: more samples for hard prompts, in a second pass.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling import samplers
from rl.transforms import center, chain, group_normalize, mixed_verdicts, scores

Array = jax.Array
SCHEDULES = ("equal_treatment", "hardness_weighted")


def accuracy(rollout: types.Rollout) -> Array:
  """Returns the share `[P]` of right samples among known verdicts."""
  judged = rollout.sample_mask & (rollout.correct >= 0)
  return masked.mean(rollout.correct == 1, judged)


def further_samples(
  solved: Array, pilot: int, schedule: str, standardized: bool
) -> Array:
  """Returns `[P]`, further samples after which the total |A| is at its target.

  With a pass rate a, the mean of |A| over the samples of a prompt is m = 2 a (1
  - a), or m = 2 sqrt(a (1 - a)) for standardised advantages; its maximum is 1/2
  or 1. `peak` is that maximum times `pilot`, the total |A| of the pilot of a
  prompt that is solved half the time.

    equal_treatment    ceil((peak - pilot m) / m)
    hardness_weighted  ceil((2 (1 - a) peak - pilot m) / m)

  A prompt without a right sample has half a right sample in a. A prompt that is
  solved at least half the time gets no further samples.

  Args:
    solved: `[P]` pass rates in the pilot.
    pilot: number of samples per prompt in the pilot.
    schedule: one of `SCHEDULES`.
    standardized: whether advantages are divided by the standard deviation.
  """
  a = jnp.maximum(solved, 0.5 / pilot)
  mean_abs = 2 * a * (1 - a)
  peak = 0.5 * pilot
  if standardized:
    mean_abs, peak = 2 * jnp.sqrt(a * (1 - a)), 1.0 * pilot
  target = peak * (2 * (1 - a) if schedule == SCHEDULES[1] else 1.0)
  # 1e-4 is against rounding error: an integer must not be rounded up.
  further = jnp.ceil((target - pilot * mean_abs) / mean_abs - 1e-4)
  return jnp.where(solved < 0.5, further, 0).astype(jnp.int32)


def dars(
  schedule: str = "equal_treatment",
  pilot: int = 8,
  total: int | None = None,
  standardized: bool = False,
  clip: float = 0.2,
) -> Method:
  """Prompts solved less than half the time get more samples in a second pass.

  A = R - mean R over the group of both passes (z-score if `standardized`), with
  R [P, S] the score of a sample. Groups of right samples only, or of wrong ones
  only, are left out of the loss. The loss is PPO-clip, averaged over the tokens
  of the samples in it, without a KL. If pilot >= S there is one pass; a prompt
  without a known verdict gets no further samples.
  Left out: the paper's breadth variant, which needs no code: larger batches and
  two epochs in the config.
  Source: Yang et al. 2025, Depth-Breadth Synergy in RLVR (DARS).

  Args:
    schedule: "equal_treatment" or "hardness_weighted", see `further_samples`.
    pilot: number of samples of every prompt in the first pass.
    total: largest number of samples of a prompt in both passes, at most S; if
      it is below `pilot`, no prompt gets further samples. None takes 32 for
      "equal_treatment" and 64 for "hardness_weighted".
    standardized: whether A is divided by the standard deviation of the group
      (ddof 0).
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if the schedule is unknown.
  """
  if schedule not in SCHEDULES:
    raise UsageError(registry.describe_unknown("schedule", schedule, SCHEDULES))

  if total is None:
    total = 32 if schedule == SCHEDULES[0] else 64

  def budget(rollout, max_further, memory):
    solved = accuracy(rollout)
    further = further_samples(solved, pilot, schedule, standardized)
    has_verdict = (rollout.sample_mask & (rollout.correct >= 0)).any(-1)
    further = jnp.where(has_verdict, further, 0)
    # This sampler has no memory; it is returned as it is.
    return jnp.minimum(further, min(total - pilot, max_further)), memory

  baseline = group_normalize(ddof=0) if standardized else center()
  return Method(
    advantage=chain(scores(), baseline),
    loss_filter=mixed_verdicts(),
    loss=policy_gradient(ppo_clip(clip, clip)),
    sampler=samplers.second_pass(
      pilot, budget, f"second_pass({schedule}, pilot={pilot}, total={total})"
    ),
  )
