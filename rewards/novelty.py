"""What a network cannot yet predict is new: random network distillation.

A fixed random network f reads an observation, and a predictor g, one layer
deeper, is trained to say what f does. The error is large where g has not been:

  r = mean (f(o) - g(o))^2 / std,   o whitened and clipped to +-5

Moments of the observations, and of the discounted sum of r along an episode,
are of the whole stream so far. For text an observation is an embedding of the
prompt and the completion by a frozen encoder, and an episode is one sample, or
its turns. Novelty is no merit: give it to `hybrid.stratified`, which orders
right answers among themselves, and wrong ones, and never one against another.
It stretches each kind to its band, and so cancels the division by std.

Usage, `embeddings` [P, S, D], in each step:
  state = novelty.init(key, size=D)  # once
  bonus, state = novelty.next_bonus(
    state, embeddings[:, :, None], valid[..., None], key)
  scores = hybrid.stratified(correct, bonus[..., 0], valid=valid)

Its weakness: noise is always new. An encoder that hears random tokens pays for
them within each kind of answer; and as those bands have one width, the newest
of old answers is paid as much as that of new ones, at the end as at the start.

Source: Burda et al. 2018, Exploration by Random Network Distillation, and its
code. Deviations: moments take the present batch in, in place of a random
agent's steps before the first; an episode's sum starts at 0 with every sample,
as samples do not follow each other; one advantage is made of the one score, so
there are no two value heads (weights 1 and 2 there).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from rewards import shaping
from rewards.inputs import present
from rl import credit, masked

Array = jax.Array
Params = list[dict[str, Array]]
_CLIP = 5.0


class Novelty(NamedTuple):
  """What is carried from step to step.

  Attributes:
    target, predictor: parameters of f and g.
    adam: state of the predictor's optimiser.
    observations: `rewards.shaping.Moments` of every channel, `[D]` each.
    returns: `rewards.shaping.Moments` of the discounted bonuses.
  """

  target: Params
  predictor: Params
  adam: optax.OptState
  observations: shaping.Moments
  returns: shaping.Moments


def init(key: Array, size: int, width: int = 64, outputs: int = 32) -> Novelty:
  """Two random networks that have seen nothing.

  Args:
    key: PRNG key.
    size: D of the observations.
    width: of the hidden layers, one in f and two in g.
    outputs: numbers that f gives.
  """
  target_key, predictor_key = jax.random.split(key)
  predictor = _init_layers(predictor_key, (size, width, width, outputs))
  moments = shaping.init_moments()
  return Novelty(
    _init_layers(target_key, (size, width, outputs)),
    predictor,
    optax.scale_by_adam().init(predictor),
    jax.tree.map(lambda x: jnp.broadcast_to(x, (size,)), moments),
    moments,
  )


def _init_layers(key: Array, sizes: tuple[int, ...]) -> Params:
  """Orthogonal kernels of gain sqrt 2, as the code has them; biases 0."""
  kernel = jax.nn.initializers.orthogonal(2**0.5)
  keys = jax.random.split(key, len(sizes) - 1)
  return [
    {"kernel": kernel(k, (a, b)), "bias": jnp.zeros(b)}
    for k, a, b in zip(keys, sizes, sizes[1:], strict=False)
  ]


def _network(layers: Params, x: Array) -> Array:
  for layer in layers[:-1]:
    x = jax.nn.relu(x @ layer["kernel"] + layer["bias"])
  return x @ layers[-1]["kernel"] + layers[-1]["bias"]


def _whitened(
  stream: shaping.Moments, observations: Array, mask: Array
) -> Array:
  """(o - mean) / std within +-5, `[..., D]`, 0 where masked.

  A channel that never varied is not scaled.
  """
  x = present(observations, mask[..., None])
  x = jnp.clip(shaping.standardized(x, stream), -_CLIP, _CLIP)
  return present(x, mask[..., None])


def discounted(rewards: Array, mask: Array, gamma: float = 0.99) -> Array:
  """y_k = gamma y_{k-1} + r_k: the sum so far, which scales what is to come.

  Costs a scan over K.

  Args:
    rewards: `[..., K]`.
    mask: `[..., K]` bool; masked entries are skipped.
    gamma: discount per entry.

  Returns:
    `[..., K]`, 0 where masked.
  """
  turned = credit.returns_to_go(rewards[..., ::-1], mask[..., ::-1], gamma)
  return turned[..., ::-1]


def errors(state: Novelty, x: Array) -> Array:
  """mean (f(x) - g(x))^2 of whitened observations, `[..., D]` -> `[...]`."""
  return _errors(state.predictor, state.target, x)


def _errors(predictor: Params, target: Params, x: Array) -> Array:
  wanted = jax.lax.stop_gradient(_network(target, x))
  return jnp.mean((wanted - _network(predictor, x)) ** 2, -1)


def next_bonus(
  state: Novelty,
  observations: Array,
  mask: Array,
  key: Array,
  gamma: float = 0.99,
  share: float = 0.25,
  rate: float = 1e-4,
) -> tuple[Array, Novelty]:
  """The bonus of a batch, and the state that has learned from it.

  Bonuses are by the predictor as it was; it then takes one step of Adam on a
  random part of the batch.

  Args:
    state: of `init`.
    observations: `[..., K, D]`, K of each episode; 1 for a whole sample.
    mask: `[..., K]` bool, observations that exist.
    key: PRNG key, chooses the part.
    gamma: discount along an episode, of the scale only.
    share: of the observations that the predictor learns from.
    rate: of learning.

  Returns:
    `[..., K]` float32, at least 0, 0 where masked; it is not centred. And the
    new state; without an observation, what it was.
  """
  by_channel = jax.vmap(shaping.observe, (0, -1, None))
  stream = by_channel(state.observations, observations, mask)
  x = _whitened(stream, observations, mask)
  found = present(errors(state, x), mask)
  returns = shaping.observe(state.returns, discounted(found, mask, gamma), mask)
  scale = jnp.where(returns.std > 0, returns.std, 1.0)

  used = mask & jax.random.bernoulli(key, share, mask.shape)

  def loss(predictor: Params) -> Array:
    own = _errors(predictor, state.target, x)
    return masked.mean(own, used, tuple(range(mask.ndim)))

  gradient = jax.grad(loss)(state.predictor)
  step, adam = optax.scale_by_adam().update(gradient, state.adam)
  moved = optax.apply_updates(
    state.predictor, jax.tree.map(lambda s: -rate * s, step)
  )
  learned, kept = (moved, adam), (state.predictor, state.adam)
  predictor, adam = jax.tree.map(
    lambda new, old: jnp.where(used.any(), new, old), learned, kept
  )
  return jnp.where(mask, found / scale, 0.0), Novelty(
    state.target, predictor, adam, stream, returns
  )
