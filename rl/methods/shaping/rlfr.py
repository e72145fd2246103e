"""RLFR: tokens whose hidden states a flow model finds unlikely are charged.

Axes: P prompts, S samples per prompt (a group), T completion tokens, D width of
the policy, which is also the width of the flow model.
"""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import optax

from rl import UsageError, gradients, masked, scoring, types
from rl.losses.aggregates import seq_mean_token_mean
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.sampling import random_keys
from rl.transforms import (
  chain,
  group_normalize,
  place_last,
  returns_to_go,
  scores,
  transform,
)

Array = jax.Array
Params = dict[str, Any]

DEPTHS = (0.25, 0.5, 0.75)  # shares of the layers whose states are read
_FREQUENCIES = 128  # frequencies of the sinusoids of a time or a depth
_MAX_PERIOD = 10_000.0
_EPS = 1e-6  # of the RMS norms


def hidden_at(depth: float) -> scoring.Need:
  """Returns the need for the residual stream after a layer, `[P, S, T, D]`.

  Entry t is the state after the token before token t. It is that of the policy
  at the start of the training step.

  Args:
    depth: share of the layers, below 1.
  """
  probe = scoring.Probe(
    f"hidden({depth:g})",
    lambda hidden, tokens: hidden,
    head="hidden",
    depth=depth,
  )
  return scoring.Need("old", probe)


# The velocity field, a residual network.


def init_field(key: Array, size: int, blocks: int) -> Params:
  """Returns the parameters of a velocity field.

  Kernels are Xavier-uniform. The last layer and the modulations are 0, so that
  the first velocities are 0.

  Args:
    key: PRNG key.
    size: width D of the states and of the network.
    blocks: number of residual blocks, whose parameters are stacked on axis 0.
  """
  xavier = jax.nn.initializers.glorot_uniform()
  zeros = jax.nn.initializers.zeros

  def dense(number, inputs, outputs, kernel=xavier, stacked=()):
    keys = jax.random.split(jax.random.fold_in(key, number), stacked or (1,))
    kernels = jax.vmap(lambda k: kernel(k, (inputs, outputs)))(keys)
    return {
      "kernel": kernels if stacked else kernels[0],
      "bias": jnp.zeros((*stacked, outputs)),
    }

  def embedding(number):
    first = dense(number, 2 * _FREQUENCIES, size)
    return {"first": first, "second": dense(number + 1, size, size)}

  n = (blocks,)
  return {
    "input": dense(0, size, size),
    "condition": dense(1, size, size),
    "time": embedding(2),
    "depth": embedding(4),
    "blocks": {
      "scale": jnp.ones((blocks, size)),
      "modulation": dense(6, size, 3 * size, zeros, n),
      "first": dense(7, size, size, stacked=n),
      "second": dense(8, size, size, stacked=n),
    },
    "last": {
      "scale": jnp.ones(size),
      "modulation": dense(9, size, 2 * size, zeros),
      "output": dense(10, size, size, zeros),
    },
  }


def _dense(layer: Params, x: Array) -> Array:
  return x @ layer["kernel"] + layer["bias"]


def _embed(layers: Params, x: Array) -> Array:
  """Embeds numbers `[...]` by sinusoids and two layers, `[..., D]`."""
  exponents = jnp.arange(_FREQUENCIES) / _FREQUENCIES
  angles = jnp.asarray(x)[..., None] * _MAX_PERIOD**-exponents
  sinusoids = jnp.concatenate([jnp.cos(angles), jnp.sin(angles)], -1)
  return _dense(
    layers["second"], jax.nn.silu(_dense(layers["first"], sinusoids))
  )


def _norm(x: Array, scale: Array) -> Array:
  return x * jax.lax.rsqrt(jnp.mean(x**2, -1, keepdims=True) + _EPS) * scale


def velocity(
  field: Params, x: Array, time: Array, condition: Array, depth: Array
) -> Array:
  """Returns the velocity v(x, t, c), `[..., D]`.

  The sum y of the embeddings of time, condition and depth modulates each block:

    x + gate(y) MLP(norm(x) (1 + scale(y)) + shift(y))

  Args:
    field: parameters, from `init_field`.
    x: `[..., D]` noisy states.
    time: `[...]` t in [0, 1].
    condition: `[..., D]` c, the states after the tokens before.
    depth: share of the layers after which the states are read.
  """
  y = _embed(field["time"], time) + _embed(field["depth"], depth)
  y = jax.nn.silu(y + _dense(field["condition"], condition))

  def block(x, p):
    shift, scale, gate = jnp.split(_dense(p["modulation"], y), 3, -1)
    inner = _norm(x, p["scale"]) * (1 + scale) + shift
    inner = _dense(p["second"], jax.nn.silu(_dense(p["first"], inner)))
    return x + gate * inner, None

  # One block after another, whose parameters are on axis 0.
  x, _ = jax.lax.scan(block, _dense(field["input"], x), field["blocks"])
  last = field["last"]
  shift, scale = jnp.split(_dense(last["modulation"], y), 2, -1)
  return _dense(last["output"], _norm(x, last["scale"]) * (1 + scale) + shift)


