"""A bonus for right answers unlike the others of their group."""

from __future__ import annotations

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np

from rl import choices, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

Array = jax.Array
WEIGHTS = (0.02, 0.1, 0.15, 0.25, 0.38)  # of 1- to 5-grams
CAPS = {"bleu": 0.09, "steps": 0.42}


def _ngrams(tokens: list[int], n: int) -> collections.Counter:
  spans = (tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
  return collections.Counter(spans)


def bleu(one: list[int], other: list[int]) -> float:
  """BLEU of one token sequence against another, 0..1, without smoothing.

  exp(sum_n w_n log p_n) times the brevity penalty, p_n the clipped precision of
  n-grams; of a sequence too short for all n, the weights of those it has are
  scaled up to the sum of all.
  """
  logs, total = 0.0, 0.0
  for n, weight in enumerate(WEIGHTS, 1):
    mine = _ngrams(one, n)
    if not mine:
      break
    shared = sum((mine & _ngrams(other, n)).values())
    if not shared:
      return 0.0
    logs += weight * math.log(shared / mine.total())
    total += weight
  if not total:
    return 0.0
  brevity = min(0.0, 1 - len(other) / len(one))
  return math.exp(logs * sum(WEIGHTS) / total + brevity)


def bleu_diversity(samples: list[list[int]]) -> list[float]:
  """1 - the mean symmetric BLEU to the others; 0 of one alone."""
  n = len(samples)
  if n < 2:
    return [0.0] * n
  likeness = np.zeros((n, n))
  for i in range(n):
    for j in range(i):
      both = bleu(samples[i], samples[j]) + bleu(samples[j], samples[i])
      likeness[i, j] = likeness[j, i] = both / 2
  return list(1 - likeness.sum(1) / (n - 1))


def step_diversity(samples: list[set]) -> list[float]:
  """Share of a sample's steps that no other of the group has; 0 of none."""
  seen = collections.Counter(step for steps in samples for step in steps)
  return [
    sum(seen[step] == 1 for step in steps) / len(steps) if steps else 0.0
    for steps in samples
  ]


def _steps(tokens: np.ndarray, ids: np.ndarray) -> set:
  return {tuple(tokens[ids == k].tolist()) for k in set(ids.tolist()) if k >= 0}


def diversity(rollout: types.Rollout, kind: str) -> np.ndarray:
  """`[P, S]` on the host; of real samples only."""
  tokens, mask = rollout.completions, rollout.valid("token")
  found = np.zeros(mask.shape[:2], np.float32)
  for p, real in enumerate(rollout.sample_mask):
    (rows,) = np.nonzero(real)
    kept = [tokens[p, i][mask[p, i]] for i in rows]
    if kind == "bleu":
      values = bleu_diversity([sample.tolist() for sample in kept])
    elif rollout.step_ids is None:
      raise ValueError("diver(kind='steps'): the task marks no reasoning steps")
    else:
      ids = [rollout.step_ids[p, i][mask[p, i]] for i in rows]
      pairs = zip(kept, ids, strict=True)
      values = step_diversity([_steps(*pair) for pair in pairs])
    found[p, rows] = values
  return found


@transform("sample", needs=lambda kind, **_: {need(kind)})
def plus_diversity(
  signal: Array, rollout: types.Rollout, *, kind: str, steps: int
) -> Array:
  """R + min(diversity, cap) of right samples, in the first `steps` steps."""
  bonus = jnp.minimum(rollout.extras[need(kind)], CAPS[kind])
  paid = (rollout.correct == 1) & (rollout.step < steps)
  return jnp.where(rollout.sample_mask, signal + jnp.where(paid, bonus, 0.0), 0)


def need(kind: str) -> scoring.Need:
  """The diversity, found on the host."""
  return scoring.host(
    f"diversity({kind})", lambda rollout: diversity(rollout, kind), "sample"
  )


def diver(
  kind: str = "bleu",
  steps: int = 100,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """GRPO on R + min(d, cap) where right, d how unlike the group a sample is.

  "bleu": d_i = 1 - mean_j (symmetric BLEU of 1- to 5-grams of tokens), cap .09;
  "steps": the share of its reasoning steps that no other sample has (the
  paper's equations), cap .42. Both on the host; the bonus ends after `steps`.
  Deviation: n-grams of tokens, of whole samples, not of the first 1000
  characters; the mix of both, the scaling of the second by the group's accuracy,
  its cosine decay and the potential form of the paper are left out. The loss is
  PPO-clip with a token mean and no KL.
  Source: DIVER: Diversity-Incentivized Exploration for Versatile Reasoning,
  2025.

  Raises:
    ValueError: unknown kind.
  """
  if kind not in CAPS:
    raise ValueError(choices.unknown("kind", kind, CAPS))
  return Method(
    advantage=chain(
      scores(), plus_diversity(kind, steps), group_normalize(ddof)
    ),
    loss=policy_gradient(ppo_clip(low, high)),
  )
