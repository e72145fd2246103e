"""DIVER: a bonus for right answers that differ from the others of the group.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import collections
import math

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError, registry, scoring, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, group_normalize, scores, transform

Array = jax.Array
WEIGHTS = (0.02, 0.1, 0.15, 0.25, 0.38)  # weights of 1- to 5-grams
# Largest bonus, by the kind of diversity.
CAPS = {"bleu": 0.09, "steps": 0.42}


def _ngrams(tokens: list[int], n: int) -> collections.Counter:
  """Returns the n-grams of a sequence with their counts."""
  spans = (tuple(tokens[i : i + n]) for i in range(len(tokens) - n + 1))
  return collections.Counter(spans)


def bleu(sequence: list[int], reference: list[int]) -> float:
  """Returns the BLEU of one token sequence against another, without smoothing.

  It is exp(sum_n w_n log p_n) times the brevity penalty, with w = `WEIGHTS` and
  p_n the clipped precision of n-grams, from n = 1 to 5, as far as the sequence
  has n-grams. The result is in [0, 1]; it is 0 if a precision is 0, or a
  sequence is empty.

  Args:
    sequence: token ids that are compared.
    reference: token ids of the other sequence.
  """
  if not sequence:
    return 0.0
  log_precision = 0.0
  for n, weight in enumerate(WEIGHTS, 1):
    ngrams = _ngrams(sequence, n)
    if not ngrams:
      break
    shared = sum((ngrams & _ngrams(reference, n)).values())
    if not shared:
      return 0.0
    log_precision += weight * math.log(shared / ngrams.total())
  log_brevity = min(0.0, 1 - len(reference) / len(sequence))
  return math.exp(log_precision + log_brevity)


def bleu_diversity(samples: list[list[int]]) -> list[float]:
  """Returns 1 - the mean symmetric BLEU of each sample to the other samples.

  The symmetric BLEU of two samples is the mean of both directions. A single
  sample has 0.
  """
  n = len(samples)
  if n < 2:
    return [0.0] * n
  similarity = np.zeros((n, n))
  for i in range(n):
    for j in range(i):
      total = bleu(samples[i], samples[j]) + bleu(samples[j], samples[i])
      similarity[i, j] = similarity[j, i] = total / 2
  return list(1 - similarity.sum(1) / (n - 1))


def step_diversity(samples: list[set]) -> list[float]:
  """Returns the share of each sample's steps that no other sample has.

  A sample without steps has 0.

  Args:
    samples: the distinct steps of each sample.
  """
  counts = collections.Counter(step for steps in samples for step in steps)
  return [
    sum(counts[step] == 1 for step in steps) / len(steps) if steps else 0.0
    for steps in samples
  ]


def _steps(tokens: np.ndarray, ids: np.ndarray) -> set:
  """Returns the distinct steps of a sample, each a tuple of tokens."""
  # `ids` has the step of each scored token; -1 outside of steps.
  return {tuple(tokens[ids == k].tolist()) for k in set(ids.tolist()) if k >= 0}


def diversity(rollout: types.Rollout, kind: str) -> np.ndarray:
  """Returns the diversity `[P, S]` of samples; runs on the host.

  Samples that do not exist have 0.

  Args:
    rollout: a rollout of numpy arrays.
    kind: "bleu" or "steps".

  Raises:
    UsageError: if the kind is "steps" and the rollout has no steps.
  """
  tokens, mask = rollout.completions, rollout.valid("token")
  result = np.zeros(mask.shape[:2], np.float32)
  for p, is_valid in enumerate(rollout.sample_mask):
    (samples,) = np.nonzero(is_valid)
    scored_tokens = [tokens[p, i][mask[p, i]] for i in samples]
    if kind == "bleu":
      values = bleu_diversity([sample.tolist() for sample in scored_tokens])
    elif rollout.step_ids is None:
      raise UsageError(
        "diver(kind='steps'): the rollout has no steps; choose a task that "
        "cuts its completions into steps, such as chain"
      )
    else:
      ids = [rollout.step_ids[p, i][mask[p, i]] for i in samples]
      pairs = zip(scored_tokens, ids, strict=True)
      values = step_diversity([_steps(*pair) for pair in pairs])
    result[p, samples] = values
  return result


@transform(takes="sample", needs=lambda kind, **_: {diversity_need(kind)})
def plus_diversity(
  signal: Array, rollout: types.Rollout, *, kind: str, bonus_steps: int
) -> Array:
  """Returns R + min(diversity, cap) for right samples, and R for all others.

  After `bonus_steps` training steps it returns R for all samples.
  """
  bonus = jnp.minimum(rollout.extras[diversity_need(kind)], CAPS[kind])
  has_bonus = (rollout.correct == 1) & (rollout.step < bonus_steps)
  return jnp.where(
    rollout.sample_mask, signal + jnp.where(has_bonus, bonus, 0.0), 0
  )


def diversity_need(kind: str) -> scoring.Need:
  """Returns the need for the diversity of samples, computed on the host.

  Two needs of one kind have the same name and are equal.
  """
  return scoring.host(
    f"diversity({kind})", lambda rollout: diversity(rollout, kind), "sample"
  )


def diver(
  kind: str = "bleu",
  bonus_steps: int = 100,
  low: float = 0.2,
  high: float = 0.28,
  ddof: int = 1,
) -> Method:
  """GRPO on R + min(d, cap) for right samples, d the distance to the group.

  R [P, S] are the scores; d [P, S] is computed with numpy on the host:

    bleu   d_i = 1 - the mean over the other samples j of the group of the
           symmetric BLEU of i and j (1- to 5-grams of tokens); cap 0.09
    steps  d_i = share of the reasoning steps of i that no other sample of the
           group has (in the paper, of the equations); cap 0.42

  Right samples are those with a right verdict. The loss is PPO-clip, averaged
  over the tokens of all samples, without a KL.
  Deviation: the paper's n-grams are those of the first 1000 characters; in this
  implementation they are of tokens, of whole samples.
  Left out: the paper's sum of both kinds, in which the kind "steps" is
  multiplied by the accuracy of the group; a cosine decay of the bonus; the
  potential-based form.
  Source: DIVER: Diversity-Incentivized Exploration for Versatile Reasoning,
  2025.
  Quantity: host/diversity.

  Args:
    kind: kind of the diversity d, "bleu" or "steps".
    bonus_steps: number of training steps, from the start of the run, in which
      right samples earn the bonus.
    low, high: clip range [1 - low, 1 + high] of the importance ratio.
    ddof: the standard deviation of n samples divides by n - ddof.

  Raises:
    UsageError: if the kind is unknown.
  """
  if kind not in CAPS:
    raise UsageError(registry.describe_unknown("kind", kind, CAPS))
  return Method(
    advantage=chain(
      scores(), plus_diversity(kind, bonus_steps), group_normalize(ddof)
    ),
    loss=policy_gradient(ppo_clip(low, high)),
  )
