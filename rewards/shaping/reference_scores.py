"""Reference scores: a sampler that also scores samples of a reference policy.

Axes: P prompts.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp

from rl import UsageError, registry, types
from rl.sampling import samplers
from rl.sampling.samplers import PromptBatch, Sampler


def reference_scores(count: int = 8, params: str = "ref") -> Sampler:
  """Also samples completions from a reference policy, for their scores.

  The scores of the reference completions are the extra
  "sampler/reference_scores" [P, count]; an entry is NaN if the task did not
  score the completion. These completions are not part of the rollout.

  Args:
    count: number of reference completions per prompt.
    params: name of the parameter set of the method that they are sampled from.

  Raises:
    UsageError: `count` is below 1; or, when the sampler runs, the method has no
      such parameter set.
  """
  if count < 1:
    raise UsageError(f"count = {count} must be at least 1")
  name = f"reference_scores(count={count}, params={params})"

  def run(batch: PromptBatch, memory: Any) -> types.Rollout:
    rollout = samplers.once().run(batch, memory)
    if params not in batch.parameter_sets:
      problem = registry.describe_unknown(
        "parameter set", params, batch.parameter_sets
      )
      raise UsageError(f"{name}: {problem}")
    # Numbered after the samples of the rollout, so that they are independent.
    references = batch.sample(
      batch.parameter_sets[params], count, first=batch.samples
    )
    scores = jnp.where(references.sample_mask, references.scores, jnp.nan)
    tokens = rollout.scored_lengths.sum() + references.scored_lengths.sum()
    return samplers.add_extras(rollout, reference_scores=scores, tokens=tokens)

  return Sampler(name, run, gives=("sampler/reference_scores",))
