"""A rollout for a person to read: prompt, completion, score, advantages."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.training.experiment import Experiment
from experiments.training.rollouts import HostRolloutFn
from rl import learners, scoring, step

Record = dict[str, Any]
_ENTROPY = scoring.Need("old", scoring.entropy)
_UNFINISHED = "\ufffd"  # what a tokenizer shows of a letter that is cut


def recorder(
  e: Experiment, gather: HostRolloutFn
) -> Callable[[step.State], list[Record]]:
  """What writes down the rollout that a state's next step learns from.

  It is sampled once more, and is the same: a rollout is a pure function of the
  state.

  Args:
    e: the experiment.
    gather: `state -> (rollout, times)`.

  Returns:
    `state -> records`, one per sample, with "prompt_id", "prompt" and
    "completion" (text), "score", "terms" (the components, as they went into the
    score), "correct" (1, 0, -1 unknown) and "finished". One per token: "tokens",
    "pieces" (their texts, which make up the completion), "advantages" (null
    where the loss reads no signal), "log_probs" (when it was sampled) and
    "entropies" (of the policy before the step), both null at tokens of others,
    and "step_ids" (-1 outside). One per reasoning step: "step_scores". Without
    steps these two are null.
  """
  prepare = _preparer(e)

  def record(state: step.State) -> list[Record]:
    rollout, _ = gather(state)
    rollout = learners.by_learner(rollout)[learners.POLICY]
    return _records(e, *jax.device_get(prepare(state, rollout)))

  return record


def _records(e: Experiment, prepared, advantages, entropies) -> list[Record]:
  tokens = prepared.tokens
  decode = functools.cache(lambda ids: e.task.decode(np.array(ids, np.int32)))
  records = []
  for p, s in np.ndindex(tokens.lengths.shape):
    if not prepared.sample_mask[p, s]:
      continue
    length = tokens.lengths[p, s]
    ids = tokens.completions[p, s, :length]
    own = tokens.mask[p, s, :length]
    has_steps = prepared.step_scores is not None
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
        "pieces": pieces(decode, ids.tolist()),
        "advantages": (
          None
          if advantages is None
          else _rounded(advantages[p, s, :length], digits=7)
        ),
        "log_probs": _rounded(prepared.behavior_log_probs[p, s, :length], own),
        "entropies": _rounded(entropies[p, s, :length], own),
        "step_ids": (
          prepared.step_ids[p, s, :length].tolist() if has_steps else None
        ),
        "step_scores": (
          _rounded(prepared.step_scores[p, s][prepared.step_mask[p, s]])
          if has_steps
          else None
        ),
      }
    )
  return records


def pieces(
  decode: Callable[[tuple[int, ...]], str], ids: Sequence[int]
) -> list[str]:
  """The texts of tokens; together they are the text of all.

  A token's text is what it adds to the one before it. Of a letter that several
  tokens spell the last one has all; the others have none.

  Args:
    decode: the text of ids, asked for few at a time.
    ids: of a completion.

  Returns:
    A text for each.
  """
  found, start, done = [], 0, 0
  for end in range(1, len(ids) + 1):
    before, text = decode(tuple(ids[start:done])), decode(tuple(ids[start:end]))
    is_open = text.endswith(_UNFINISHED) and end < len(ids)
    if is_open or len(text) <= len(before):
      found.append("")
    else:
      found.append(text[len(before) :])
      start, done = done, end
  return found


def _rounded(
  values: np.ndarray, known: Iterable[bool] | None = None, digits: int = 4
) -> list[float | None]:
  """Four digits are enough to look at; None for what is not known."""
  known = np.ones(len(values), bool) if known is None else known
  return [
    float(f"{value:.{digits}g}") if is_known else None
    for value, is_known in zip(values, known, strict=True)
  ]


def _preparer(e: Experiment) -> Callable:
  """The rollout, its advantages and entropies at tokens, as the step sees it."""

  @functools.partial(jax.jit, out_shardings=e.replicated)
  def prepare(state, rollout):
    needs = prepare.required(e.method, e.plan.updates) | {_ENTROPY}
    scored = e.passed(state, rollout, needs)
    batch, _, _ = prepare.prepare(e.method, scored, state.method_state)
    kept = batch.rollout.replace(extras=rollout.extras)
    entropies = scored.extras[_ENTROPY]
    found = prepare.first_signal(e.method, batch)
    if found is None:
      return kept, None, entropies
    signal, mask = found
    if signal.ndim == 2:  # a value of the sample, shown at its tokens
      signal, mask = signal[..., None], kept.mask
    return kept, jnp.where(mask, signal, 0.0), entropies

  return prepare
