"""Novelty bonus: random network distillation on embeddings of completions.

A fixed random network f reads an observation o, and a predictor g, one layer
deeper, is trained to reproduce its output. The error is large for observations
unlike those that g was trained on:

  r = mean over outputs (f(o) - g(o))^2 / std

o is standardized by the mean and deviation of all observations so far, and
clipped to +-5. std is the standard deviation, over all batches so far, of the
discounted sum of errors along an episode. For text, an observation is an
embedding of width D of the prompt and the completion by a frozen encoder; an
episode is one sample, or the turns of a sample. A new answer need not be good,
so pass the bonus to `stratified_scores`, which scales it separately among the
right and among the wrong answers of a group; this cancels the division by std.

Usage, with `embeddings` [P, S, D] for S samples of P prompts:
  state = novelty_bonus.init(key, size=D)
  # In each training step:
  bonus, state = novelty_bonus.next_bonus(
    state, embeddings[:, :, None], valid[..., None], key)
  scores = stratified_scores(correct, bonus[..., 0], valid=valid)

Random tokens are always new, so the bonus may favor them. As the bands of
`stratified_scores` have a fixed width, the most novel sample of a group scores
the same whether or not it is similar to earlier samples.

Source: Burda et al. 2018, Exploration by Random Network Distillation, and its
released code. Deviation: the paper initializes the moments with the steps of a
random agent, continues the discounted sum over episodes, and learns a value
head for each of two rewards (with weights 1 and 2); in this implementation the
moments include the current batch instead, the sum starts at 0 with every
sample, and there is one score without a value head.
"""

from __future__ import annotations

import itertools
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
from rl import UsageError, credit, masked, scoring, types
from rl.sampling import random_keys
from rl.scoring import Need
from rl.transforms import transform

Array = jax.Array


Params = list[dict[str, Array]]


_CLIP = 5.0  # bound of an observation in standard deviations, as in the paper


