"""Makes the sample dump: records of the samples with texts and token values.

P is the number of prompts, S of samples per prompt, T of tokens.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from experiments.training import rollout_extras
from experiments.training.experiment import Experiment
from rl import learners, method_loss, scoring, step, training_state, types

Record = dict[str, Any]  # one sample; `make_recorder` lists the keys
# [P, S, T], entropy of the policy at the start of the step, which sampled.
_ENTROPY = scoring.Need("old", scoring.entropy)
# Tokenizers decode an incomplete UTF-8 sequence as this character.
_INCOMPLETE_CHARACTER = "\ufffd"


def make_recorder(
  e: Experiment,
) -> Callable[[training_state.State, step.Rollouts], list[Record]]:
  """Returns a function that records the rollout of a training step.

  Args:
    e: the experiment.

  Returns:
    `(state before the step, rollout) -> records`, one record per sample, with
    the keys

      "prompt_id": id of the problem
      "prompt", "completion": the texts
      "score": outcome reward
      "terms": `{name: component of the score}`
      "correct": verdict: 1 right, 0 wrong, -1 unknown
      "finished": whether EOS ended the completion

    and with lists of one value per token,

      "tokens": ids
      "pieces": texts of the tokens, which joined are the completion
      "advantages": first signal that the loss reads; null if it reads none
      "log_probs": log-probabilities under the distribution that was sampled
        from; null at tokens that the policy did not write
      "entropies": entropies of the policy before the step; null at tokens that
        the policy did not write
      "step_ids": index of the token's reasoning step, -1 outside of steps; null
        if the task marks no steps

    and "step_scores", a list of one value per reasoning step; null if the task
    marks no steps.
  """

  # Returns the rollout, advantages and entropies.
  @functools.partial(jax.jit, out_shardings=e.replicated)
  def prepare_rollout(state, rollout):
    needs = method_loss.required(e.method, e.plan.updates) | {_ENTROPY}
    scored = rollout_extras.with_passes(e, state, rollout, needs)
    batch, _, _ = method_loss.prepare(
      e.method, scored, state.policy.method_state
    )
    # Only arrays that the records need are returned.
    # The rollout has the scores of the method's own reward.
    prepared = batch.rollout.replace(extras=rollout.extras)
    entropies = scored.extras[_ENTROPY]
    first_signal = method_loss.first_signal(e.method, batch)
    if first_signal is None:
      return prepared, None, entropies  # the loss reads no signal
    signal, mask = first_signal
    if signal.ndim == 2:  # [P, S] -> [P, S, 1]: all tokens have one value
      signal, mask = signal[..., None], prepared.mask
    # Advantages `[P, S, T]` are those of the training step, 0 where its filters
    # remove a sample or token.
    return prepared, jnp.where(mask, signal, 0.0), entropies

  def record(
    state: training_state.State, rollouts: step.Rollouts
  ) -> list[Record]:
    rollout = learners.by_learner(rollouts)[learners.POLICY]
    return _to_records(e, *jax.device_get(prepare_rollout(state, rollout)))

  return record


def _to_records(
  e: Experiment,
  rollout: types.Rollout,  # on the host
  advantages: np.ndarray | None,  # [P, S, T]; None if the loss reads no signal
  entropies: np.ndarray,  # [P, S, T]
) -> list[Record]:
  """Returns one record per existing sample."""
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
  """Splits the text of a completion into one text per token.

  The text of a token is what it adds to the text of the tokens before it. If
  several tokens are the bytes of one character, the last of them gets the
  character and the others get "".

  Args:
    decode: function from token ids to their text.
    ids: token ids of a completion.

  Returns:
    One text per token. Joined, they are the text of the completion.
  """
  pieces = []
  # ids[start:last_end] are the tokens of the last piece that is not "". They
  # are decoded together with the next tokens, because a tokenizer may decode a
  # token differently at the start of a text.
  start, last_end = 0, 0
  for end in range(1, len(ids) + 1):
    last_piece = decode(tuple(ids[start:last_end]))
    text = decode(tuple(ids[start:end]))
    is_incomplete = text.endswith(_INCOMPLETE_CHARACTER) and end < len(ids)
    if is_incomplete or len(text) <= len(last_piece):
      pieces.append("")
    else:
      pieces.append(text[len(last_piece) :])
      start, last_end = last_end, end
  return pieces


def _round(
  values: np.ndarray, mask: Iterable[bool] | None = None, digits: int = 4
) -> list[float | None]:
  """Rounds to `digits` significant digits; None where the mask is False."""
  mask = np.ones(len(values), bool) if mask is None else mask
  return [
    float(f"{value:.{digits}g}") if is_valid else None
    for value, is_valid in zip(values, mask, strict=True)
  ]
