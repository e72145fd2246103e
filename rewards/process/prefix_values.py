"""Prefix values: a sampler that estimates the chance of success by step."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import registry, types
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler

Array = jax.Array


def prefix_values(
  continuations: int = 4, steps: int = 8, prover: str = "policy"
) -> Sampler:
  """Samples once and continues from each step to estimate its value.

  The rollout's extras hold

    "sampler/values"         `[P, S, K]` V_k, the mean verdict of `continuations`
                           completions of steps 0 to k. For the last step of a
                           sample it is the sample's verdict; 0 where masked.
    "sampler/prompt_values"  `[P]` V of the prompt, the mean verdict of the group.

  Unknown verdicts do not count; without any verdict V is that of the step
  before. The sampler draws up to steps x continuations x T more tokens per
  sample, which "sampler/tokens" counts.

  Source: Wang et al. 2024, Math-Shepherd; Setlur et al. 2025, Rewarding
  Progress, whose prover policy is `prover`.

  Args:
    continuations: number of continuations of each prefix.
    steps: number of steps that get a value. Later steps get the value of the
      last of them, except for a sample's last step.
    prover: parameters that continue the prefixes: "policy", those that also
      sample, or the name of a parameter set of the method, such as "ref".

  Raises:
    ValueError: a number is below 1, `prover` is unknown, or the task has no steps.
  """
  for what, number in (("continuations", continuations), ("steps", steps)):
    if number < 1:
      raise ValueError(f"{what} = {number} must be at least 1")

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = samplers.once().run(batch, memory)
    if rollout.step_ids is None:
      raise ValueError(f"{name}: the task has no steps to continue from")
    if prover not in ("policy", *batch.parameter_sets):
      allowed = ["policy", *batch.parameter_sets]
      raise ValueError(
        f"{name}: {registry.describe_unknown('prover', prover, allowed)}"
      )
    params = (
      batch.params if prover == "policy" else batch.parameter_sets[prover]
    )
    prompt = _success(rollout.correct, rollout.sample_mask)
    before = jnp.broadcast_to(prompt[:, None], rollout.scores.shape)
    size = rollout.step_mask.shape[-1]
    last = rollout.step_ids.max(-1)
    values, tokens = [], rollout.tokens.lengths.sum()

    def ended(k: int, before: Array) -> Array:
      """V after step k, which is the verdict if k is a sample's last step."""
      verdict = jnp.where(rollout.correct >= 0, rollout.correct, before)
      return jnp.where(k == last, verdict, before)

    for k in range(min(steps, size)):
      # The prefix has all tokens of steps 0 to k, also those without a loss.
      inside = (rollout.step_ids >= 0) & (rollout.step_ids <= k)
      prefix = jnp.where(inside, 1 + jnp.arange(inside.shape[-1]), 0).max(-1)
      active = rollout.sample_mask & (k < last)  # [P, S]
      part = batch.extend(params, rollout, prefix, continuations, active)
      valid = part.sample_mask & active.reshape(-1, 1)  # [P S, continuations]
      chance = _success(part.correct, valid, before.reshape(-1))
      tokens += part.extras["sampler/drawn"].sum()
      before = jnp.where(active, chance.reshape(active.shape), before)
      values.append(ended(k, before))
    values += [ended(k, before) for k in range(len(values), size)]
    values = jnp.where(rollout.step_mask, jnp.stack(values, -1), 0.0)
    return samplers.add_extras(
      rollout, values=values, prompt_values=prompt, tokens=tokens
    )

  name = f"prefix_values(continuations={continuations}, steps={steps}, prover={prover})"
  return Sampler(name, run, gives=("sampler/values", "sampler/prompt_values"))


def _success(
  correct: Array, valid: Array, otherwise: Array | float = 0.0
) -> Array:
  """Mean verdict over the last axis; `otherwise` without any verdict."""
  has_verdict = valid & (correct >= 0)
  count = has_verdict.sum(-1)
  mean = ((correct == 1) & has_verdict).sum(-1) / jnp.maximum(count, 1)
  return jnp.where(count > 0, mean, otherwise)
