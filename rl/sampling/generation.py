"""Sampling of completions with a cache of attention keys and values.

The model reads each prompt once. Its samples are decoded together, in a fixed
number of *rows* per prompt, each of which has space for one sample in the
cache. If there are more samples than rows, a row whose sample has ended
continues with the next sample of the prompt (continuous batching), so that no
row is idle while another row decodes a long sample.

The uniform random number behind a token is a function of (seed, step, prompt,
sample, position) and of nothing else. Hence a sample does not depend on the
sharding, the other prompts of the batch, the number of samples or rows, or a
restart. If a prompt occurs twice in a batch, `prompt_keys` gives the two
occurrences different keys.

Axes: P prompts, S samples per prompt, T completion tokens, L prompt tokens,
V vocabulary; N tokens of any samples.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import flax.struct
import jax
import jax.numpy as jnp

from rl import bit_sets, types

Array = jax.Array
# Smallest T for which the cache grows from quarter to quarter. For shorter
# completions, compiling the loop once per capacity costs more time than it
# saves.
_MIN_GROWING_LENGTH = 64
# Number of vocabulary entries in a block of `sample_token`.
_BLOCK = 128


@dataclasses.dataclass(frozen=True)
class Sampling:
  """Settings of sampling.

  The truncations are applied in the order top-k, top-p, min-p, each to the
  tokens that the previous truncation keeps. Tokens with the same probability as
  the least likely token that is kept are kept too, so that the result does not
  depend on the order of the vocabulary.

  Attributes:
    samples: S, number of completions per prompt.
    max_tokens: T, largest number of tokens of a completion.
    eos_ids: tokens that end a completion.
    pad_id: token that is written after the end of a completion.
    temperature: divisor of the logits; 0 takes the most likely token.
    top_k: keeps the k most likely tokens; 0 keeps all.
    top_p: keeps the most likely tokens until their probability reaches top_p
      (Holtzman et al. 2020); 1 keeps all.
    min_p: keeps tokens at least min_p times as likely as the most likely one
      (Nguyen et al. 2024); 0 keeps all.
    rows: number of samples of a prompt that are decoded at the same time; 0
      means all. The samples do not depend on it. Fewer rows are faster if the
      lengths of the samples differ much.
    returns_support: whether `generate` also returns the support of each token:
      the tokens that the truncations keep. It takes V / 8 bytes per token.
    max_length: number of tokens of the longest text that is read, a prompt and
      a completion, in the sense of `rl.types.Tokens.text_length`; later tokens
      of a completion have any value. 0 means L + T.
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
  returns_support: bool = False
  max_length: int = 0

  def __post_init__(self) -> None:
    object.__setattr__(self, "eos_ids", tuple(self.eos_ids))
    for name in ("samples", "max_tokens"):
      _check(name, getattr(self, name), 1, math.inf, integer=True)
    for name in ("top_k", "rows", "max_length"):
      _check(name, getattr(self, name), 0, math.inf, integer=True)
    _check("pad_id", self.pad_id, 0, math.inf, integer=True)
    for eos_id in self.eos_ids:
      _check("eos_ids", eos_id, 0, math.inf, integer=True)
    _check("temperature", self.temperature, 0.0, math.inf)
    _check("min_p", self.min_p, 0.0, 1.0)
    _check("top_p", self.top_p, 0.0, 1.0)
    if self.top_p == 0:
      raise ValueError(
        f"top_p = {self.top_p} keeps no token; it must be above 0 and at most "
        "1. For the most likely token alone, set temperature=0"
      )

  @property
  def gives_support(self) -> bool:
    """Whether `generate` returns a support: on request, if it truncates."""
    truncates = self.top_k > 0 or self.top_p < 1 or self.min_p > 0
    return self.returns_support and truncates and self.temperature > 0