# Rewards of tokens.


def with_conditions(states: Array, mask: Array) -> tuple[Array, Array, Array]:
  """Pairs the state after each token with the state after the token before.

  A forward pass computes no state after the last token of the longest
  completions, and a packed one none after a token whose successor is not
  scored. Therefore only tokens whose successor is scored have a score.

  Args:
    states: `[..., T, D]`. Entry t is the state after the token before token t.
    mask: `[..., T]` bool, scored tokens.

  Returns:
    The states after each token and after the token before it, both
    `[..., T, D]` and 0 at tokens without a score; and the mask of the tokens
    with a score, `[..., T]`.
  """
  has_successor = jnp.roll(mask, -1, -1).at[..., -1].set(False)
  has_score = mask & has_successor

  def zero_outside(x):
    return jnp.where(has_score[..., None], x.astype(jnp.float32), 0.0)

  after = jnp.roll(states, -1, -2)
  return zero_outside(after), zero_outside(states), has_score


def deviations(
  field: Params,
  states: Array,
  conditions: Array,
  depth: float,
  time: Array,
  noise: Array,
) -> Array:
  """Returns the mean over channels of (v(x_t, t, c) - (h - noise))^2.

    x_t = t h + (1 - t) noise

  Args:
    field: parameters of the velocity field.
    states: `[..., D]` h, the states after the tokens.
    conditions: `[..., D]` c, the states after the tokens before.
    depth: share of the layers after which the states are read.
    time: `[...]` t.
    noise: `[..., D]` standard normal.

  Returns:
    `[...]`.
  """
  t = time[..., None]
  x = t * states + (1 - t) * noise
  v = velocity(field, x, time, conditions, depth)
  return jnp.mean((v - (states - noise)) ** 2, -1)


def mean_deviations(
  field: Params, states: Array, conditions: Array, times: Array, noise: Array
) -> Array:
  """Returns the mean of `deviations` over depths, `[P, S, T]`.

  Args:
    field: parameters of the velocity field.
    states, conditions, noise: `[P, 3, S, T, D]`, of each of `DEPTHS`.
    times: `[P, S, T]`.
  """
  of_depths = jax.vmap(deviations, (None, 1, 1, 0, None, 1))(
    field, states, conditions, jnp.array(DEPTHS), times, noise
  )
  return of_depths.mean(0)


def token_rewards(
  score: Array,
  mask: Array,
  coef: float = 0.01,
  threshold: float = 0.6,
  max_tokens: int = 15,
) -> Array:
  """Returns -coef u at the few tokens of a sample with the largest u, else 0.

  Args:
    score: `[..., T]`, scores of the tokens.
    mask: `[..., T]` bool, tokens with a score.
    coef: charge of the token with the largest score of a sample.
    threshold: only tokens with u above it are charged. u is the score, min-max
      normalized over the sample, or 0 if all scores are equal.
    max_tokens: largest number of tokens of a sample that are charged; of tokens
      with equal scores the first ones.

  Returns:
    `[..., T]` float32 in [-coef, 0].
  """
  low = masked.min(score, mask, keepdims=True)
  high = masked.max(score, mask, keepdims=True)
  width = jnp.where(high > low, high - low, 1.0)
  u = jnp.where(mask, (score - low) / width, 0.0)
  rank = jnp.argsort(jnp.argsort(-u, -1, stable=True), -1)
  is_charged = (u > threshold) & (rank < max_tokens)
  return jnp.where(is_charged, -coef * u, 0.0)


# The transform, whose state is the flow.


class Flow(NamedTuple):
  """State that is carried from training step to training step.

  Attributes:
    field: parameters of the velocity field.
    optimizer: state of its optimizer.
    metrics: `{name: []}`, what is logged of the last rollout.
  """

  field: Params
  optimizer: optax.OptState
  metrics: dict[str, Array]


def _optimizer(rate: float) -> optax.GradientTransformation:
  """Adam with the decays and the clipping of the released code."""
  return optax.chain(
    optax.clip_by_global_norm(1.0), optax.adam(rate, b1=0.9, b2=0.95)
  )


