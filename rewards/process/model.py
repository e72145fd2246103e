"""A process reward model: a decoder and a head, read where a step ends.

  score of step k = head(h, max_t n_t, sum_t n_t)

with h the hidden state after the last token of step k and n_t = -log p(t) how
much the decoder, which still predicts tokens, is surprised by each token of the
step. So a score knows the prompt and all steps up to its own, and no later one.
Surprise is what a decoder knows of errors before it has seen any label; the
head learns how much of it, and where, is one. The functions are pure and
jittable: a frozen model scores rollouts inside the training loop, a learning
one is differentiated.

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
SURPRISES = 2  # the largest of a step, and their sum


@dataclasses.dataclass(frozen=True)
class ProcessModel:
  """What scores steps; its parameters are `{"decoder": ..., "head": ...}`.

  Attributes:
    policy: whose `score` gives the hidden states.
    head: `(params, features [..., D + SURPRISES]) -> [..., C]`, raw outputs of
      the classes.
    read: `(outputs [..., C]) -> [...]`, one score of a step.
  """

  policy: types.Policy
  head: Callable[[types.PyTree, Array], Array]
  read: Callable[[Array], Array]


class Reading(NamedTuple):
  """What one pass over samples leaves to read.

  Attributes:
    hidden: `[P, S, T + 1, D]`, before the first token and after each.
    log_probs: `[P, S, T]`, nats, of every token; 0 of what is not scored.
  """

  hidden: Array
  log_probs: Array


def step_ends(step_ids: Array, steps: int) -> tuple[Array, Array]:
  """Where each step's last token is, in O(T K).

  Args:
    step_ids: `[..., T]` int32, the step of each token, -1 outside.
    steps: K, static; steps from K on are left out.

  Returns:
    `[..., K]` int32 positions, 0 where there is no such step; and `[..., K]`
    bool, which steps there are.
  """
  ends = masked.run_ends(step_ids, step_ids >= 0)
  ended = jnp.where(ends, step_ids, -1)  # the step that a token ends
  found = ended[..., None, :] == jnp.arange(steps)[:, None]
  return jnp.argmax(found, -1), found.any(-1)


def read_through(
  policy: types.Policy, params: types.PyTree, tokens: types.Tokens
) -> Reading:
  """States before and after every token, from one forward pass.

  `rl.types.Scored` has at t the state that token t is predicted from, one
  token early; so one more token is fed, and the state after t is found at
  t + 1.

  Args:
    policy, params: the decoder.
    tokens: `[P, S, T]` completions of their prompts.

  Returns:
    `Reading`.
  """
  room = [(0, 0), (0, 0), (0, 1)]
  longer = tokens.replace(
    completions=jnp.pad(tokens.completions, room),
    mask=jnp.pad(tokens.mask, room),
  )
  scored = policy.score(params, longer)
  once = dataclasses.replace(policy, score=lambda params, tokens: scored)
  found = scoring.read(once, params, longer, [scoring.log_probs], types.Named())
  log_probs = found[scoring.log_probs.name][:, :, :-1]
  return Reading(scored.hidden, jnp.where(tokens.mask, log_probs, 0.0))


def step_features(reading: Reading, step_ids: Array, steps: int) -> Array:
  """What a head reads of every step, in O(T K + K D).

  Args:
    reading: of `read_through`.
    step_ids: `[P, S, T]` int32, -1 outside.
    steps: K, static.

  Returns:
    `[P, S, K, D + SURPRISES]` float32: the state after the step, and the
    largest and the sum of its tokens' surprises in nats.
  """
  ends, _ = step_ends(step_ids, steps)
  after = jnp.take_along_axis(reading.hidden, ends[..., None] + 1, axis=2)
  slots = jnp.where(step_ids >= 0, step_ids, steps)  # out of range: dropped
  room = slots.shape[-1]

  def of_row(slots: Array, surprise: Array) -> Array:
    none = jnp.zeros(steps)
    largest = none.at[slots].max(surprise, mode="drop")
    return jnp.stack([largest, none.at[slots].add(surprise, mode="drop")], -1)

  surprises = jax.vmap(of_row)(
    slots.reshape(-1, room), -reading.log_probs.reshape(-1, room)
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
  """The head's outputs at the end of every step.

  Args:
    model: decoder and head.
    params: `{"decoder": ..., "head": ...}`.
    tokens: `[P, S, T]` completions of their prompts.
    step_ids: `[P, S, T]` int32, -1 outside.
    steps: K, static.

  Returns:
    `[P, S, K, C]` float32; finite and without meaning where there is no step.
  """
  reading = read_through(model.policy, params["decoder"], tokens)
  return model.head(params["head"], step_features(reading, step_ids, steps))


def score_rollout(
  model: ProcessModel, params: types.PyTree, rollout: types.Rollout
) -> types.Rollout:
  """The rollout with this model's scores in place of the task's.

  Args:
    model: decoder and head, frozen: no gradient passes.
    params: its parameters.
    rollout: with `step_ids` and `step_mask`.

  Returns:
    The rollout with new `step_scores`, 0 where there is no step.

  Raises:
    ValueError: its task does not cut completions into steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise ValueError(
      "the rollout has no step_ids and step_mask: its task does not cut "
      "completions into steps, so there is nothing to score"
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
