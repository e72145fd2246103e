"""Values of prefixes: how often an answer that goes on from there is right."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import choices, types
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler

Array = jax.Array


def prefix_values(
  continuations: int = 4, steps: int = 8, by: str = "policy"
) -> Sampler:
  """And the chance of success after each step, by continuing from there.

  "stage/values" `[P, S, K]`: V_k, the mean verdict of `continuations`
  completions of steps 0 to k; of a sample's last step its own verdict, and 0
  where there is no step. "stage/prompt_values" `[P]`: V of the prompt, the
  group's mean verdict. Unknown verdicts do not count; where none is known V is
  that of the step before. It samples up to steps x continuations x T more
  tokens of each sample, which "stage/tokens" counts.

  Source: Wang et al. 2024, Math-Shepherd; Setlur et al. 2025, Rewarding
  Progress, whose prover is `by`.

  Args:
    continuations: of each prefix.
    steps: that are valued; V of those that follow is that of the last one, but
      for a sample's own last step.
    by: who continues, "policy" (who samples) or a slot of the method.

  Raises:
    ValueError: a number below 1, or a task without steps.
  """
  for what, number in (("continuations", continuations), ("steps", steps)):
    if number < 1:
      raise ValueError(f"{what} = {number} must be at least 1")

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = samplers.once().run(batch, memory)
    if rollout.step_ids is None:
      raise ValueError(f"{name}: the task gives no steps to continue from")
    if by not in ("policy", *batch.parameter_sets):
      allowed = ["policy", *batch.parameter_sets]
      raise ValueError(f"{name}: {choices.unknown('by', by, allowed)}")
    params = batch.params if by == "policy" else batch.parameter_sets[by]
    prompt = _success(rollout.correct, rollout.sample_mask)
    before = jnp.broadcast_to(prompt[:, None], rollout.scores.shape)
    size = rollout.step_mask.shape[-1]
    last = rollout.step_ids.max(-1)
    values, tokens = [], rollout.tokens.lengths.sum()

    def ended(k: int, before: Array) -> Array:
      """V after step k, where that may be a sample's last one."""
      own = jnp.where(rollout.correct >= 0, rollout.correct, before)
      return jnp.where(k == last, own, before)

    for k in range(min(steps, size)):
      # All tokens of steps 0 to k, those that nobody trains on too.
      inside = (rollout.step_ids >= 0) & (rollout.step_ids <= k)
      kept = jnp.where(inside, 1 + jnp.arange(inside.shape[-1]), 0).max(-1)
      wanted = rollout.sample_mask & (k < last)
      part = batch.extend(params, rollout, kept, continuations, wanted)
      asked = part.sample_mask & wanted.reshape(-1, 1)
      found = _success(part.correct, asked, before.reshape(-1))
      tokens += part.extras["stage/drawn"].sum()
      before = jnp.where(wanted, found.reshape(wanted.shape), before)
      values.append(ended(k, before))
    values += [ended(k, before) for k in range(len(values), size)]
    values = jnp.where(rollout.step_mask, jnp.stack(values, -1), 0.0)
    return samplers.add_extras(
      rollout, values=values, prompt_values=prompt, tokens=tokens
    )

  name = f"prefix_values(continuations={continuations}, steps={steps}, by={by})"
  return Sampler(name, run, gives=("stage/values", "stage/prompt_values"))


def _success(
  correct: Array, valid: Array, otherwise: Array | float = 0.0
) -> Array:
  """Mean verdict over the last axis, of those that are known."""
  known = valid & (correct >= 0)
  count = known.sum(-1)
  mean = ((correct == 1) & known).sum(-1) / jnp.maximum(count, 1)
  return jnp.where(count > 0, mean, otherwise)
