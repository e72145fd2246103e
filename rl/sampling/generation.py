"""Sampling completions: each prompt runs once, its samples decode together.

A prompt has a number of rows. Where it wants more samples than that, a row
whose sample has ended goes on with the next one (continuous batching), so that
one long sample does not keep the others waiting.

The uniform number behind one token is a function of (seed, step, prompt,
sample, position) and of nothing else, so a sample is the same under any
sharding, batch composition, number of samples or rows, or restart. (A prompt
that a batch holds twice is two: `prompt_keys` counts them.)
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array
# Completion tokens from which on a cache that grows pays for its compilation.
_WORTH_GROWING = 64
_BLOCK = 128  # tokens of the vocabulary that are summed first


@dataclasses.dataclass(frozen=True)
class Sampling:
  """How completions are drawn.

  The truncations apply in this order, each to what the former left: top-k,
  top-p, min-p. Tokens tied with the last one kept are kept too, so the result
  does not depend on the order of the vocabulary.

  Attributes:
    samples: S, completions per prompt.
    max_tokens: T, where a completion is cut.
    eos_ids: tokens that end a completion.
    pad_id: what is written after the end.
    temperature: divides the logits; 0 takes the most likely token.
    top_k: keeps the k most likely tokens; 0 keeps all.
    top_p: keeps the most likely tokens until their mass reaches top_p
      (Holtzman et al. 2020); 1 keeps all.
    min_p: keeps tokens at least min_p times as likely as the most likely one
      (Nguyen et al. 2024); 0 keeps all.
    rows: samples of a prompt that are decoded at once; 0: all. The samples are
      the same. Fewer are faster where lengths differ much.
  """

  samples: int
  max_tokens: int
  eos_ids: tuple[int, ...]
  pad_id: int
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0
  rows: int = 0

  def __post_init__(self) -> None:
    object.__setattr__(self, "eos_ids", tuple(self.eos_ids))
    for name in ("samples", "max_tokens"):
      _check(name, getattr(self, name), 1, math.inf, whole=True)
    for name in ("top_k", "rows"):
      _check(name, getattr(self, name), 0, math.inf, whole=True)
    _check("pad_id", self.pad_id, 0, math.inf, whole=True)
    for eos_id in self.eos_ids:
      _check("eos_ids", eos_id, 0, math.inf, whole=True)
    _check("temperature", self.temperature, 0.0, math.inf)
    _check("min_p", self.min_p, 0.0, 1.0)
    _check("top_p", self.top_p, 0.0, 1.0)
    if self.top_p == 0:
      raise ValueError(
        f"top_p = {self.top_p} keeps no token; it must be above 0 and at most 1; "
        "for the most likely token alone set temperature=0"
      )


@flax.struct.dataclass
class Samples:
  """What `generate` drew.

  Attributes:
    completions: `[P, S, T]` int32, `pad_id` after the end.
    lengths: `[P, S]` int32, tokens drawn, EOS included.
    log_probs: `[P, S, T]` float32 under the distribution that was sampled,
      after temperature and truncations; 0 on padding.
    finished: `[P, S]` bool, ended by EOS and not by the length limit.
  """

  completions: Array
  lengths: Array
  log_probs: Array
  finished: Array


def prompt_keys(key: Array, step: Array | int, prompt_ids: Array) -> Array:
  """One key per prompt, the same in whatever batch the prompt appears.

  A prompt that a batch holds several times has a key for each of its places.

  Args:
    key: PRNG key of the seed.
    step: training step.
    prompt_ids: `[P]` integers.

  Returns:
    `[P]` keys.
  """
  fold = jax.random.fold_in
  keys = jax.vmap(fold, (None, 0))(fold(key, step), prompt_ids)
  same = prompt_ids[:, None] == prompt_ids[None, :]
  return jax.vmap(fold)(keys, jnp.tril(same, -1).sum(-1))


def generate(
  policy: types.Policy,
  params: types.PyTree,
  prompts: Array,
  prompt_mask: Array,
  keys: Array,
  sampling: Sampling,
  first: int = 0,
  active: Array | None = None,
) -> Samples:
  """Draws S completions of every prompt, and stops when all have ended.

  Args:
    policy: the model.
    params: its parameters.
    prompts: `[P, L]` ids, left-padded.
    prompt_mask: `[P, L]` bool.
    keys: `[P]`, of `prompt_keys`.
    sampling: how to draw; static under jit.
    first: number of the first sample: drawing n and then m more with first = n
      gives those of drawing n + m.
    active: `[P, S]` bool, samples wanted; the others stay empty. None: all.

  Returns:
    The samples.
  """
  P, S, T = len(prompts), sampling.samples, sampling.max_tokens
  rows = min(sampling.rows or S, S)
  logits, cache = policy.prefill(params, prompts, prompt_mask, rows, T)
  served = policy.serve(params)
  logits = jnp.broadcast_to(logits[:, None], (P, S, logits.shape[-1]))
  numbers = jnp.broadcast_to(jnp.arange(S, dtype=jnp.int32), (P, S))
  tokens, log_probs = _draw(logits, keys, first + numbers, 0, sampling)
  wanted = jnp.ones((P, S), bool) if active is None else active
  first_of = (jnp.arange(T) == 0) & wanted[..., None]
  drawn = Samples(
    completions=jnp.where(first_of, tokens[..., None], sampling.pad_id),
    lengths=wanted.astype(jnp.int32),
    log_probs=jnp.where(first_of, log_probs[..., None], 0.0),
    finished=_ends(tokens, sampling) | ~wanted,
  )
  if T == 1:
    return drawn
  queue = _Queue(
    order=jnp.argsort(drawn.finished, axis=-1).astype(jnp.int32),
    count=(~drawn.finished).sum(-1),
    first_tokens=tokens,
  )

  def advance(state: _State) -> _State:
    logits, cache = policy.decode(served, state.last, state.t - 1, state.cache)
    live = state.sample < S
    numbers = first + state.sample
    tokens, log_probs = _draw(logits, keys, numbers, state.t, sampling)
    ends = _ends(tokens, sampling)
    at = state.sample, state.t
    drawn = Samples(
      completions=_put(state.drawn.completions, at, tokens),
      lengths=_put(state.drawn.lengths, at[:1], state.t + 1),
      log_probs=_put(state.drawn.log_probs, at, log_probs),
      finished=_put(state.drawn.finished, at[:1], ends),
    )
    free = ~live | ends | (state.t + 1 == T)
    place = state.next[:, None] + jnp.cumsum(free, -1) - 1
    sample, first_token = queue.take(place)
    return _State(
      steps=state.steps + 1,
      drawn=drawn,
      cache=cache,
      sample=jnp.where(free, sample, state.sample),
      t=jnp.where(free, 1, state.t + 1),
      last=jnp.where(free, first_token, tokens),
      next=state.next + free.sum(-1, dtype=jnp.int32),
    )

  sample, last = queue.take(numbers[:, :rows])
  t, taken = jnp.ones_like(sample), jnp.full(P, rows, jnp.int32)
  state = _State(jnp.int32(0), drawn, cache, sample, t, last, taken)
  for room in rooms(T):
    state = state.replace(cache=policy.resize(state.cache, room))

    def busy(state: _State, room: int = room) -> Array:
      fits = (state.steps < room) | (room == T)
      return fits & (state.sample < S).any()

    state = jax.lax.while_loop(busy, advance, state)
  return state.drawn


@flax.struct.dataclass
class _State:
  """Of the decoding loop.

  Attributes:
    steps: `[]`, calls of decode.
    drawn: so far.
    cache: of the policy.
    sample: `[P, rows]`, which sample a row draws; S: none is left.
    t: `[P, rows]`, the number of its next token.
    last: `[P, rows]`, the token before.
    next: `[P]`, place in the queue of the sample that is taken up next.
  """

  steps: Array
  drawn: Samples
  cache: types.PyTree
  sample: Array
  t: Array
  last: Array
  next: Array


class _Queue(NamedTuple):
  """Samples in the order in which rows take them up.

  Attributes:
    order: `[P, S]`, those first that did not end with their first token.
    count: `[P]`, how many these are.
    first_tokens: `[P, S]`, of all samples.
  """

  order: Array
  count: Array
  first_tokens: Array

  def take(self, place: Array) -> tuple[Array, Array]:
    """Sample number and first token at `place` `[P, rows]`; S where none is."""
    samples = self.order.shape[-1]
    sample = jnp.take_along_axis(self.order, place, -1, mode="clip")
    token = jnp.take_along_axis(self.first_tokens, sample, -1)
    return jnp.where(place < self.count[:, None], sample, samples), token


def rooms(length: int) -> tuple[int, ...]:
  """Sizes that a cache passes through: quarters, where they are worth it."""
  if length < _WORTH_GROWING:
    return (length,)
  return tuple(-(-length * quarter // 4) for quarter in (1, 2, 3, 4))


def _draw(
  logits: Array, keys: Array, samples: Array, t: Array | int, sampling: Sampling
) -> tuple[Array, Array]:
  """Token t of samples `[P, N]` from logits `[P, N, V]`, and its log-prob."""
  fold = jax.random.fold_in

  def uniform(key: Array, sample: Array, t: Array) -> Array:
    return jax.random.uniform(fold(fold(key, sample), t), (), jnp.float32)

  each = jax.vmap(jax.vmap(uniform, (None, 0, 0)))
  uniforms = each(keys, samples, jnp.broadcast_to(t, samples.shape))
  flat = logits.reshape(-1, logits.shape[-1])
  tokens, log_probs = sample_token(flat, uniforms.reshape(-1), sampling)
  return tokens.reshape(samples.shape), log_probs.reshape(samples.shape)


def _ends(tokens: Array, sampling: Sampling) -> Array:
  return jnp.isin(tokens, jnp.asarray(sampling.eos_ids, jnp.int32))


def _put(array: Array, at: tuple[Array, ...], values: Array) -> Array:
  """`array[p, *at[p, r]] = values[p, r]`, unless that is out of bounds."""

  def write(array: Array, at: tuple[Array, ...], values: Array) -> Array:
    return array.at[at].set(values, mode="drop")

  return jax.vmap(write)(array, at, values)


def sample_token(
  logits: Array, uniforms: Array, sampling: Sampling
) -> tuple[Array, Array]:
  """Draws one token a row by the inverse of the cumulative distribution.

  Token i is drawn where `u` falls in `[F(i - 1), F(i))`. F is summed over
  blocks of the vocabulary first and then inside one block, so that no array of
  the vocabulary's size is written. A uniform has 23 random bits, so a token
  below 1e-7 may never be drawn. One of probability zero never is: it is
  excluded whatever the rounding of F.

  Args:
    logits: `[N, V]`.
    uniforms: `[N]` in `[0, 1)`.
    sampling: temperature and truncations.

  Returns:
    tokens: `[N]` int32.
    log_probs: `[N]` float32, under the truncated and renormalised
      distribution. With temperature 0 that is a point mass (on the first of
      equally likely tokens): all are 0.
  """
  if sampling.temperature == 0:
    tokens = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return tokens, jnp.zeros(tokens.shape, jnp.float32)
  scaled = truncate(logits, sampling)
  blocks = -(-scaled.shape[-1] // _BLOCK)
  rest = blocks * _BLOCK - scaled.shape[-1]
  scaled = jnp.pad(scaled, ((0, 0), (0, rest)), constant_values=-jnp.inf)
  scaled = scaled.reshape(-1, blocks, _BLOCK)
  mass = jnp.exp(scaled).sum(-1)
  total = mass.sum(-1)
  block, target = _first_above(mass, uniforms * total)
  inside = jnp.take_along_axis(scaled, block[:, None, None], axis=1)[:, 0]
  index, _ = _first_above(jnp.exp(inside), target)
  chosen = jnp.take_along_axis(inside, index[:, None], axis=-1)[:, 0]
  return block * _BLOCK + index, chosen - jnp.log(total)


def _first_above(weights: Array, target: Array) -> tuple[Array, Array]:
  """Where the cumulative sum first exceeds a target, and what is left of it.

  Args:
    weights: `[N, n]`, at least 0.
    target: `[N]`, at least 0.

  Returns:
    index: `[N]` int32 of a positive weight; the last one where rounding leaves
      every sum below the target.
    left: `[N]`, the target less the sum before that index.
  """
  index = jnp.arange(weights.shape[-1], dtype=jnp.int32)
  sums = jnp.cumsum(weights, axis=-1)
  # A parallel sum need not be monotone, so a weight of 0 may seem to add.
  last = jnp.where(weights > 0, index, 0).max(-1, keepdims=True)
  passed = (weights > 0) & (sums > target[:, None])
  # A min over indices, for argmax is several times slower on CPU.
  found = jnp.where(passed, index, last).min(-1)
  before = jnp.take_along_axis(sums, jnp.maximum(found - 1, 0)[:, None], -1)
  below = jnp.where(found > 0, before[:, 0], 0.0)
  return found, jnp.maximum(target - below, 0.0)


def truncate(logits: Array, sampling: Sampling) -> Array:
  """Logits over the temperature, -inf where a truncation removes a token.

  Args:
    logits: `[N, V]`.
    sampling: temperature above 0, and truncations.

  Returns:
    `[N, V]` float32 whose maximum is 0; not normalised.
  """
  logits = logits.astype(jnp.float32)
  highest = logits.max(-1, keepdims=True)
  scaled = (logits - highest) / sampling.temperature
  if sampling.top_k:
    weights = jnp.exp(scaled)
    count = min(sampling.top_k, logits.shape[-1])
    least = _edge(weights, jnp.ones_like(weights), count)
    scaled = jnp.where(weights >= least, scaled, -jnp.inf)
  if sampling.top_p < 1:
    weights = jnp.exp(scaled)
    mass = sampling.top_p * weights.sum(-1, keepdims=True)
    least = _edge(weights, weights, mass)
    scaled = jnp.where(weights >= least, scaled, -jnp.inf)
  if sampling.min_p:
    scaled = jnp.where(scaled >= math.log(sampling.min_p), scaled, -jnp.inf)
  return scaled


def _edge(weights: Array, measure: Array, wanted: Array | float) -> Array:
  """The largest w such that the tokens of weight >= w measure `wanted`.

  Bisection over the bit patterns of float32, which order non-negative numbers
  as the numbers themselves: exact after 30 passes. On CPU they took two draws'
  time where a sort took sixty's, and so did `jax.lax.top_k` in this program.

  Args:
    weights: `[N, V]` float32 in `[0, 1]`, with maximum 1.
    measure: `[N, V]`, what each token adds: 1 to count, its weight for mass.
    wanted: broadcastable to `[N, 1]`, at most the sum of `measure`.

  Returns:
    `[N, 1]` float32.
  """

  def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = bounds
    middle = low + (high - low) // 2
    edge = jax.lax.bitcast_convert_type(middle, jnp.float32)
    above = jnp.where(weights >= edge, measure, 0.0).sum(-1, keepdims=True)
    enough = above >= wanted
    return jnp.where(enough, middle, low), jnp.where(enough, high, middle)

  one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
  low = jnp.zeros((len(weights), 1), jnp.int32)
  bounds = (low, jnp.full_like(low, one + 1))  # nothing lies above 1
  low, _ = jax.lax.fori_loop(0, 30, halve, bounds)
  return jax.lax.bitcast_convert_type(low, jnp.float32)


def _check(
  name: str, value: float, least: float, most: float, whole: bool = False
) -> None:
  number = isinstance(value, int if whole else (int, float))
  number = number and not isinstance(value, bool) and math.isfinite(value)
  if number and least <= value <= most:
    return
  kind = "an integer" if whole else "a finite number"
  span = f"at least {least}" if most == math.inf else f"in [{least}, {most}]"
  nearest = f"; nearest: {min(max(value, least), most)}" if number else ""
  raise ValueError(f"{name} = {value!r} must be {kind} {span}{nearest}")
