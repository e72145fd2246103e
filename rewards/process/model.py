"""A process reward model: a decoder and a head that scores the end of steps.

  score of step k = head(h, max_t n_t, sum_t n_t)

h is the hidden state after the last token of reasoning step k. n_t is the
surprise of token t of the step: minus its log-probability under the decoder,
which keeps the head that predicts tokens. A score depends on the prompt and on
the steps up to its own. Tokens of high surprise often belong to errors, also
before the decoder is trained on labels. All functions are pure and jittable: a
frozen model can score rollouts inside the training loop, and a trained one can
be differentiated.

Axes: P prompts, S samples per prompt, T completion tokens, K steps, D hidden
width, C outputs of the head.

Usage, with a `policy` of hidden width `width` (`rl.types.Policy`):
  model = ProcessModel(policy, heads.linear, heads.two_class_score)
  head = heads.init_linear(key, width + SURPRISES, 2)
  params = {"decoder": ..., "head": head}
  rollout = score_rollout(model, params, rollout)  # fills step_scores

Source: step-end scores of Lightman et al. 2023, Let's Verify Step by Step; the
likelihood of a step as a sign of an error: Han et al. 2025, Uncertainty-Based
Methods for Automated Process Reward Data Construction.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import masked, scoring, types

Array = jax.Array
SURPRISES = 2  # features of a step: its largest surprise, and their sum


@dataclasses.dataclass(frozen=True)
class ProcessModel:
  """A scorer of steps with parameters `{"decoder": ..., "head": ...}`.

  Attributes:
    policy: decoder whose `score` gives the hidden states.
    head: `(params, features [..., D + SURPRISES]) -> [..., C]`, for example
      logits of C classes.
    read: `(outputs [..., C]) -> [...]`, the score of a step from the outputs of
      the head.
  """

  policy: types.Policy
  head: Callable[[types.PyTree, Array], Array]
  read: Callable[[Array], Array]


class Reading(NamedTuple):
  """Results of one pass over samples.

  Attributes:
    hidden: `[P, S, T + 1, D]`, hidden states before the first token and after
      each token.
    log_probs: `[P, S, T]` log-probabilities of the tokens in nats; 0 where
      `Tokens.mask` is False.
  """

  hidden: Array
  log_probs: Array


def step_ends(step_ids: Array, steps: int) -> tuple[Array, Array]:
  """Returns the position of the last token of each step, in O(T K).

  Args:
    step_ids: `[..., T]` int32, the step of each token, -1 outside of steps.
    steps: K, static; steps from number K on are left out.

  Returns:
    `[..., K]` int32 positions, 0 for steps that do not exist; and `[..., K]`
    bool, True for steps that exist.
  """
  ends = masked.run_ends(step_ids, step_ids >= 0)
  ended = jnp.where(ends, step_ids, -1)  # the step that a token ends
  matches = ended[..., None, :] == jnp.arange(steps)[:, None]  # [..., K, T]
  return jnp.argmax(matches, -1), matches.any(-1)


def read_through(
  policy: types.Policy, params: types.PyTree, tokens: types.Tokens
) -> Reading:
  """Computes hidden states before and after every token, in one forward pass.

  Entry t of `rl.types.Scored.hidden` is the state from which token t is
  predicted. One more token is appended, so that entry t + 1, the state after
  token t, exists for every token.

  Args:
    policy: the decoder.
    params: parameters of the decoder.
    tokens: `[P, S, T]` completions with their prompts.

  Returns:
    `Reading`.
  """
  padding = [(0, 0), (0, 0), (0, 1)]
  longer = tokens.replace(
    completions=jnp.pad(tokens.completions, padding),
    mask=jnp.pad(tokens.mask, padding),
    room=0,  # all hidden states are read, those of padding too
  )
  scored = policy.score(params, longer)
  # `scoring.read` calls `score`, which here returns the result of this pass.
  with_result = dataclasses.replace(policy, score=lambda params, tokens: scored)
  values = scoring.read(
    with_result, params, longer, [scoring.log_probs], types.Named()
  )
  log_probs = values[scoring.log_probs.name][:, :, :-1]
  log_probs = jnp.where(tokens.mask, log_probs, 0.0)
  return Reading(hidden=scored.hidden, log_probs=log_probs)


def step_features(reading: Reading, step_ids: Array, steps: int) -> Array:
  """Returns the features of every step that a head reads, in O(T K + K D).

  Args:
    reading: results of `read_through`.
    step_ids: `[P, S, T]` int32, -1 outside of steps.
    steps: K, static.

  Returns:
    `[P, S, K, D + SURPRISES]` float32: the state after the step, and the
    largest surprise and the sum of surprises of its tokens in nats.
  """
  ends, _ = step_ends(step_ids, steps)
  after = jnp.take_along_axis(reading.hidden, ends[..., None] + 1, axis=2)
  # Index K is out of range, so the scatters below drop tokens outside of steps.
  indices = jnp.where(step_ids >= 0, step_ids, steps)
  length = indices.shape[-1]

  def scatter(indices: Array, surprise: Array) -> Array:
    """Returns the largest and the total surprise of each step, `[K, 2]`."""
    zeros = jnp.zeros(steps)
    largest = zeros.at[indices].max(surprise, mode="drop")
    total = zeros.at[indices].add(surprise, mode="drop")
    return jnp.stack([largest, total], -1)

  surprises = jax.vmap(scatter)(
    indices.reshape(-1, length), -reading.log_probs.reshape(-1, length)
  )
  surprises = surprises.reshape(*after.shape[:-1], SURPRISES)
  return jnp.concatenate([after.astype(jnp.float32), surprises], -1)


def score_steps(
  model: ProcessModel,
  params: types.PyTree,
  tokens: types.Tokens,
  step_ids: Array,
  steps: int,
) -> Array:
  """Returns the head's outputs at the end of every step.

  Args:
    model: decoder and head.
    params: `{"decoder": ..., "head": ...}`.
    tokens: `[P, S, T]` completions with their prompts.
    step_ids: `[P, S, T]` int32, -1 outside of steps.
    steps: K, static.

  Returns:
    `[P, S, K, C]` float32; finite but meaningless for steps that do not exist.
  """
  reading = read_through(model.policy, params["decoder"], tokens)
  return model.head(params["head"], step_features(reading, step_ids, steps))


def score_rollout(
  model: ProcessModel, params: types.PyTree, rollout: types.Rollout
) -> types.Rollout:
  """Replaces the step scores of a rollout by those of this model.

  Args:
    model: decoder and head.
    params: parameters of decoder and head; the scores have no gradient in them.
    rollout: rollout with `step_ids` and `step_mask`.

  Returns:
    The rollout with new `step_scores`, 0 for steps that do not exist.

  Raises:
    ValueError: the task does not split completions into steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "the rollout has no step_ids and step_mask, because its task does not "
      "split completions into steps; a process reward model needs steps"
    )
  outputs = score_steps(
    model,
    params,
    rollout.tokens,
    rollout.step_ids,
    rollout.step_mask.shape[-1],
  )
  scores = jax.lax.stop_gradient(model.read(outputs))
  return rollout.replace(step_scores=jnp.where(rollout.step_mask, scores, 0.0))
