"""DIVER: a bonus for right answers that differ from the others of the group.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np

from rl import registry, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

Array = jax.Array
WEIGHTS = (0.02, 0.1, 0.15, 0.25, 0.38)  # weights of 1- to 5-grams
# Largest bonus.
CAPS = {"bleu": 0.09, "steps": 0.42}


def _ngrams(tokens: list[int], n: int) -> collections.Counter:
  """Counts of the n-grams of a sequence."""
  spans = (tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
  return collections.Counter(spans)


def bleu(one: list[int], other: list[int]) -> float:
  """BLEU of one token sequence against another, in [0, 1], without smoothing.

  It is exp(sum_n w_n log p_n) times the brevity penalty, with p_n the clipped
  precision of n-grams. If the sequence is too short for all n, the weights of
  the n-grams that it has are scaled up to the sum of all weights.
  """
  logs, total = 0.0, 0.0
  for n, weight in enumerate(WEIGHTS, 1):
    ngrams = _ngrams(one, n)
    if not ngrams:
      break
    shared = sum((ngrams & _ngrams(other, n)).values())
    if not shared:
      return 0.0
    logs += weight * math.log(shared / ngrams.total())
    total += weight
  if not total:
    return 0.0
  brevity = min(0.0, 1 - len(other) / len(one))
  return math.exp(logs * sum(WEIGHTS) / total + brevity)


def bleu_diversity(samples: list[list[int]]) -> list[float]:
  """1 - the mean symmetric BLEU to the other samples; 0 for a single sample."""
  n = len(samples)
  if n < 2:
    return [0.0] * n
  similarity = np.zeros((n, n))
  for i in range(n):
    for j in range(i):
      both = bleu(samples[i], samples[j]) + bleu(samples[j], samples[i])
      similarity[i, j] = similarity[j, i] = both / 2
  return list(1 - similarity.sum(1) / (n - 1))


def step_diversity(samples: list[set]) -> list[float]:
  """Share of a sample's steps that no other sample has; 0 without steps."""
  counts = collections.Counter(step for steps in samples for step in steps)
  return [
    sum(counts[step] == 1 for step in steps) / len(steps) if steps else 0.0
    for steps in samples
  ]


def _steps(tokens: np.ndarray, ids: np.ndarray) -> set:
  """The distinct steps of a sample, as tuples of tokens."""
  return {tuple(tokens[ids == k].tolist()) for k in set(ids.tolist()) if k >= 0}


def diversity(rollout: types.Rollout, kind: str) -> np.ndarray:
  """`[P, S]` diversity of valid samples, 0 elsewhere; runs on the host."""
  tokens, mask = rollout.completions, rollout.valid("token")
  result = np.zeros(mask.shape[:2], np.float32)
  for p, is_valid in enumerate(rollout.sample_mask):
    (samples,) = np.nonzero(is_valid)
    scored_tokens = [tokens[p, i][mask[p, i]] for i in samples]
    if kind == "bleu":
      values = bleu_diversity([sample.tolist() for sample in scored_tokens])
    elif rollout.step_ids is None:
      raise ValueError(
        "diver(kind='steps'): the rollout has no steps; choose a task that "
        "cuts its completions into steps (chain)"
      )
    else:
      ids = [rollout.step_ids[p, i][mask[p, i]] for i in samples]
      pairs = zip(scored_tokens, ids, strict=True)
      values = step_diversity([_steps(*pair) for pair in pairs])
    result[p, samples] = values
  return result


@transform(takes="sample", needs=lambda kind, **_: {diversity_need(kind)})
def plus_diversity(
  signal: Array, rollout: types.Rollout, *, kind: str, steps: int
) -> Array:
  """R + min(diversity, cap) for right samples, in the first `steps` steps."""
  bonus = jnp.minimum(rollout.extras[diversity_need(kind)], CAPS[kind])
  has_bonus = (rollout.correct == 1) & (rollout.step < steps)
  return jnp.where(
    rollout.sample_mask, signal + jnp.where(has_bonus, bonus, 0.0), 0
  )


def diversity_need(kind: str) -> scoring.Need:
  """The diversity of samples, computed on the host."""
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
  """GRPO on R + min(d, cap) for right samples, d the distance to the group.

  R [P, S] are the scores; d [P, S] is computed on the host:

    bleu   d_i = 1 - mean_j (symmetric BLEU of 1- to 5-grams of tokens), cap .09
    steps  d_i = share of the reasoning steps of i that no other sample has (the
           paper's equations), cap .42

  The loss is PPO-clip, averaged over tokens, without a KL.
  Deviation: n-grams are of tokens and of whole samples, not of the first 1000
  characters.
  Left out: the mix of both kinds, the scaling of the second by the accuracy of
  the group, its cosine decay, and the paper's potential-based form.
  Source: DIVER: Diversity-Incentivized Exploration for Versatile Reasoning,
  2025.

  Args:
    kind: "bleu" or "steps".
    steps: number of training steps with a bonus.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    ValueError: if the kind is unknown.
  """
  if kind not in CAPS:
    raise ValueError(registry.describe_unknown("kind", kind, CAPS))
  return Method(
    advantage=chain(
      scores(), plus_diversity(kind, steps), group_normalize(ddof)
    ),
    loss=policy_gradient(ppo_clip(low, high)),
  )