@flax.struct.dataclass
class Samples:
  """Completions of P prompts, S of each.

  Attributes:
    completions: `[P, S, T]` int32, with `pad_id` after the end.
    lengths: `[P, S]` int32, number of sampled tokens, including EOS.
    log_probs: `[P, S, T]` float32, log-probs under the distribution that was
      sampled from, after temperature and truncations; 0 on padding.
    finished: `[P, S]` bool, False if the length limit ended the sample; True if
      EOS did, or the sample is not active.
    support: `[P, S, T, W]` uint32, the tokens that could have been sampled, in
      the form of `rl.types.Tokens.support`; None unless
      `Sampling.gives_support`.
  """

  completions: Array
  lengths: Array
  log_probs: Array
  finished: Array
  support: Array | None = None


def prompt_keys(key: Array, step: Array | int, prompt_ids: Array) -> Array:
  """Derives one key per prompt, independent of the other prompts of the batch.

  If a prompt occurs several times in a batch, its occurrences get different
  keys.

  Args:
    key: PRNG key of the seed.
    step: training step.
    prompt_ids: `[P]` integers.

  Returns:
    `[P]` keys.
  """
  fold = jax.random.fold_in
  keys = jax.vmap(fold, (None, 0))(fold(key, step), prompt_ids)
  # The number of earlier occurrences of the prompt is folded in.
  same = prompt_ids[:, None] == prompt_ids[None, :]  # [P, P]
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
  """Samples S completions of every prompt.

  Args:
    policy: the model.
    params: its parameters.
    prompts: `[P, L]` ids, padded on the left.
    prompt_mask: `[P, L]` bool, False on padding.
    keys: `[P]`, result of `prompt_keys`.
    sampling: settings of sampling; static under jit.
    first: number of the first sample. To sample n, and then m more with
      first = n, gives the same samples as n + m at once.
    active: `[P, S]` bool, True for the samples to draw; the others have length
      0. None means all.

  Returns:
    The completions, padded to T tokens.
  """
  P, S, T = len(prompts), sampling.samples, sampling.max_tokens
  rows = min(sampling.rows or S, S)

  # The first token of every sample is sampled from the logits of the prompt.
  max_length = (sampling.max_length,) if sampling.max_length else ()
  logits, cache = policy.prefill(
    params, prompts, prompt_mask, rows, T, *max_length
  )
  served = policy.serve(params)
  logits = jnp.broadcast_to(logits[:, None], (P, S, logits.shape[-1]))
  numbers = jnp.broadcast_to(jnp.arange(S, dtype=jnp.int32), (P, S))
  tokens, log_probs, support = _sample_tokens(
    logits, keys, first + numbers, 0, sampling
  )
  is_active = jnp.ones((P, S), bool) if active is None else active
  is_first = (jnp.arange(T) == 0) & is_active[..., None]  # [P, S, T]
  samples = Samples(
    completions=jnp.where(is_first, tokens[..., None], sampling.pad_id),
    lengths=is_active.astype(jnp.int32),
    log_probs=jnp.where(is_first, log_probs[..., None], 0.0),
    finished=_ends(tokens, sampling) | ~is_active,
    support=None
    if support is None
    else jnp.where(is_first[..., None], support[:, :, None], jnp.uint32(0)),
  )
  if T == 1:
    return samples
  queue = _Queue(
    order=jnp.argsort(samples.finished, axis=-1).astype(jnp.int32),
    count=(~samples.finished).sum(-1),
    first_tokens=tokens,
  )

  def advance(state: _State) -> _State:
    """Adds a token to each row's sample; free rows take the next samples."""
    logits, cache = policy.decode(served, state.last, state.t - 1, state.cache)
    has_sample = state.sample < S  # [P, rows]
    numbers = first + state.sample
    tokens, log_probs, support = _sample_tokens(
      logits, keys, numbers, state.t, sampling
    )
    ends = _ends(tokens, sampling)
    index = state.sample, state.t
    samples = Samples(
      completions=_put(state.samples.completions, index, tokens),
      lengths=_put(state.samples.lengths, index[:1], state.t + 1),
      log_probs=_put(state.samples.log_probs, index, log_probs),
      finished=_put(state.samples.finished, index[:1], ends),
      support=None
      if support is None
      else _put(state.samples.support, index, support),
    )
    is_free = ~has_sample | ends | (state.t + 1 == T)
    # The free rows of a prompt take the next samples of its queue, in order.
    queue_index = state.next[:, None] + jnp.cumsum(is_free, -1) - 1
    sample, first_token = queue.take(queue_index)
    return _State(
      steps=state.steps + 1,
      samples=samples,
      cache=cache,
      sample=jnp.where(is_free, sample, state.sample),
      t=jnp.where(is_free, 1, state.t + 1),
      last=jnp.where(is_free, first_token, tokens),
      next=state.next + is_free.sum(-1, dtype=jnp.int32),
    )

  sample, last = queue.take(numbers[:, :rows])
  steps, t = jnp.int32(0), jnp.ones_like(sample)
  next_index = jnp.full(P, rows, jnp.int32)
  state = _State(steps, samples, cache, sample, t, last, next_index)
  for capacity in cache_capacities(T):
    state = state.replace(cache=policy.resize(state.cache, capacity))

    def has_work(state: _State, capacity: int = capacity) -> Array:
      # Each step adds at most one token to a row of the cache, so that
      # `capacity` steps always fit. At capacity T every sample fits, even if
      # the loop makes more steps because rows start again.
      fits = (state.steps < capacity) | (capacity == T)
      return fits & (state.sample < S).any()

    state = jax.lax.while_loop(has_work, advance, state)
  return state.samples


