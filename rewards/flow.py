"""How far a hidden state is off the paths of good ones: a flow's error.

A velocity field is trained by flow matching on the hidden states of right
answers, each given the state before it. Where a new state is off what the field
expects, its error is large, and the token is charged:

  x_t   = t h + (1 - t) noise
  error = t / (1 - t) mean (v(x_t, t, before) - (h - noise))^2
  r     = -coef u where u > threshold and among the `most` largest, u = min-max
          of the error over the answer

Add it to the normalised outcome on the last token and sum what is to come.

Usage, `states` [P, S, T, H] of one layer at every token of a completion, and
`first` [P, S, 1, H] at the last token of its prompt; average the scores of
several layers (at a quarter, half and three quarters of the depth):
  field = flow.init(key, H)
  before = jnp.concatenate([first, states[..., :-1, :]], -2)
  scores = flow.score(field, states, before, mask, noise_key)
  rewards = flow.token_rewards(scores, mask)

Its weakness: what is far from the right answers seen so far is charged, be it
wrong or new. Source: RLFR: Extending Reinforcement Learning for LLMs with Flow
Environment, 2025, and its code. Deviation: a plain network of three layers,
where the code has one of six with normalisation.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import spread
from rewards.inputs import present
from rl import masked

Array = jax.Array
Params = list[dict[str, Array]]


def init(key: Array, size: int, width: int = 256) -> Params:
  """A velocity field of states of `size` channels.

  Args:
    key: PRNG key.
    size: H.
    width: of its hidden layers.
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
    field: of `init`.
    x, before: `[..., H]`.
    time: `[...]` in [0, 1].
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
  states, before = (present(x, mask[..., None]) for x in (states, before))
  noise = jax.random.normal(key, states.shape)
  t = time[..., None]
  found = velocity(field, t * states + (1.0 - t) * noise, time, before)
  return present(jnp.mean((found - (states - noise)) ** 2, -1), mask)


def matching_loss(
  field: Params, states: Array, before: Array, mask: Array, key: Array
) -> Array:
  """The mean error at random times: what the field is trained by.

  Args:
    field: of `init`, differentiated.
    states: `[..., T, H]` of right answers.
    before: `[..., T, H]`, the state of the token before each, whoever wrote
      it: a prompt's last token, or a tool's, is no answer but comes before one.
    mask: `[..., T]` bool, tokens of the answer; others are not read.
    key: PRNG key, of times and noise.

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
    field: of `init`, trained.
    states, before, mask: as of `matching_loss`.
    key: PRNG key of the noise, which makes the reward a random one.
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
  most: int = 15,
) -> Array:
  """-coef u of the few tokens that are furthest off, else 0; O(T log T).

  Args:
    scores: `[..., T]`, of `score`.
    mask: `[..., T]` bool, tokens of the answer.
    coef: what the furthest one costs.
    threshold: of u, the min-max normalised score; equal scores are 0.
    most: tokens of an answer that are charged, the first of equals.

  Returns:
    `[..., T]` float32 in [-coef, 0].
  """
  unit = spread.stretched(scores, mask)
  order = jnp.argsort(jnp.where(mask, -unit, jnp.inf), -1, stable=True)
  rank = jnp.argsort(order, -1, stable=True)
  charged = mask & (unit > threshold) & (rank < most)
  return jnp.where(charged, -coef * unit, 0.0)
