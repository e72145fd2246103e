"""The sample dump: rollouts as records that a person can read."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.training.experiment import Experiment
from experiments.training.rollouts import HostRolloutFn
from rl import learners, prepare, scoring, step, types

Record = dict[str, Any]
_ENTROPY = scoring.Need("old", scoring.entropy)
# Tokenizers decode the bytes of an incomplete letter as this character.
_INCOMPLETE_LETTER = "\ufffd"


def make_recorder(
  e: Experiment, sample_rollout: HostRolloutFn
) -> Callable[[step.State], list[Record]]:
  """Returns a function that records the rollout of a state's next step.

  The rollout is sampled once more. It is the one that the step learns from,
  because a rollout is a pure function of the state.

  Args:
    e: the experiment.
    sample_rollout: rollout function, `state -> (rollout, times)`.

  Returns:
    `state -> records`, one record per sample, with the keys

      "prompt_id", "prompt", "completion": the two texts
      "score", "terms": the score, and its components as they entered it
      "correct": 1, 0, or -1 for unknown
      "finished": whether EOS ended the completion

    and, with one value per token,

      "tokens", "pieces": ids, and their texts, which make up the completion
      "advantages": null if the loss reads no advantage
      "log_probs": at the time of sampling; null at tokens that
        the policy did not write
      "entropies": of the policy before the step; null at the same tokens
      "step_ids": index of the reasoning step, -1 outside; null without steps

    and "step_scores", one per reasoning step; null without steps.
  """
  prepare_rollout = _make_prepare(e)

  def record(state: step.State) -> list[Record]:
    rollouts, _ = sample_rollout(state)
    rollout = learners.by_learner(rollouts)[learners.POLICY]
    return _to_records(e, *jax.device_get(prepare_rollout(state, rollout)))

  return record


def _to_records(
  e: Experiment,
  rollout: types.Rollout,
  advantages: np.ndarray | None,
  entropies: np.ndarray,
) -> list[Record]:
  """Returns one record per sample; advantages and entropies are `[P, S, T]`."""
  tokens = rollout.tokens
  decode = functools.cache(lambda ids: e.task.decode(np.array(ids, np.int32)))
  has_steps = rollout.step_scores is not None
  records = []
  for p, s in np.ndindex(tokens.lengths.shape):
    if not rollout.sample_mask[p, s]:
      continue
    length = tokens.lengths[p, s]
    ids = tokens.completions[p, s, :length]
    is_policy_token = tokens.mask[p, s, :length]
    records.append(
      {
        "prompt_id": int(rollout.prompt_ids[p]),
        "prompt": e.task.decode(tokens.prompts[p][tokens.prompt_mask[p]]),
        "completion": e.task.decode(ids),
        "score": float(rollout.scores[p, s]),
        "terms": {
          name: float(values[p, s])
          for name, values in rollout.components.items()
        },
        "correct": int(rollout.correct[p, s]),
        "finished": bool(rollout.finished[p, s]),
        "tokens": ids.tolist(),
        "pieces": split_text(decode, ids.tolist()),
        "advantages": (
          None
          if advantages is None
          else _round(advantages[p, s, :length], digits=7)
        ),
        "log_probs": _round(
          rollout.behavior_log_probs[p, s, :length], is_policy_token
        ),
        "entropies": _round(entropies[p, s, :length], is_policy_token),
        "step_ids": (
          rollout.step_ids[p, s, :length].tolist() if has_steps else None
        ),
        "step_scores": (
          _round(rollout.step_scores[p, s][rollout.step_mask[p, s]])
          if has_steps
          else None
        ),
      }
    )
  return records


def split_text(
  decode: Callable[[tuple[int, ...]], str], ids: Sequence[int]
) -> list[str]:
  """Splits the text of a completion into the texts of its tokens.

  The text of a token is what it adds to the tokens before it. If several tokens
  spell one letter, the last of them has the letter and the others have "".

  Args:
    decode: function from token ids to their text.
    ids: token ids of a completion.

  Returns:
    One text per token. Joined, they are the text of the completion.
  """
  pieces, start, end_of_last = [], 0, 0
  for end in range(1, len(ids) + 1):
    # Decodes from the last complete letter on, because a tokenizer may write a
    # token differently at the start of a text.
    before = decode(tuple(ids[start:end_of_last]))
    text = decode(tuple(ids[start:end]))
    is_incomplete = text.endswith(_INCOMPLETE_LETTER) and end < len(ids)
    if is_incomplete or len(text) <= len(before):
      pieces.append("")
    else:
      pieces.append(text[len(before) :])
      start, end_of_last = end_of_last, end
  return pieces


def _round(
  values: np.ndarray, mask: Iterable[bool] | None = None, digits: int = 4
) -> list[float | None]:
  """Rounds to significant digits; None where the mask is False."""
  mask = np.ones(len(values), bool) if mask is None else mask
  return [
    float(f"{value:.{digits}g}") if is_valid else None
    for value, is_valid in zip(values, mask, strict=True)
  ]


def _make_prepare(e: Experiment) -> Callable:
  """Returns `(state, rollout) -> (rollout, advantages, entropies)`, compiled.

  They are computed as in the training step. Advantages are None if the loss
  reads no signal.
  """

  @functools.partial(jax.jit, out_shardings=e.replicated)
  def prepare_rollout(state, rollout):
    needs = prepare.required(e.method, e.plan.updates) | {_ENTROPY}
    scored = e.with_scores(state, rollout, needs)
    batch, _, _ = prepare.prepare(e.method, scored, state.method_state)
    prepared = batch.rollout.replace(extras=rollout.extras)
    entropies = scored.extras[_ENTROPY]
    first_signal = prepare.first_signal(e.method, batch)
    if first_signal is None:
      return prepared, None, entropies
    signal, mask = first_signal
    if signal.ndim == 2:  # [P, S]: every token has the value of its sample
      signal, mask = signal[..., None], prepared.mask
    return prepared, jnp.where(mask, signal, 0.0), entropies

  return prepare_rollout
