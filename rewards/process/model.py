"""A process reward model: a decoder and a head, read where a step ends.

  score of step k = head(hidden state after the last token of step k)

so a score knows the prompt and all steps up to its own, and no later one. The
functions are pure and jittable: a frozen model scores rollouts inside the
training loop, a learning one is differentiated.

Usage:
  model = ProcessModel(policy, heads.linear, heads.two_class_score)
  params = {"decoder": ..., "head": heads.init_linear(key, width, 2)}
  rollout = score_rollout(model, params, rollout)  # fills step_scores
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class ProcessModel:
  """What scores steps; its parameters are `{"decoder": ..., "head": ...}`.

  Attributes:
    policy: whose `score` gives the hidden states.
    head: `(params, hidden [..., D]) -> [..., C]`, raw outputs of the classes.
    read: `(outputs [..., C]) -> [...]`, one score of a step.
  """

  policy: types.Policy
  head: Callable[[types.PyTree, Array], Array]
  read: Callable[[Array], Array]


def step_ends(step_ids: Array, steps: int) -> tuple[Array, Array]:
  """Where each step's last token is.

  Args:
    step_ids: `[..., T]` int32, the step of each token, -1 outside.
    steps: K, static; steps from K on are left out.

  Returns:
    `[..., K]` int32 positions, 0 where there is no such step; and `[..., K]`
    bool, which steps there are.
  """
  positions = jnp.arange(step_ids.shape[-1])
  flat = step_ids.reshape(-1, step_ids.shape[-1])
  slots = jnp.where(flat >= 0, flat, steps)  # out of range: dropped
  last = jax.vmap(
    lambda row: jnp.full(steps, -1).at[row].max(positions, mode="drop")
  )(slots)
  last = last.reshape(*step_ids.shape[:-1], steps)
  return jnp.maximum(last, 0), last >= 0


def read_through(
  policy: types.Policy, params: types.PyTree, tokens: types.Tokens
) -> types.Scored:
  """States before and after every token, from one forward pass.

  `rl.types.Scored` has at t the state that token t is predicted from, one
  token early; so one more token is fed, and the state after t is found at
  t + 1.

  Args:
    policy, params: the decoder.
    tokens: `[P, S, T]` completions of their prompts.

  Returns:
    `Scored` whose `hidden` is `[P, S, T + 1, D]`: before the first token, and
    after each.
  """
  room = [(0, 0), (0, 0), (0, 1)]
  longer = tokens.replace(
    completions=jnp.pad(tokens.completions, room),
    mask=jnp.pad(tokens.mask, room),
  )
  return policy.score(params, longer)


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
  read = read_through(model.policy, params["decoder"], tokens)
  return at_step_ends(model, params, read.hidden, step_ids, steps)


def at_step_ends(
  model: ProcessModel,
  params: types.PyTree,
  hidden: Array,
  step_ids: Array,
  steps: int,
) -> Array:
  """The head's outputs, where the states are known.

  Args:
    model, params, step_ids, steps: as of `score_steps`.
    hidden: `[P, S, T + 1, D]`, of `read_through`.

  Returns:
    `[P, S, K, C]` float32.
  """
  ends, _ = step_ends(step_ids, steps)
  after = jnp.take_along_axis(hidden, ends[..., None] + 1, axis=2)
  return model.head(params["head"], after)


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