class Novelty(NamedTuple):
  """State that is carried from training step to training step.

  Attributes:
    target: parameters of the fixed network f.
    predictor: parameters of the trained network g.
    adam: state of the predictor's optimizer.
    observations: `Moments` of every channel of the observations, `[D]` each.
    returns: `Moments` of the discounted sums of the errors, `[]` each.
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
    target=_init_layers(target_key, (size, width, outputs)),
    predictor=predictor,
    adam=optax.scale_by_adam().init(predictor),
    observations=jax.tree.map(lambda x: jnp.broadcast_to(x, (size,)), moments),
    returns=moments,
  )


def _init_layers(key: Array, sizes: tuple[int, ...]) -> Params:
  """Returns orthogonal kernels of gain sqrt(2), as in the released code."""
  kernel = jax.nn.initializers.orthogonal(2**0.5)
  shapes = list(itertools.pairwise(sizes))
  keys = jax.random.split(key, len(shapes))
  return [
    {"kernel": kernel(k, (a, b)), "bias": jnp.zeros(b)}
    for k, (a, b) in zip(keys, shapes, strict=True)
  ]


def _network(layers: Params, x: Array) -> Array:
  """Returns the outputs of a ReLU network, `[..., D] -> [..., outputs]`."""
  for layer in layers[:-1]:
    x = jax.nn.relu(x @ layer["kernel"] + layer["bias"])
  return x @ layers[-1]["kernel"] + layers[-1]["bias"]


def _standardize(moments: Moments, observations: Array, mask: Array) -> Array:
  """Returns (o - mean) / std, clipped, `[..., D]`; 0 outside of the mask."""
  x = base.zero_outside(observations, mask[..., None])
  # A channel that never varied is not scaled.
  x = jnp.clip(standardized_scores(x, moments), -_CLIP, _CLIP)
  return base.zero_outside(x, mask[..., None])


def discounted(rewards: Array, mask: Array, gamma: float = 0.99) -> Array:
  """Returns y_k = gamma * y_{k-1} + r_k, the discounted sum of earlier rewards.

  Args:
    rewards: `[..., K]` r, rewards of K entries.
    mask: `[..., K]` bool; entries where it is False are skipped.
    gamma: discount per entry.

  Returns:
    `[..., K]`, 0 where the mask is False.
  """
  # A sum over the past is a return-to-go in reversed order.
  sums = credit.returns_to_go(rewards[..., ::-1], mask[..., ::-1], gamma)
  return sums[..., ::-1]


def errors(state: Novelty, x: Array) -> Array:
  """Returns mean (f(x) - g(x))^2 over the outputs, `[..., D] -> [...]`."""
  return _errors(state.predictor, state.target, x)


def _errors(predictor: Params, target: Params, x: Array) -> Array:
  """Returns `errors`, with a gradient in the predictor only."""
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
    observations: `[..., K, D]`, K observations per episode; K is 1 if a sample
      is one observation.
    mask: `[..., K]` bool, True for the observations that exist.
    key: PRNG key that chooses the observations to train on.
    gamma: discount along an episode; it affects only std.
    share: probability that the predictor is trained on an observation.
    rate: learning rate of the predictor.

  Returns:
    The bonus, `[..., K]` float32, at least 0, and 0 where the mask is False;
    and the new state. If no observation is chosen, the predictor does not
    change.
  """
  by_channel = jax.vmap(observe, (0, -1, None))  # over D
  moments = by_channel(state.observations, observations, mask)
  x = _standardize(moments, observations, mask)
  error = base.zero_outside(errors(state, x), mask)  # [..., K]
  returns = observe(state.returns, discounted(error, mask, gamma), mask)
  scale = jnp.where(returns.std > 0, returns.std, 1.0)

  chosen = mask & jax.random.bernoulli(key, share, mask.shape)

  def loss(predictor: Params) -> Array:
    predictor_errors = _errors(predictor, state.target, x)
    return masked.mean(predictor_errors, chosen, tuple(range(mask.ndim)))

  gradient = jax.grad(loss)(state.predictor)
  updates, adam = optax.scale_by_adam().update(gradient, state.adam)
  updated = optax.apply_updates(
    state.predictor, jax.tree.map(lambda u: -rate * u, updates)
  )
  # Without a chosen observation neither parameters nor Adam's state change.
  predictor, adam = jax.tree.map(
    lambda new, old: jnp.where(chosen.any(), new, old),
    (updated, adam),
    (state.predictor, state.adam),
  )
  return error / scale, Novelty(
    target=state.target,
    predictor=predictor,
    adam=adam,
    observations=moments,
    returns=returns,
  )


# [P, S, T, D], hidden states of the policy that sampled.
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
  """Returns `stratified_scores` of `next_bonus`.

  The observation of a sample is the mean hidden state of the policy over its
  tokens, so it also changes with the policy.

  Args:
    size: width of the policy's hidden states.
    seed: seed of both networks.
    share: same as in `next_bonus`.
    rate: same as in `next_bonus`.

  Raises:
    UsageError: `size` is not the width of the policy.
  """
  del seed  # used by init
  states, mask = rollout.extras[HIDDEN], rollout.valid("token")
  if states.shape[-1] != size:
    raise UsageError(
      f"size = {size} must be the width of the policy's hidden states, "
      f"{states.shape[-1]}"
    )
  channel_mask = jnp.broadcast_to(mask[..., None], states.shape)
  means = masked.mean(states.astype(jnp.float32), channel_mask, -2)  # [P, S, D]
  bonus, state = next_bonus(
    state,
    means[:, :, None],
    mask.any(-1)[..., None],
    random_keys.keys(rollout.keys, "novelty_bonus")[0],
    share=share,
    rate=rate,
  )
  valid = rollout.sample_mask
  scores = stratified_scores(rollout.correct, bonus.squeeze(-1), valid=valid)
  return scores, state