@flax.struct.dataclass
class _State:
  """State of the decoding loop.

  Attributes:
    steps: `[]`, number of calls of `decode`.
    samples: the samples so far.
    cache: cache of the policy.
    sample: `[P, rows]`, number of the sample in each row; S if there is none.
    t: `[P, rows]`, position of the next token of that sample.
    last: `[P, rows]`, the last token of that sample.
    next: `[P]`, index in the queue of the next sample that no row has taken.
  """

  steps: Array
  samples: Samples
  cache: types.PyTree
  sample: Array
  t: Array
  last: Array
  next: Array


class _Queue(NamedTuple):
  """The samples of each prompt, in the order in which rows take them.

  Attributes:
    order: `[P, S]`, numbers of samples. Those that are not active, or ended
      with their first token, come last, and no row takes them.
    count: `[P]`, number of samples that rows take.
    first_tokens: `[P, S]`, the first token of each sample.
  """

  order: Array
  count: Array
  first_tokens: Array

  def take(self, index: Array) -> tuple[Array, Array]:
    """Returns the samples at the indices `[P, rows]` of the queue.

    Returns:
      The number of each sample, which is S beyond the end of the queue, and its
      first token; both `[P, rows]`.
    """
    S = self.order.shape[-1]
    sample = jnp.take_along_axis(self.order, index, -1, mode="clip")
    token = jnp.take_along_axis(self.first_tokens, sample, -1)
    return jnp.where(index < self.count[:, None], sample, S), token


