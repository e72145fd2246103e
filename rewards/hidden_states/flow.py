"""Flow rewards: tokens pay for hidden states unlike those of right answers.

A velocity field is trained by flow matching on the hidden states of right
answers, each conditioned on the state before it. If a new state differs from
what the field predicts, its error is large and the token is charged:

  x_t   = t h + (1 - t) noise
  error = t / (1 - t) mean (v(x_t, t, before) - (h - noise))^2
  r     = -coef u if u > threshold and u is among the `max_tokens` largest,
          with u the min-max normalized error over the answer

Add r to the normalized outcome on the last token and sum over later tokens.

Usage, with `states` [P, S, T, H] of one layer at every token of a completion
and `first` [P, S, 1, H] at the last token of its prompt; average the scores of
several layers (at a quarter, half and three quarters of the depth): field =
flow.init(key, H) before = jnp.concatenate([first, states[..., :-1, :]], -2)
scores = flow.score(field, states, before, mask, noise_key) rewards =
flow.token_rewards(scores, mask)

The reward charges every state that differs from the right answers so far,
whether it is wrong or new.

No registered reward calls these functions yet.

Source: RLFR: Extending Reinforcement Learning for LLMs with Flow Environment,
2025, and its code. Deviation: a plain network of three layers, where the code
has one of six with normalization.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.shaping.stretched_with_progress import stretched
from rl import masked

Array = jax.Array


Params = list[dict[str, Array]]


def init(key: Array, size: int, width: int = 256) -> Params:
  """Returns the parameters of a velocity field for states of `size` channels.

  Args:
    key: PRNG key.
    size: width H of a state.
    width: width of the hidden layers.
  """
  sizes = (2 * size + 1, width, width, size)
  kernel = jax.nn.initializers.lecun_normal()
  keys = jax.random.split(key, len(sizes) - 1)
  return [
    {"kernel": kernel(k, (a, b)), "bias": jnp.zeros(b)}
    for k, a, b in zip(keys, sizes, sizes[1:], strict=False)
  ]


def velocity(field: Params, x: Array, time: Array, before: Array) -> Array:
  """v(x, t, before), `[..., H]`.

  Args:
    field: parameters of the field.
    x: `[..., H]` noisy states.
    time: `[...]` t in [0, 1].
    before: `[..., H]` states of the previous tokens.
  """
  h = jnp.concatenate([x, before, time[..., None]], -1)
  for layer in field[:-1]:
    h = jax.nn.silu(h @ layer["kernel"] + layer["bias"])
  return h @ field[-1]["kernel"] + field[-1]["bias"]


def _errors(
  field: Params,
  states: Array,
  before: Array,
  mask: Array,
  time: Array,
  key: Array,
) -> Array:
  """mean_H (v - (h - noise))^2 at `time`, `[..., T]`; 0 where masked."""
  states, before = (
    base.zero_outside(x, mask[..., None]) for x in (states, before)
  )
  noise = jax.random.normal(key, states.shape)
  t = time[..., None]
  predicted = velocity(field, t * states + (1.0 - t) * noise, time, before)
  return base.zero_outside(
    jnp.mean((predicted - (states - noise)) ** 2, -1), mask
  )


def matching_loss(
  field: Params, states: Array, before: Array, mask: Array, key: Array
) -> Array:
  """Returns the loss of the field: its mean error at random times.

  Args:
    field: parameters of the field, differentiated.
    states: `[..., T, H]` hidden states of right answers.
    before: `[..., T, H]`, the state of the token before each of them. This
      token may belong to the prompt or to a tool.
    mask: `[..., T]` bool, tokens of the answer.
    key: PRNG key of times and noise.

  Returns:
    `[]`.
  """
  time_key, noise_key = jax.random.split(key)
  time = jax.random.uniform(time_key, mask.shape)
  error = _errors(field, states, before, mask, time, noise_key)
  return masked.mean(error, mask, tuple(range(mask.ndim)))


def score(
  field: Params,
  states: Array,
  before: Array,
  mask: Array,
  key: Array,
  time: float = 0.8,
) -> Array:
  """t / (1 - t) times the error at one time, with new noise.

  Args:
    field: parameters of the trained field.
    states: `[..., T, H]` hidden states.
    before: `[..., T, H]`, the state of the token before each of them.
    mask: `[..., T]` bool, tokens of the answer.
    key: PRNG key of the noise, which makes the reward random.
    time: t in [0, 1).

  Returns:
    `[..., T]` float32, at least 0; 0 where masked.
  """
  at = jnp.full(mask.shape, time)
  return time / (1.0 - time) * _errors(field, states, before, mask, at, key)


def token_rewards(
  scores: Array,
  mask: Array,
  coef: float = 0.01,
  threshold: float = 0.6,
  max_tokens: int = 15,
) -> Array:
  """-coef u for the few tokens with the largest error, else 0; O(T log T).

  Args:
    scores: `[..., T]`, from `score`.
    mask: `[..., T]` bool, tokens of the answer.
    coef: cost of the token with the largest error.
    threshold: smallest u that is charged; u is the min-max normalized score, 0
      if all scores are equal.
    max_tokens: largest number of tokens per answer that are charged; ties are
      charged in the order of tokens.

  Returns:
    `[..., T]` float32 in [-coef, 0].
  """
  unit = stretched(scores, mask)
  order = jnp.argsort(jnp.where(mask, -unit, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1, stable=True)
  charged = mask & (unit > threshold) & (rank < max_tokens)
  return jnp.where(charged, -coef * unit, 0.0)
