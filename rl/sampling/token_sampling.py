"""Draws a token from logits, after temperature and truncations.

Axes: N tokens, V vocabulary.
"""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp

from rl import UsageError

Array = jax.Array
# Number of vocabulary entries in a block of `sample_token`.
_BLOCK = 128


@dataclasses.dataclass(frozen=True, kw_only=True)
class TokenSampling:
  """Settings of the distribution that a token is drawn from.

  The truncations are applied in the order top-k, top-p, min-p, each to the
  tokens that the previous truncation keeps. Tokens with the same probability as
  the least likely token that is kept are kept too, so that the result does not
  depend on the order of the vocabulary.

  Attributes:
    temperature: divisor of the logits; 0 takes the most likely token.
    top_k: keeps the k most likely tokens; 0 keeps all.
    top_p: keeps the most likely tokens until their probability reaches top_p
      (Holtzman et al. 2020); 1 keeps all.
    min_p: keeps tokens at least min_p times as likely as the most likely one
      (Nguyen et al. 2024); 0 keeps all.
  """

  temperature: float = 1.0
  top_k: int = 0
  top_p: float = 1.0
  min_p: float = 0.0

  def __post_init__(self) -> None:
    check_number("top_k", self.top_k, 0, math.inf, integer=True)
    check_number("temperature", self.temperature, 0.0, math.inf)
    check_number("min_p", self.min_p, 0.0, 1.0)
    check_number("top_p", self.top_p, 0.0, 1.0)
    if self.top_p == 0:
      raise UsageError(
        f"top_p = {self.top_p} keeps no token; it must be above 0 and at most "
        "1. For the most likely token alone, set temperature=0"
      )

  @property
  def truncates(self) -> bool:
    """True if a truncation is set."""
    return self.top_k > 0 or self.top_p < 1 or self.min_p > 0


def sample_token(
  logits: Array, uniforms: Array, sampling: TokenSampling
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
  """Finds the first index at which the cumulative sum exceeds a target."""
  # `weights` `[N, n]` and `target` `[N]` are at least 0.
  index = jnp.arange(weights.shape[-1], dtype=jnp.int32)
  sums = jnp.cumsum(weights, axis=-1)
  # If rounding leaves all sums at or below the target, the last positive weight
  # is chosen.
  last = jnp.where(weights > 0, index, 0).max(-1, keepdims=True)
  # A parallel cumulative sum may grow by rounding where a weight is 0.
  exceeds = (weights > 0) & (sums > target[:, None])
  # The minimum of indices is several times faster than argmax on a CPU.
  first = jnp.where(exceeds, index, last).min(-1)
  previous = jnp.maximum(first - 1, 0)[:, None]
  sum_before = jnp.take_along_axis(sums, previous, -1)[:, 0]
  sum_before = jnp.where(first > 0, sum_before, 0.0)
  # The target minus the sum of the weights before `first`.
  return first, jnp.maximum(target - sum_before, 0.0)


def truncate(logits: Array, sampling: TokenSampling) -> Array:
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
  """Finds the largest w whose tokens, of weight >= w, add up to `amount`."""

  def halve(_: Array, bounds: tuple[Array, Array]) -> tuple[Array, Array]:
    low, high = bounds
    middle = low + (high - low) // 2
    weight = jax.lax.bitcast_convert_type(middle, jnp.float32)
    # `measure` `[N, V]` is 1 to count tokens, or their weight to sum
    # probability.
    measured = jnp.where(weights >= weight, measure, 0.0).sum(-1, keepdims=True)
    # `amount` is at most the sum of `measure`, so 0 always reaches it.
    is_enough = measured >= amount
    return jnp.where(is_enough, middle, low), jnp.where(is_enough, high, middle)

  bits_of_one = jax.lax.bitcast_convert_type(jnp.float32(1), jnp.int32)
  # `weights` `[N, V]` are in [0, 1], with maximum 1. The result is `[N, 1]`.
  low = jnp.zeros((len(weights), 1), jnp.int32)
  bounds = (low, jnp.full_like(low, bits_of_one + 1))  # no weight is above 1
  # The bit patterns of float32 have the same order as the non-negative numbers
  # that they represent, so bisection over them is exact after 30 steps. On a
  # CPU, it takes as long as two calls of `sample_token`; a sort or
  # `jax.lax.top_k` takes as long as sixty.
  low, _ = jax.lax.fori_loop(0, 30, halve, bounds)
  return jax.lax.bitcast_convert_type(low, jnp.float32)


def check_number(
  name: str, value: float, low: float, high: float, integer: bool = False
) -> None:
  """Raises a UsageError unless a value is a number in [low, high]."""
  is_number = isinstance(value, int if integer else (int, float))
  is_number = is_number and not isinstance(value, bool) and math.isfinite(value)
  if is_number and low <= value <= high:
    return
  kind = "an integer" if integer else "a finite number"
  bounds = f"from {low} to {high}" if high < math.inf else f"of at least {low}"
  nearest = min(max(value, low), high) if is_number else None
  hint = f"; the nearest valid value is {nearest}" if is_number else ""
  raise UsageError(f"{name} = {value!r} must be {kind} {bounds}{hint}")
