"""Features of a step for a process reward model: a state and two surprises.

  features of step k = (h, max_t n_t, sum_t n_t)

h is the hidden state of a decoder after the last token of reasoning step k. n_t
is the surprise of token t of the step: minus its log-probability under the
decoder, which keeps the head that predicts tokens. The features depend on the
prompt and on the steps up to their own. Tokens of high surprise often belong to
errors, also before the decoder is trained on labels.

Axes: P prompts, S samples per prompt, T completion tokens, K steps, D hidden
width.

Source: step-end scores of Lightman et al. 2023, Let's Verify Step by Step; the
likelihood of a step as a sign of an error: Han et al. 2025, Uncertainty-Based
Methods for Automated Process Reward Data Construction.
"""

from __future__ import annotations

import dataclasses
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import masked, scoring, types

Array = jax.Array
SURPRISES = 2  # features of a step: its largest surprise, and their sum


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
