"""Flow rewards: a charge for hidden states unlike those of right answers.

A velocity field v is trained by flow matching on the hidden states h of the
tokens of right answers, conditioned on the state of the token before. A token
whose state is not predicted well by the field is charged. With Gaussian noise
and a time t in [0, 1):

  x     = t h + (1 - t) noise
  error = t / (1 - t) * mean over channels (v(x, t, before) - (h - noise))^2
  r     = -coef * u if u > threshold and u is among the `max_tokens` largest of
          the answer, else 0; u is the error, min-max normalized over the answer

Add r to the normalized outcome on the last token, and sum over later tokens to
get advantages. The reward charges every state that differs from the right
answers so far, whether the token is wrong or only new.

No registered reward calls these functions yet.

Usage, with hidden states of one layer, `states` [P, S, T, H] at T tokens of S
completions of P prompts, and `first` [P, S, 1, H] at the last prompt token:
  field = flow.init(key, H)
  before = jnp.concatenate([first, states[..., :-1, :]], -2)
  scores = flow.score(field, states, before, mask, noise_key)
  rewards = flow.token_rewards(scores, mask)
The paper averages the scores of layers at a quarter, half and three quarters of
the depth.

Source: RLFR: Extending Reinforcement Learning for LLMs with Flow Environment,
2025, and its released code. Deviation: the released code has a network of six
layers with normalization; this implementation has three layers without.
"""

from __future__ import annotations

import itertools

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
  shapes = list(itertools.pairwise(sizes))
  kernel = jax.nn.initializers.lecun_normal()
  keys = jax.random.split(key, len(shapes))
  return [
    {"kernel": kernel(k, (a, b)), "bias": jnp.zeros(b)}
    for k, (a, b) in zip(keys, shapes, strict=True)
  ]


def velocity(field: Params, x: Array, time: Array, before: Array) -> Array:
  """Returns the velocity v(x, t, before), `[..., H]`.

  Args:
    field: parameters of the field.
    x: `[..., H]` noisy states.
    time: `[...]` t in [0, 1].
    before: `[..., H]` hidden states of the tokens before.
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
  """Returns the mean over channels of (v - (h - noise))^2, `[..., T]`.

  It is 0 where the mask is False. New noise is drawn from `key`.
  """
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
    before: `[..., T, H]`, the hidden state of the token before each token,
      which may be a token of the prompt or of a tool.
    mask: `[..., T]` bool, True for the tokens of the answer.
    key: PRNG key for times and noise.

  Returns:
    `[]` float32, the mean over all tokens in the mask.
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
  """Returns the error of each token, for one time and new noise.

  Args:
    field: parameters of the trained field.
    states: `[..., T, H]` hidden states.
    before: `[..., T, H]`, the hidden state of the token before each token.
    mask: `[..., T]` bool, True for the tokens of the answer.
    key: PRNG key for the noise, which makes the reward random.
    time: t in [0, 1).

  Returns:
    `[..., T]` float32, at least 0; 0 where the mask is False.
  """
  times = jnp.full(mask.shape, time)
  errors = _errors(field, states, before, mask, times, key)
  return time / (1.0 - time) * errors


def token_rewards(
  scores: Array,
  mask: Array,
  coef: float = 0.01,
  threshold: float = 0.6,
  max_tokens: int = 15,
) -> Array:
  """Returns -coef * u for the few tokens with the largest errors, else 0.

  Args:
    scores: `[..., T]`, errors from `score`.
    mask: `[..., T]` bool, True for the tokens of the answer.
    coef: charge for the token with the largest error of an answer.
    threshold: only tokens with u above it are charged. u is the error, min-max
      normalized over the answer, or 0 if all errors are equal.
    max_tokens: largest number of tokens per answer that are charged; of tokens
      with equal errors the first ones.

  Returns:
    `[..., T]` float32 in [-coef, 0].
  """
  unit = stretched(scores, mask)
  order = jnp.argsort(-unit, -1, stable=True)
  rank = jnp.argsort(order, -1)
  charged = mask & (unit > threshold) & (rank < max_tokens)
  return jnp.where(charged, -coef * unit, 0.0)
