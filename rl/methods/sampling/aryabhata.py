"""Aryabhata: groups that double while their prompt is unsolved.

Axes: P prompts, S samples per prompt (a group), T completion tokens.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import Aggregate, at_least_one
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling.samplers import PromptBatch, Sampler, add_samples, once
from rl.transforms import chain, group_normalize, scores


def doubling(pilot: int, threshold: float) -> Sampler:
  """Returns a sampler that doubles groups while their mean score is low.

  It draws `pilot` samples of every prompt. A group then doubles as long as its
  mean score is below `threshold`, up to the S samples of the rollout. If pilot
  >= S there is one pass.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    size = min(pilot, batch.samples)  # largest number of samples so far
    if size == batch.samples:
      return once().run(batch, memory)
    rollout = batch.sample(batch.params, size)
    unsolved = jnp.ones(rollout.prompt_ids.shape, bool)
    while size < batch.samples:
      count = min(size, batch.samples - size)
      mean = masked.mean(rollout.scores, rollout.sample_mask)
      # Only a prompt that is still unsolved gets `count` further samples.
      unsolved &= (mean < threshold) & rollout.sample_mask.any(-1)
      rollout = add_samples(batch, rollout, count, unsolved * count)
      size += count
    return rollout

  return Sampler(f"doubling(pilot={pilot}, threshold={threshold:g})", run)


def prompt_mean_seq_mean_token_mean() -> Aggregate:
  """Mean over prompts of the mean over samples of the mean over tokens."""

  def weights(mask):  # [P, S, T] -> [P, S, T]
    samples = mask.any(-1)
    token_weights = mask / at_least_one(mask.sum(-1, keepdims=True))
    token_weights = token_weights / at_least_one(samples.sum(-1)[:, None, None])
    return token_weights / at_least_one(samples.any(-1).sum())

  return Aggregate("prompt_mean_seq_mean_token_mean", "token", weights)


def aryabhata(pilot: int = 8, threshold: float = 0.25, ddof: int = 1) -> Method:
  """REINFORCE with the group's z-score, on groups that grow while unsolved.

    loss = -1/G sum_i 1/|y_i| sum_t A_i log pi(y_it), averaged over prompts

  G is the number of samples of the group, |y_i| the number of tokens of sample
  i and A_i [P, S] the z-score of its score in the group. There is no ratio, no
  clip and no KL. Each prompt is divided by its own G, which is `pilot` times 1,
  2, 4, ..., at most the S samples of the rollout. If all groups have the same
  G, the gradient is that of GRPO without a KL at the first update of a rollout.
  Open: the paper does not state by which rule a group grows; in this
  implementation it doubles while its mean score is below `threshold`.
  Left out: the paper also raises the temperature from 0.6 to 1, and selects
  prompts by a window of difficulty.
  Source: Aryabhata: An exam-focused language model for JEE Math, 2025.

  Args:
    pilot: number of samples of every prompt in the first pass.
    threshold: mean score from which a prompt counts as solved.
    ddof: the standard deviation of n samples divides by n - ddof.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      reinforce(), aggregate=prompt_mean_seq_mean_token_mean()
    ),
    sampler=doubling(pilot, threshold),
  )
