"""Groups that double while their prompt stays unsolved."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from rl import masked, types
from rl.losses.aggregates import Aggregate, at_least_one
from rl.losses.surrogates import reinforce
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling.samplers import PromptBatch, Sampler, more, once
from rl.transforms import chain, group_normalize, scores


def doubling(pilot: int = 8, threshold: float = 0.25) -> Sampler:
  """`pilot` samples, doubled while a prompt's mean score is below threshold.

  Up to the slots of the rollout; pilot >= slots asks for nothing more.
  """

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    size = min(pilot, batch.samples)
    if size == batch.samples:
      return once().run(batch, memory)
    rollout = batch.sample(batch.params, size)
    poor = jnp.ones(rollout.prompt_ids.shape, bool)
    while size < batch.samples:
      count = min(size, batch.samples - size)
      mean = masked.mean(rollout.scores, rollout.sample_mask)
      poor &= (mean < threshold) & rollout.sample_mask.any(-1)
      rollout = more(batch, rollout, count, poor * count)
      size += count
    return rollout

  return Sampler(f"doubling(pilot={pilot}, threshold={threshold:g})", run)


def prompt_mean_seq_mean_token_mean() -> Aggregate:
  """Mean over prompts of GRPO's mean over samples of the mean over tokens."""

  def coefficients(mask):
    samples = mask.any(-1)
    each = mask / at_least_one(mask.sum(-1, keepdims=True))
    each = each / at_least_one(samples.sum(-1)[:, None, None])
    return each / at_least_one(samples.any(-1).sum())

  return Aggregate("prompt_mean_seq_mean_token_mean", "token", coefficients)


def aryabhata(pilot: int = 8, threshold: float = 0.25, ddof: int = 1) -> Method:
  """REINFORCE with the group's z-score, on groups that grow while unsolved.

  - 1/G sum_i 1/|y_i| sum_t A_i log pi(y_it), A the z-score: no ratio, no clip,
  no KL; each prompt is divided by its own G, of 8, 16, 32 or 64 (the slots).
  With a fixed G its gradient is GRPO's at the first update.
  Open: the paper does not give the rule by which a group grows; here it doubles
  while its mean score is below `threshold`. Left out: the rise of the
  temperature from .6 to 1 and the window of difficulty.
  Source: Aryabhata: An exam-focused language model for JEE Math, 2025.
  """
  return Method(
    advantage=chain(scores(), group_normalize(ddof)),
    loss=policy_gradient(
      reinforce(), aggregate=prompt_mean_seq_mean_token_mean()
    ),
    sampler=doubling(pilot, threshold),
  )