def _init_flow(*, size: int, blocks: int, rate: float, seed: int, **_) -> Flow:
  field = init_field(jax.random.key(seed), size, blocks)
  names = ("score_right", "score_wrong", "charged_frac")
  metrics = {f"flow/{name}": jnp.zeros(()) for name in names}
  return Flow(field, _optimizer(rate).init(field), metrics)


def _normal(keys: Array, number: Any, shape: tuple[int, ...]) -> Array:
  """Draws normal numbers `[P, *shape]` from one key per prompt."""
  return jax.vmap(
    lambda key: jax.random.normal(jax.random.fold_in(key, number), shape)
  )(keys)


def _slice_samples(x: Array, axis: int, number: int) -> Array:
  """Cuts the axis of samples into slices, which a new first axis numbers."""
  # If the slices are not equally long, zeros follow.
  padding = [(0, 0)] * x.ndim
  padding[axis] = (0, -x.shape[axis] % number)
  x = jnp.pad(x, padding)
  shape = (*x.shape[:axis], -1, number, *x.shape[axis + 1 :])
  # Slice i has the samples i, i + number, ...
  return jnp.moveaxis(x.reshape(shape), axis + 1, 0)


@transform(
  takes="none",
  gives="token",
  init=_init_flow,
  needs={hidden_at(depth) for depth in DEPTHS},
)
def flow_rewards(
  _,
  rollout: types.Rollout,
  state: Flow,
  *,
  coef: float,
  threshold: float,
  max_tokens: int,
  time: float,
  size: int,
  blocks: int,
  rate: float,
  updates: int,
  frozen_steps: int,
  seed: int,
) -> tuple[Array, Flow]:
  """Returns `token_rewards` of the flow before this rollout, `[P, S, T]`.

  The flow then makes its updates on the samples with a right verdict. Update n
  reads the samples of each group whose number is n modulo `updates`, or modulo
  S if that is smaller. Its loss is the mean of `deviations` over depths and
  over the tokens of a sample, then over samples. In the first `frozen_steps`
  training steps each token has its own time, sigmoid of a standard normal
  number, and later the time of the scores. An update without a right sample
  changes nothing.

  Raises:
    UsageError: `size` is not the width of the policy.
  """
  del blocks, seed  # used by init
  mask = rollout.valid("token")
  states = [rollout.extras[hidden_at(depth)] for depth in DEPTHS]
  if states[0].shape[-1] != size:
    width = states[0].shape[-1]
    raise UsageError(
      f"rlfr: size = {size} must be the width of the policy, {width}; use "
      f"rlfr(size={width})"
    )
  # [P, 3, S, T, D], [P, 3, S, T, D] and [P, 1, S, T].
  after, before, has_score = with_conditions(
    jnp.stack(states, 1), mask[:, None]
  )
  has_score = has_score[:, 0]

  # The rewards, of the flow before its updates.
  keys = random_keys.keys(rollout.keys, "rlfr scores")
  noise = _normal(keys, 0, after.shape[1:])
  times = jnp.full(mask.shape, time)
  deviation = mean_deviations(state.field, after, before, times, noise)
  score = time / (1 - time) * deviation  # [P, S, T]
  rewards = token_rewards(score, has_score, coef, threshold, max_tokens)

  # The updates of the flow.
  is_right = has_score & (rollout.correct == 1)[..., None]  # [P, S, T]
  num_slices = max(min(updates, mask.shape[1]), 1)
  slices = (
    _slice_samples(after, 2, num_slices),
    _slice_samples(before, 2, num_slices),
    _slice_samples(is_right, 1, num_slices),
  )
  noise_keys = random_keys.keys(rollout.keys, "rlfr noise")
  time_keys = random_keys.keys(rollout.keys, "rlfr times")
  optimizer = _optimizer(rate)

  def update(trained, number):
    after, before, is_right = (x[number % num_slices] for x in slices)
    noise = _normal(noise_keys, number, after.shape[1:])
    random_times = jax.nn.sigmoid(
      _normal(time_keys, number, is_right.shape[1:])
    )
    times = jnp.where(rollout.step < frozen_steps, random_times, time)

    def loss(field):
      deviation = mean_deviations(field, after, before, times, noise)
      by_sample = masked.mean(deviation, is_right)
      return masked.mean(by_sample, is_right.any(-1), (0, 1))

    # Not finite, and refused, if a packed pass had too little room.
    grads = jax.grad(loss)(trained[0])
    trained, _, _ = gradients.apply(optimizer, trained, grads, is_right.any())
    return trained, None

  (field, optimizer_state), _ = jax.lax.scan(
    update, (state.field, state.optimizer), jnp.arange(updates)
  )

  axes = (0, 1, 2)
  is_wrong = has_score & (rollout.correct == 0)[..., None]
  metrics = {
    "flow/score_right": masked.mean(score, is_right, axes),
    "flow/score_wrong": masked.mean(score, is_wrong, axes),
    "flow/charged_frac": masked.mean(rewards < 0, mask, axes),
  }
  return rewards, Flow(field, optimizer_state, metrics)


