"""Novelty bonus: random network distillation on embeddings of completions.

A fixed random network f reads an observation, and a predictor g, one layer
deeper, is trained to reproduce its output. The error is large for observations
unlike those that g was trained on:

  r = mean (f(o) - g(o))^2 / std,   o whitened and clipped to +-5

The moments of the observations, and of the discounted sum of r along an
episode, cover all batches so far. For text, an observation is an embedding of
the prompt and the completion by a frozen encoder; an episode is one sample, or
the turns of a sample. New does not mean good, so pass the bonus to
`stratified_scores`, which ranks right answers among themselves and wrong
answers among themselves. It stretches each kind to its band, which cancels the
division by std.

Usage, with `embeddings` [P, S, D], in each step:
  state = novelty_bonus.init(key, size=D)  # once
  bonus, state = novelty_bonus.next_bonus(
    state, embeddings[:, :, None], valid[..., None], key)
  scores = stratified_scores(correct, bonus[..., 0], valid=valid)

Noise is always new: an encoder that reflects random tokens pays for them within
each kind of answer. As the bands have a fixed width, the newest of many old
answers earns as much as a truly new one, from the first step to the last.

Source: Burda et al. 2018, Exploration by Random Network Distillation, and its
code. Deviations: moments include the present batch, in place of a random
agent's steps before the first; an episode's sum starts at 0 with every sample,
as samples do not follow each other; one advantage is made of the one score, so
there are no two value heads (weights 1 and 2 there).
"""

from __future__ import annotations

from typing import NamedTuple

import jax
import jax.numpy as jnp
import optax

from rewards import base
from rewards.reward_models.stratified import stratified_scores
from rewards.shaping.running_moments import (
  Moments,
  init_moments,
  observe,
  standardized_scores,
)
from rl import credit, masked, scoring, types
from rl.sampling import random_keys
from rl.scoring import Need
from rl.transforms import transform

Array = jax.Array


Params = list[dict[str, Array]]


_CLIP = 5.0  # standard deviations; the paper's bound of an observation


class Novelty(NamedTuple):
  """State that is carried from step to step.

  Attributes:
    target: parameters of the fixed network f.
    predictor: parameters of the trained network g.
    adam: state of the predictor's optimizer.
    observations: `Moments` of every channel of the observations, `[D]` each.
    returns: `Moments` of the discounted sums of the bonus.
  """

  target: Params
  predictor: Params
  adam: optax.OptState
  observations: Moments
  returns: Moments


def init(key: Array, size: int, width: int = 64, outputs: int = 32) -> Novelty:
  """Returns the state before the first observation.

  Args:
    key: PRNG key of both networks.
    size: width D of an observation.
    width: width of the hidden layers; f has one and g has two.
    outputs: number of outputs of f.
  """
  target_key, predictor_key = jax.random.split(key)
  predictor = _init_layers(predictor_key, (size, width, width, outputs))
  moments = init_moments()
  return Novelty(
    _init_layers(target_key, (size, width, outputs)),
    predictor,
    optax.scale_by_adam().init(predictor),
    jax.tree.map(lambda x: jnp.broadcast_to(x, (size,)), moments),
    moments,
  )


def _init_layers(key: Array, sizes: tuple[int, ...]) -> Params:
  """Orthogonal kernels of gain sqrt(2) as in the released code; zero biases."""
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


def _whitened(stream: Moments, observations: Array, mask: Array) -> Array:
  """(o - mean) / std clipped to +-5, `[..., D]`; 0 where masked.

  A channel that never varied is not scaled.
  """
  x = base.zero_outside(observations, mask[..., None])
  x = jnp.clip(standardized_scores(x, stream), -_CLIP, _CLIP)
  return base.zero_outside(x, mask[..., None])


def discounted(rewards: Array, mask: Array, gamma: float = 0.99) -> Array:
  """y_k = gamma y_{k-1} + r_k, the discounted sum of all rewards so far.

  It costs a scan over K.

  Args:
    rewards: `[..., K]`.
    mask: `[..., K]` bool; masked entries are skipped.
    gamma: discount per entry.

  Returns:
    `[..., K]`, 0 where masked.
  """
  # A sum over the past is a return-to-go in reversed order.
  sums = credit.returns_to_go(rewards[..., ::-1], mask[..., ::-1], gamma)
  return sums[..., ::-1]


