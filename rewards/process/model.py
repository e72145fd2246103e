"""A process reward model: a decoder and a head that scores the end of steps.

  score of step k = head(h, max_t n_t, sum_t n_t)

h is the hidden state after the last token of step k, and n_t = -log p(t) is the
surprise of each token of the step under the decoder, which still predicts
tokens. A score depends on the prompt and on the steps up to its own. Surprise
indicates errors before the decoder has seen any label; the head learns how
well. All functions are pure and jittable: a frozen model can score rollouts
inside the training loop, and a trained one can be differentiated.

Usage:
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
    head: `(params, features [..., D + SURPRISES]) -> [..., C]`, outputs of the
      C classes.
    read: `(outputs [..., C]) -> [...]`, the score of a step.
  """

  policy: types.Policy
  head: Callable[[types.PyTree, Array], Array]
  read: Callable[[Array], Array]


class Reading(NamedTuple):
  """Results of one pass over samples.

  Attributes:
    hidden: `[P, S, T + 1, D]`, hidden states before the first token and after
      each token.
    log_probs: `[P, S, T]` log-probabilities of all tokens in nats; 0 where
      masked.
  """

  hidden: Array
  log_probs: Array


def step_ends(step_ids: Array, steps: int) -> tuple[Array, Array]:
  """Positions of the last token of each step, in O(T K).

  Args:
    step_ids: `[..., T]` int32, the step of each token, -1 outside of steps.
    steps: K, static; steps from K on are left out.

  Returns:
    `[..., K]` int32 positions, 0 where masked; and `[..., K]` bool, mask of
    steps.
  """
  ends = masked.run_ends(step_ids, step_ids >= 0)
  ended = jnp.where(ends, step_ids, -1)  # the step that a token ends
  matches = ended[..., None, :] == jnp.arange(steps)[:, None]  # [..., K, T]
  return jnp.argmax(matches, -1), matches.any(-1)


def read_through(
  policy: types.Policy, params: types.PyTree, tokens: types.Tokens
) -> Reading:
  """Hidden states before and after every token, from one forward pass.

  `rl.types.Scored` holds at t the state from which token t is predicted. So one
  more token is appended, and the state after token t stands at t + 1.

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
  )
  scored = policy.score(params, longer)
  # The probes reuse this pass instead of a second one.
  once = dataclasses.replace(policy, score=lambda params, tokens: scored)
  values = scoring.read(
    once, params, longer, [scoring.log_probs], types.Named()
  )
  log_probs = values[scoring.log_probs.name][:, :, :-1]
  return Reading(scored.hidden, jnp.where(tokens.mask, log_probs, 0.0))


def step_features(reading: Reading, step_ids: Array, steps: int) -> Array:
  """Features of every step for a head, in O(T K + K D).

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
  slots = jnp.where(step_ids >= 0, step_ids, steps)
  length = slots.shape[-1]

  def of_row(slots: Array, surprise: Array) -> Array:
    none = jnp.zeros(steps)
    largest = none.at[slots].max(surprise, mode="drop")
    return jnp.stack([largest, none.at[slots].add(surprise, mode="drop")], -1)

  surprises = jax.vmap(of_row)(
    slots.reshape(-1, length), -reading.log_probs.reshape(-1, length)
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
  """The rollout with this model's scores in place of the task's step scores.

  Args:
    model: decoder and head, frozen: gradients do not flow through them.
    params: parameters of decoder and head.
    rollout: rollout with `step_ids` and `step_mask`.

  Returns:
    The rollout with new `step_scores`, 0 where masked.

  Raises:
    ValueError: the task does not split completions into steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "the rollout has no step_ids and step_mask, as its task does not split "
      "completions into steps; a process reward model needs steps"
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
