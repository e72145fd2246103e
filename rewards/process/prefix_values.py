"""Prefix values: a sampler that estimates the value of each reasoning step.

The value of a step is the chance of success after it.

Axes: P prompts, S samples per prompt (a group), T tokens, K reasoning steps.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp

from rl import UsageError, registry, types
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler

Array = jax.Array


def prefix_values(
  continuations: int = 4,
  steps: int = 8,
  prover: str = "policy",
  forced: bool = False,
) -> Sampler:
  """Returns a sampler that continues its samples from the end of each step.

  It adds to the extras of the rollout

    "sampler/values"  `[P, S, K]`, V_k of each sample: the mean verdict of
      `continuations` completions of the prefix with steps 0 to k. For the last
      step of a sample it is the sample's verdict. Steps that do not exist have
      value 0.
    "sampler/prompt_values"  `[P]`, the mean verdict of the group's samples; if
      `forced`, that of `continuations` answers without any reasoning.
    "sampler/tokens"  `[]`, number of tokens of the samples and of the
      continuations, which are up to steps * continuations * T per sample.

  Unknown verdicts do not count in a mean. If all verdicts after a step are
  unknown, its value is that of the step before (of the prompt, for step 0); if
  all verdicts of a group are unknown, the value of the prompt is 0.

  Source: Wang et al. 2024, Math-Shepherd; Setlur et al. 2024,
  Rewarding Progress (PAV), whose prover policy is `prover`.

  Args:
    continuations: number of continuations of each prefix.
    steps: number of steps from which samples are continued. The value of a
      later step is that of the last step with continuations, or the verdict for
      the last step of a sample.
    prover: the parameters that continue the prefixes: "policy" for those that
      sample, or the name of a parameter set of the method, such as "ref".
    forced: whether the answer cue of the task follows each prefix, so that a
      continuation answers at once, without further steps (MRT, VSRM). A prefix
      that leaves no space for the cue in T tokens is shortened.

  Raises:
    UsageError: a number is below 1; or, when the sampler runs, `prover` is
      unknown, the task has no steps, or `forced` and it has no answer cue.
  """
  for setting, number in (("continuations", continuations), ("steps", steps)):
    if number < 1:
      raise UsageError(f"{setting} = {number} must be at least 1")

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = samplers.once().run(batch, memory)
    if rollout.step_ids is None:
      raise UsageError(f"{name}: the task has no steps to continue from")
    if forced and not batch.answer_cue:
      raise UsageError(f"{name}: the task has no answer cue; use forced=False")
    if prover not in ("policy", *batch.parameter_sets):
      allowed = ["policy", *batch.parameter_sets]
      raise UsageError(
        f"{name}: {registry.describe_unknown('prover', prover, allowed)}"
      )
    params = (
      batch.params if prover == "policy" else batch.parameter_sets[prover]
    )

    def extend(prefix: Array, active: Array) -> types.Rollout:
      """Continues prefixes `[P, S]` of the samples in `active` `[P, S]`."""
      source = rollout
      if forced:
        source, prefix = _append_cue(rollout, prefix, batch.answer_cue)
      return batch.extend(params, source, prefix, continuations, active)

    tokens = rollout.scored_lengths.sum()
    if forced:
      first = jnp.arange(rollout.scores.shape[1]) == 0  # [S]
      active = jnp.broadcast_to(first, rollout.scores.shape)
      answers = extend(jnp.zeros_like(rollout.tokens.lengths), active)
      verdicts = answers.correct.reshape(*rollout.scores.shape, -1)[:, 0]
      exists = answers.sample_mask.reshape(*rollout.scores.shape, -1)[:, 0]
      prompt_value = _mean_verdict(verdicts, exists)  # [P]
      tokens += answers.extras["sampler/drawn"].sum()
    else:
      prompt_value = _mean_verdict(rollout.correct, rollout.sample_mask)  # [P]
    # Value of the longest prefix so far that was continued, [P, S].
    value = jnp.broadcast_to(prompt_value[:, None], rollout.scores.shape)
    num_steps = rollout.step_mask.shape[-1]
    last = rollout.step_ids.max(-1)  # the last step of each sample, [P, S]
    values = []

    def with_verdict(k: int, value: Array) -> Array:
      """Replaces the value by the verdict where k is the sample's last step."""
      verdict = jnp.where(rollout.correct >= 0, rollout.correct, value)
      return jnp.where(k == last, verdict, value)

    for k in range(min(steps, num_steps)):
      # The prefix has all tokens of steps 0 to k, also those without a loss.
      inside = (rollout.step_ids >= 0) & (rollout.step_ids <= k)
      prefix = jnp.where(inside, 1 + jnp.arange(inside.shape[-1]), 0).max(-1)
      active = rollout.sample_mask & (k < last)  # [P, S]
      continued = extend(prefix, active)
      # Means over [P S, continuations]; value is that of the step before.
      means = _mean_verdict(
        continued.correct, continued.sample_mask, value.reshape(-1)
      )
      tokens += continued.extras["sampler/drawn"].sum()
      value = jnp.where(active, means.reshape(active.shape), value)
      values.append(with_verdict(k, value))
    values += [with_verdict(k, value) for k in range(len(values), num_steps)]
    values = jnp.where(rollout.step_mask, jnp.stack(values, -1), 0.0)
    return samplers.add_extras(
      rollout, values=values, prompt_values=prompt_value, tokens=tokens
    )

  name = (
    f"prefix_values(continuations={continuations}, steps={steps}, "
    f"prover={prover}" + (", forced=True)" if forced else ")")
  )
  return Sampler(name, run, gives=("sampler/values", "sampler/prompt_values"))


def _append_cue(
  rollout: types.Rollout,
  prefix_lengths: Array,  # [P, S], in tokens
  cue: tuple[int, ...],  # token ids
) -> tuple[types.Rollout, Array]:
  """Writes the cue after the prefixes; returns the rollout and new lengths."""
  size = rollout.completions.shape[-1]  # T
  # Where a prefix leaves too little room, the cue replaces its end.
  start = jnp.minimum(prefix_lengths, size - len(cue))  # [P, S]
  nth = jnp.arange(size) - start[..., None]  # 0 for the first token of the cue
  in_cue = (nth >= 0) & (nth < len(cue))
  completions = jnp.where(in_cue, jnp.asarray(cue)[nth], rollout.completions)
  tokens = rollout.tokens.replace(completions=completions)
  return rollout.replace(tokens=tokens), start + len(cue)


def _mean_verdict(
  correct: Array, valid: Array, default: Array | float = 0.0
) -> Array:
  """Returns the mean verdict on the last axis; `default` if all are unknown."""
  has_verdict = valid & (correct >= 0)
  count = has_verdict.sum(-1)
  mean = ((correct == 1) & has_verdict).sum(-1) / jnp.maximum(count, 1)
  return jnp.where(count > 0, mean, default)