def cache_capacities(length: int) -> tuple[int, ...]:
  """Returns the capacities of the cache, in the order in which it grows.

  Args:
    length: T, largest number of tokens of a completion.

  Returns:
    Completion tokens per row: a quarter, half, three quarters and all of T; T
    alone if T is small.
  """
  if length < _MIN_GROWING_LENGTH:
    return (length,)
  return tuple(-(-length * quarter // 4) for quarter in (1, 2, 3, 4))


def _sample_tokens(
  logits: Array, keys: Array, samples: Array, t: Array | int, sampling: Sampling
) -> tuple[Array, Array, Array | None]:
  """Samples the token at position t of some samples of each prompt.

  Args:
    logits: `[P, rows, V]`, of that token.
    keys: `[P]`.
    samples: `[P, rows]`, numbers of the samples.
    t: position, `[P, rows]` or one number.
    sampling: settings of sampling.

  Returns:
    The tokens and their log-probs, `[P, rows]`, and their support
    `[P, rows, W]`; None if `sampling` does not ask for it.
  """
  fold = jax.random.fold_in

  def uniform(key: Array, sample: Array, t: Array) -> Array:
    return jax.random.uniform(fold(fold(key, sample), t), (), jnp.float32)

  uniform_of_rows = jax.vmap(jax.vmap(uniform, (None, 0, 0)))
  uniforms = uniform_of_rows(keys, samples, jnp.broadcast_to(t, samples.shape))
  flat = logits.reshape(-1, logits.shape[-1])  # [P * rows, V]
  tokens, log_probs = sample_token(flat, uniforms.reshape(-1), sampling)
  support = None
  if sampling.gives_support:
    in_support = truncate(flat, sampling) > -jnp.inf
    support = bit_sets.pack(in_support).reshape(*samples.shape, -1)
  return (
    tokens.reshape(samples.shape),
    log_probs.reshape(samples.shape),
    support,
  )


def _ends(tokens: Array, sampling: Sampling) -> Array:
  """`[...]` bool, True for tokens that end a completion."""
  return jnp.isin(tokens, jnp.asarray(sampling.eos_ids, jnp.int32))


def _put(array: Array, index: tuple[Array, ...], values: Array) -> Array:
  """Writes `array[p, *index[p, r]] = values[p, r]` for all p and r.

  Values whose index is out of bounds are dropped: those of rows without a
  sample, whose sample number is S.
  """

  def write(array: Array, index: tuple[Array, ...], values: Array) -> Array:
    return array.at[index].set(values, mode="drop")

  return jax.vmap(write)(array, index, values)


def sample_token(
  logits: Array, uniforms: Array, sampling: Sampling
) -> tuple[Array, Array]:
  """Samples N tokens, by inversion of the cumulative distribution function F.

  Token i is sampled if the uniform number is in `[F(i - 1), F(i))`. F is summed
  over blocks of the vocabulary first, and then within one block, so that F
  itself, an array `[N, V]`, is never stored. Because a uniform number has 23
  random bits, a token with a probability below 1e-7 may never be sampled. A
  token of probability 0 is never sampled, whatever the rounding of F.

  Args:
    logits: `[N, V]`.
    uniforms: `[N]`, in `[0, 1)`.
    sampling: settings, of which temperature and truncations are read.

  Returns:
    tokens: `[N]` int32.
    log_probs: `[N]` float32, under the truncated and renormalised distribution.
      At temperature 0, the token is the first of the most likely tokens, with
      log-prob 0.
  """
  if sampling.temperature == 0:
    tokens = jnp.argmax(logits, axis=-1).astype(jnp.int32)
    return tokens, jnp.zeros(tokens.shape, jnp.float32)
  scaled = truncate(logits, sampling)
  blocks = -(-scaled.shape[-1] // _BLOCK)
  padding = blocks * _BLOCK - scaled.shape[-1]
  scaled = jnp.pad(scaled, ((0, 0), (0, padding)), constant_values=-jnp.inf)
  scaled = scaled.reshape(-1, blocks, _BLOCK)  # [N, V] -> [N, blocks, _BLOCK]
  block_weights = jnp.exp(scaled).sum(-1)  # [N, blocks]
  total = block_weights.sum(-1)
  block, target = _first_above(block_weights, uniforms * total)
  # The logits of the block of each token, [N, _BLOCK].
  in_block = jnp.take_along_axis(scaled, block[:, None, None], axis=1)[:, 0]
  index, _ = _first_above(jnp.exp(in_block), target)
  token_logits = jnp.take_along_axis(in_block, index[:, None], axis=-1)[:, 0]
  return block * _BLOCK + index, token_logits - jnp.log(total)


def _first_above(weights: Array, target: Array) -> tuple[Array, Array]:
  """Finds the first index at which the cumulative sum exceeds a target.

  Args:
    weights: `[N, n]`, at least 0; they are summed along the last axis.
    target: `[N]`, at least 0.

  Returns:
    first: `[N]` int32, index of a positive weight. If rounding leaves all sums
      at or below the target, it is the index of the last positive weight.
    remainder: `[N]`, the target minus the sum of the weights before `first`.
  """
  index = jnp.arange(weights.shape[-1], dtype=jnp.int32)
  sums = jnp.cumsum(weights, axis=-1)
  last = jnp.where(weights > 0, index, 0).max(-1, keepdims=True)
  # A parallel cumulative sum may grow by rounding where a weight is 0.
  exceeds = (weights > 0) & (sums > target[:, None])
  # The minimum of indices is several times faster than argmax on a CPU.
  first = jnp.where(exceeds, index, last).min(-1)
  previous = jnp.maximum(first - 1, 0)[:, None]
  sum_before = jnp.take_along_axis(sums, previous, -1)[:, 0]
  sum_before = jnp.where(first > 0, sum_before, 0.0)
  return first, jnp.maximum(target - sum_before, 0.0)


def truncate(logits: Array, sampling: Sampling) -> Array:
  """Divides logits by the temperature, and sets removed tokens to -inf.

  Args:
    logits: `[N, V]`.
    sampling: settings, of which temperature (above 0) and truncations are read.

  Returns:
    `[N, V]` float32, with a maximum of 0 in each row; not normalised.
  """
  logits = logits.astype(jnp.float32)
  highest = logits.max(-1, keepdims=True)
  scaled = (logits - highest) / sampling.temperature
  if sampling.top_k:
    weights = jnp.exp(scaled)
    count = min(sampling.top_k, logits.shape[-1])
    threshold = _threshold(weights, jnp.ones_like(weights), count)
    scaled = jnp.where(weights >= threshold, scaled, -jnp.inf)
  if sampling.top_p < 1:
    weights = jnp.exp(scaled)
    mass = sampling.top_p * weights.sum(-1, keepdims=True)
    threshold = _threshold(weights, weights, mass)
    scaled = jnp.where(weights >= threshold, scaled, -jnp.inf)
  if sampling.min_p:
    scaled = jnp.where(scaled >= math.log(sampling.min_p), scaled, -jnp.inf)
  return scaled


def _threshold(weights: Array, measure: Array, amount: Array | float) -> Array:
  """Finds the largest threshold above which tokens add up to an amount.

  This is the largest w for which the sum of `measure` over the tokens with
  weight >= w is at least `amount`. It is found by bisection over the bit
  patterns of float32, which have the same order as the non-negative numbers
  that they represent. Bisection is exact after 30 steps. On a CPU, it takes
  as long as two calls of `sample_token`; a sort or `jax.lax.top_k` takes as
  long as sixty.

  Args:
    weights: `[N, V]` float32 in `[0, 1]`, with maximum 1.
    measure: `[N, V]`, the summand of each token: 1 to count tokens, or its
      weight to sum probability.
    amount: broadcastable to `[N, 1]`, at most the sum of `measure`.

  Returns:
    `[N, 1]` float32.
  """

  def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = bounds
    middle = low + (high - low) // 2
    weight = jax.lax.bitcast_convert_type(middle, jnp.float32)
    measured = jnp.where(weights >= weight, measure, 0.0).sum(-1, keepdims=True)
    is_enough = measured >= amount
    return jnp.where(is_enough, middle, low), jnp.where(is_enough, high, middle)

  bits_of_one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
  low = jnp.zeros((len(weights), 1), jnp.int32)
  bounds = (low, jnp.full_like(low, bits_of_one + 1))  # no weight is above 1
  low, _ = jax.lax.fori_loop(0, 30, halve, bounds)
  return jax.lax.bitcast_convert_type(low, jnp.float32)


def _check(
  name: str, value: float, low: float, high: float, integer: bool = False
) -> None:
  """Raises a ValueError unless a value is a number in [low, high]."""
  is_number = isinstance(value, int if integer else (int, float))
  is_number = is_number and not isinstance(value, bool) and math.isfinite(value)
  if is_number and low <= value <= high:
    return
  kind = "an integer" if integer else "a finite number"
  bounds = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
  nearest = min(max(value, low), high) if is_number else None
  hint = f"; the nearest valid value is {nearest}" if is_number else ""
  raise ValueError(f"{name} = {value!r} must be {kind} {bounds}{hint}")
