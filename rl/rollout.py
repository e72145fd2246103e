"""Sampling completions: each prompt runs once, its S samples decode together.

The uniform number behind one token is a function of (seed, step, prompt,
sample, position) and of nothing else, so a sample is the same under any
sharding, batch composition, number of samples or restart.
"""

from __future__ import annotations

import dataclasses
import math

import flax.struct
import jax
import jax.numpy as jnp

from rl import types

Array = jax.Array


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
  """

  samples: int
  max_tokens: int
  eos_ids: tuple[int, ...]
  pad_id: int
  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0

  def __post_init__(self) -> None:
    object.__setattr__(self, "eos_ids", tuple(self.eos_ids))
    for name, least in (("samples", 1), ("max_tokens", 1), ("top_k", 0)):
      _check(name, getattr(self, name), least, math.inf, whole=True)
    _check("pad_id", self.pad_id, 0, math.inf, whole=True)
    for eos_id in self.eos_ids:
      _check("eos_ids", eos_id, 0, math.inf, whole=True)
    _check("temperature", self.temperature, 0.0, math.inf)
    _check("min_p", self.min_p, 0.0, 1.0)
    _check("top_p", self.top_p, 0.0, 1.0)
    if self.top_p == 0:
      raise ValueError(
        f"top_p = {self.top_p} keeps no token; it must be above 0 and at most 1; for the "
        "most likely token alone set temperature=0"
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
  fold = jax.vmap(jax.random.fold_in)
  at_step = jax.random.fold_in(key, step)
  keys = jax.vmap(jax.random.fold_in, (None, 0))(at_step, prompt_ids)
  same = prompt_ids[:, None] == prompt_ids[None, :]
  return fold(keys, jnp.tril(same, -1).sum(-1))


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
  eos_ids = jnp.asarray(sampling.eos_ids, jnp.int32)
  fold = jax.vmap(jax.random.fold_in, (0, None))
  numbers = first + jnp.arange(S)
  sample_keys = jax.vmap(fold, (None, 0), 1)(keys, numbers)  # [P, S]
  sample_keys = sample_keys.reshape(P * S, *keys.shape[1:])

  def draw(logits: Array, t: Array, drawn: Samples) -> Samples:
    uniforms = jax.vmap(jax.random.uniform)(fold(sample_keys, t))
    logits = logits.reshape(P * S, -1)
    tokens, log_probs = sample_token(logits, uniforms, sampling)
    tokens = tokens.reshape(P, S)
    ended = drawn.finished
    tokens = jnp.where(ended, sampling.pad_id, tokens)
    log_probs = jnp.where(ended, 0.0, log_probs.reshape(P, S))
    put = jax.lax.dynamic_update_index_in_dim
    return Samples(
      completions=put(drawn.completions, tokens, t, axis=2),
      lengths=drawn.lengths + ~ended,
      log_probs=put(drawn.log_probs, log_probs, t, axis=2),
      finished=ended | jnp.isin(tokens, eos_ids),
    )

  def unended(state: tuple[Array, Samples, types.PyTree]) -> Array:
    t, drawn, _ = state
    return (t < T) & ~drawn.finished.all()

  def advance(
    state: tuple[Array, Samples, types.PyTree],
  ) -> tuple[Array, Samples, types.PyTree]:
    t, drawn, cache = state
    last = jax.lax.dynamic_index_in_dim(
      drawn.completions, t - 1, axis=2, keepdims=False
    )
    logits, cache = policy.decode(params, last, t - 1, cache)
    return t + 1, draw(logits, t, drawn), cache

  logits, cache = policy.prefill(params, prompts, prompt_mask, S, T)
  nothing = Samples(
    completions=jnp.full((P, S, T), sampling.pad_id, jnp.int32),
    lengths=jnp.zeros((P, S), jnp.int32),
    log_probs=jnp.zeros((P, S, T), jnp.float32),
    finished=jnp.zeros((P, S), bool) if active is None else ~active,
  )
  logits = jnp.broadcast_to(logits[:, None], (P, S, logits.shape[-1]))
  drawn = draw(logits, jnp.int32(0), nothing)
  state = (jnp.int32(1), drawn, cache)
  return jax.lax.while_loop(unended, advance, state)[1]


def sample_token(
  logits: Array, uniforms: Array, sampling: Sampling
) -> tuple[Array, Array]:
  """Draws one token a row by the inverse of the cumulative distribution.

  Token i is drawn where `u` falls in `[F(i - 1), F(i))`. A uniform has 23
  random bits, so a token below 1e-7 may never be drawn. One of probability
  zero never is: it is excluded whatever the rounding of `F`.

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
  weights = jnp.exp(scaled)
  cumulative = jnp.cumsum(weights, axis=-1)
  # A parallel sum need not be monotone, so its end may lie below its maximum.
  kept = jnp.where(weights > 0, cumulative, 0.0)
  below_one = jnp.minimum(uniforms, 1 - 2.0**-24)[:, None]
  target = below_one * kept.max(-1, keepdims=True)
  index = jnp.arange(logits.shape[-1], dtype=jnp.int32)
  # A min over indices, for argmax is several times slower on CPU.
  passed = jnp.where(kept > target, index, index[-1])
  tokens = passed.min(-1)
  chosen = jnp.take_along_axis(scaled, tokens[:, None], axis=-1)[:, 0]
  return tokens, chosen - jnp.log(weights.sum(-1))


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
    least = math.log(sampling.min_p)
    scaled = jnp.where(scaled >= least, scaled, -jnp.inf)
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
