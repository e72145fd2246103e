"""A rollout for a person to read: prompt, completion, score, advantages."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.build import Experiment
from experiments.collect import Staged
from rl import learners, method, probes, step

Record = dict[str, Any]


def recorder(
  e: Experiment, gather: Staged
) -> Callable[[step.State], list[Record]]:
  """What writes down the rollout that a state's next step learns from.

  It is sampled once more, and is the same: a rollout is a pure function of the
  state.

  Args:
    e: the experiment.
    gather: `state -> (rollout, times)`.

  Returns:
    `state -> records`, one per sample, with "prompt", "completion" (text),
    "score", "terms" (the components, as they went into the score), "correct"
    (1, 0, -1 unknown), "finished", "tokens" and "advantages" (one per token;
    null where the loss reads no signal).
  """
  prepare = _preparer(e)

  def record(state: step.State) -> list[Record]:
    rollout, _ = gather(state)
    rollout = learners.by_slot(rollout)[learners.POLICY]
    return _records(e, *jax.device_get(prepare(state, rollout)))

  return record


def _records(e: Experiment, prepared, advantages) -> list[Record]:
  tokens = prepared.tokens
  records = []
  for p, s in np.ndindex(tokens.lengths.shape):
    if not prepared.sample_mask[p, s]:
      continue
    ids = tokens.completions[p, s, : tokens.lengths[p, s]]
    records.append(
      {
        "prompt_id": int(prepared.prompt_ids[p]),
        "prompt": e.task.decode(tokens.prompts[p][tokens.prompt_mask[p]]),
        "completion": e.task.decode(ids),
        "score": float(prepared.scores[p, s]),
        "terms": {
          name: float(values[p, s])
          for name, values in prepared.components.items()
        },
        "correct": int(prepared.correct[p, s]),
        "finished": bool(prepared.finished[p, s]),
        "tokens": ids.tolist(),
        "advantages": (
          None if advantages is None else advantages[p, s, : len(ids)].tolist()
        ),
      }
    )
  return records


def _preparer(e: Experiment) -> Callable:
  """The rollout and its advantages at tokens, as the step sees them."""

  @jax.jit
  def prepare(state, rollout):
    sources = {"old": state.params, **state.slots}
    scored = probes.passes(
      e.policy.given(state.frozen),
      sources,
      method.required(e.method, e.plan.updates),
      rollout,
      e.plan.temperature,
      e.plan.chunk,
      e.plan.microbatches,
    )
    batch, _, _ = method.prepare(e.method, scored, state.method_state)
    kept = batch.rollout.replace(extras=rollout.extras)
    found = method.first_signal(e.method, batch)
    if found is None:
      return kept, None
    signal, mask = found
    if signal.ndim == 2:  # a value of the sample, shown at its tokens
      signal, mask = signal[..., None], kept.mask
    return kept, jnp.where(mask, signal, 0.0)

  return prepare