@transform(takes="none", gives="sample")
def after_steps(_, rollout: types.Rollout, *, steps: int) -> Array:
  """Leaves all samples out of the loss in the first training steps."""
  return jnp.broadcast_to(rollout.step >= steps, rollout.sample_mask.shape)


def rlfr(
  coef: float = 0.01,
  threshold: float = 0.6,
  max_tokens: int = 15,
  time: float = 0.8,
  size: int = 64,
  blocks: int = 6,
  rate: float = 1e-4,
  updates: int = 8,
  frozen_steps: int = 20,
  clip: float = 0.2,
  cap: float = 3.0,
  ddof: int = 1,
  eps: float = 1e-9,
  seed: int = 0,
) -> Method:
  """The return-to-go of the outcome and of charges for unlikely hidden states.

    x_t   t h + (1 - t) noise, with h the state after a token
    s     t / (1 - t) * mean over channels of (v(x_t, t, c) - (h - noise))^2,
          averaged over the layers at 1/4, 1/2 and 3/4 of the depth; c is the
          state after the token before
    r     -coef u if u > threshold and u is among the `max_tokens` largest of
          the sample, else 0; u is s, min-max normalised over the sample
    A     sum of r from the token on, plus the z-score of the sample's score in
          its group

  v is a velocity field that flow matching trains on the states of right
  samples, with Adam; the charges of a rollout are those of the field before it.
  h, c and noise are [D], and s, u, r and A [P, S, T]. The loss is PPO-clip with
  a dual clip, averaged over the tokens of each sample, then over samples,
  without a KL. Logs the mean score of tokens in right and in wrong samples as
  `flow/score_right` and `flow/score_wrong`, and the share of charged tokens as
  `flow/charged_frac`.
  Deviation: the paper first trains the field on solutions of another dataset.
  In this implementation it learns from the right samples of the policy alone,
  and in the first `frozen_steps` training steps, with the random times of that
  first training, the policy does not change. The released code makes an update
  of the field together with each update of the policy, and reads the states of
  that time; here all states are those at the start of the step. The rate is
  constant, without warm-up and decay. The last token of a sample has no score,
  nor has one before a token of a tool (`with_conditions`). The network reads
  the share of the depth, not that of the rounded layer. In the released code,
  the minimum over a sample without padding is its second smallest score, and
  equal scores divide 0 by 0, where u is 0 here.
  Source: Zhang et al. 2025, RLFR: Extending Reinforcement Learning for LLMs
  with Flow Environment, and its released code.
  Quantity: flow_rewards.

  Args:
    coef: charge of the token with the largest score of a sample.
    threshold: only tokens with u above it are charged.
    max_tokens: largest number of charged tokens of a sample.
    time: t of the scores, and of the updates after the first `frozen_steps`.
    size: width of the policy and of the network; the default is that of the
      configs. The paper has the width of its policies.
    blocks: residual blocks of the network.
    rate: learning rate of the network.
    updates: updates of the network per training step. By default each of the 8
      samples of a group in the released script is read once.
    frozen_steps: first training steps, in which only the network is trained.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.
    cap: largest importance ratio of tokens with A < 0.
    ddof: the standard deviation of n samples divides by n - ddof.
    eps: constant added to the standard deviation.
    seed: seed of the network's first parameters.

  Raises:
    UsageError: if `time` is not between 0 and 1. The training step raises it if
      `size` is not the width of the policy.
  """
  if not 0 < time < 1:
    raise UsageError(f"rlfr: time = {time} must be between 0 and 1")
  rewards = flow_rewards(
    coef=coef,
    threshold=threshold,
    max_tokens=max_tokens,
    time=time,
    size=size,
    blocks=blocks,
    rate=rate,
    updates=updates,
    frozen_steps=frozen_steps,
    seed=seed,
  )
  outcome = chain(scores(), group_normalize(ddof, eps), place_last())
  return Method(
    advantage=chain(outcome + rewards, returns_to_go()),
    loss_filter=after_steps(frozen_steps) if frozen_steps else None,
    loss=policy_gradient(
      ppo_clip(clip, clip, cap), aggregate=seq_mean_token_mean()
    ),
    metrics=lambda states: optax.tree.get(states["advantage"], "metrics"),
  )