def errors(state: Novelty, x: Array) -> Array:
  """mean (f(x) - g(x))^2 of whitened observations, `[..., D] -> [...]`."""
  return _errors(state.predictor, state.target, x)


def _errors(predictor: Params, target: Params, x: Array) -> Array:
  output = jax.lax.stop_gradient(_network(target, x))
  return jnp.mean((output - _network(predictor, x)) ** 2, -1)


def next_bonus(
  state: Novelty,
  observations: Array,
  mask: Array,
  key: Array,
  gamma: float = 0.99,
  share: float = 0.25,
  rate: float = 1e-4,
) -> tuple[Array, Novelty]:
  """Returns the bonus of a batch, and the state after training on it.

  The bonus uses the predictor before this batch. The predictor then takes one
  step of Adam on a random part of the batch.

  Args:
    state: the state before this batch.
    observations: `[..., K, D]`, K observations per episode; 1 for a whole
      sample.
    mask: `[..., K]` bool, mask of observations.
    key: PRNG key that chooses the part to train on.
    gamma: discount along an episode; it affects the scale only.
    share: share of the observations that the predictor is trained on.
    rate: learning rate.

  Returns:
    `[..., K]` float32, at least 0, not centered, 0 where masked; and the new
    state. Without any observation the predictor does not change.
  """
  by_channel = jax.vmap(observe, (0, -1, None))  # over D  # over D
  stream = by_channel(state.observations, observations, mask)
  x = _whitened(stream, observations, mask)
  error = base.zero_outside(errors(state, x), mask)  # [..., K]
  returns = observe(state.returns, discounted(error, mask, gamma), mask)
  scale = jnp.where(returns.std > 0, returns.std, 1.0)

  used = mask & jax.random.bernoulli(key, share, mask.shape)

  def loss(predictor: Params) -> Array:
    predictor_errors = _errors(predictor, state.target, x)
    return masked.mean(predictor_errors, used, tuple(range(mask.ndim)))

  gradient = jax.grad(loss)(state.predictor)
  step, adam = optax.scale_by_adam().update(gradient, state.adam)
  updated = optax.apply_updates(
    state.predictor, jax.tree.map(lambda s: -rate * s, step)
  )
  # Without an observation neither parameters nor optimizer state change.
  predictor, adam = jax.tree.map(
    lambda new, old: jnp.where(used.any(), new, old),
    (updated, adam),
    (state.predictor, state.adam),
  )
  return jnp.where(mask, error / scale, 0.0), Novelty(
    state.target, predictor, adam, stream, returns
  )


HIDDEN = Need(
  "old", scoring.Probe("hidden", lambda hidden, tokens: hidden, head="hidden")
)


@transform(
  takes="none",
  gives="sample",
  init=lambda size, seed, **_: init(jax.random.key(seed), size),
  needs=(HIDDEN,),
)
def novelty_bonus(
  _,
  rollout: types.Rollout,
  state: Novelty,
  *,
  size: int,
  seed: int = 0,
  share: float = 0.25,
  rate: float = 1e-4,
) -> tuple[Array, Novelty]:
  """Returns `next_bonus`, ranked among the right and among the wrong answers.

  The observation is the mean of the policy's hidden states over a completion;
  it changes with the policy. The bands are those of `stratified_scores`.

  Args:
    size: width of the policy.
    seed: seed of both networks.
    share: same as in `next_bonus`.
    rate: same as in `next_bonus`.

  Raises:
    ValueError: `size` is not the width of the policy.
  """
  del seed  # used by init
  states, mask = rollout.extras[HIDDEN], rollout.valid("token")
  if states.shape[-1] != size:
    raise ValueError(
      f"size = {size} must be the policy's width, {states.shape[-1]}"
    )
  wide = jnp.broadcast_to(mask[..., None], states.shape)
  means = masked.mean(states.astype(jnp.float32), wide, -2)  # [P, S, D]
  bonus, state = next_bonus(
    state,
    means[:, :, None],
    mask.any(-1)[..., None],
    random_keys.keys(rollout.keys, "novelty_bonus")[0],
    share=share,
    rate=rate,
  )
  valid = rollout.sample_mask
  scores = stratified_scores(rollout.correct, bonus[..., 0], valid=valid)
  return scores, state
