"""Credit: from step scores to rewards, returns and advantages of tokens.

A *reward* belongs to one token. A *return* is the sum of the rewards from a
token on. If a reward were copied to all tokens, as an advantage is, the return
would be multiplied by T.

All functions are functions of arrays. Rewards and masks are `[..., N]`, over
steps or tokens. Entries outside the mask, such as padding or the tokens of a
tool, are skipped: a value does not depend on how many of them lie between two
valid entries. The result at these entries is 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, registry

Array = jax.Array
REDUCE = ("sum", "min")


def min_form_rewards(
  step_scores: Array, step_mask: Array, temperature: float = 0.1
) -> Array:
  """Rewards r* of steps, whose *sum* is the soft minimum of the step scores s.

    w_k = softmax_k(-s_k / temperature) over the steps of one sample,
    r*_k = w_k s_k

  The sum of r*_k lies between min_k s_k, its limit as temperature -> 0, and
  mean_k s_k, its limit as temperature -> infinity. Min-form credit is the
  ordinary return-to-go of r*.
  Source: Cheng et al. 2025, Stop Summation (PURE).

  Args:
    step_scores: `[..., K]`. Those of PURE are p(good) - p(bad), in (-1, 1).
    step_mask: `[..., K]` bool, steps that exist.
    temperature: temperature of the softmax, in units of the score; positive.

  Returns:
    `[..., K]`. A single step keeps its score; without steps, all are 0.

  Raises:
    ValueError: if the temperature is not positive.
  """
  if not temperature > 0:
    raise ValueError(
      f"temperature = {temperature} must be positive; for the strict minimum "
      "use returns_to_go(..., reduce='min') on steps"
    )
  scores = jnp.where(step_mask, step_scores, jnp.inf)
  # Softmax relative to the lowest score, whose weight is 1: nothing overflows.
  lowest = jnp.where(
    step_mask.any(-1, keepdims=True), jnp.min(scores, -1, keepdims=True), 0.0
  )
  gap = jnp.where(step_mask, step_scores - lowest, 0.0)
  weights = jnp.where(step_mask, jnp.exp(-gap / temperature), 0.0)
  total = jnp.maximum(weights.sum(-1, keepdims=True), 1.0)
  return jnp.where(step_mask, step_scores, 0.0) * weights / total


def _reverse_recurrence(decay: Array, x: Array) -> Array:
  """Solves y_t = x_t + decay_t y_{t+1} on the last axis, in logarithmic depth."""

  def combine(later, earlier):
    decay_later, x_later = later
    decay_earlier, x_earlier = earlier
    return decay_later * decay_earlier, x_earlier + decay_earlier * x_later

  axis = x.ndim - 1
  _, y = jax.lax.associative_scan(combine, (decay, x), reverse=True, axis=axis)
  return y


def returns_to_go(
  rewards: Array, mask: Array, gamma: float = 1.0, reduce: str = "sum"
) -> Array:
  """Returns-to-go: the sum, or the minimum, of the rewards from each entry on.

    sum: G_t = r_t + gamma G_{t+1}
    min: G_t = min over valid t' >= t of r_t'

  Strict min-form credit is "min" over *steps*. Over tokens, the minimum would
  mistake the zeros between the ends of steps for scores, as released code does.

  Args:
    rewards: `[..., N]`, over steps or tokens.
    mask: `[..., N]` bool, entries that exist; the others are skipped.
    gamma: discount per valid entry; it must be 1 for "min".
    reduce: "sum" or "min".

  Returns:
    `[..., N]`; 0 outside the mask.

  Raises:
    ValueError: if `reduce` is unknown, gamma is not in [0, 1], or gamma is not
      1 for "min".
  """
  if reduce not in REDUCE:
    raise ValueError(registry.describe_unknown("reduce", reduce, REDUCE))
  if not 0 <= gamma <= 1:
    raise ValueError(f"gamma = {gamma} must be from 0 to 1")
  if reduce == "min":
    if gamma != 1.0:
      raise ValueError(f"gamma = {gamma} must be 1 with reduce='min'")
    best = jax.lax.cummin(
      jnp.where(mask, rewards, jnp.inf), axis=rewards.ndim - 1, reverse=True
    )
    return jnp.where(mask, best, 0.0)
  decay = jnp.where(mask, gamma, 1.0)
  returns = _reverse_recurrence(decay, jnp.where(mask, rewards, 0.0))
  return jnp.where(mask, returns, 0.0)


def gae(
  rewards: Array,
  values: Array,
  mask: Array,
  gamma: float = 1.0,
  lam: float | Array = 1.0,
  segments: Array | None = None,
) -> Array:
  """Generalised advantage estimation over the valid tokens.

    delta_t = r_t + gamma V_{t+1} - V_t
    A_t = delta_t + gamma lam A_{t+1}

  Here t+1 is the next *valid* token of the same segment; after the last one, V
  and A are 0. The return is A + V. Source: Schulman et al. 2015.

  Args:
    rewards: `[..., T]`.
    values: `[..., T]`, V before token t is emitted.
    mask: `[..., T]` bool, the tokens that the policy chose.
    gamma: discount per valid token.
    lam: decay of the trace, a float or `[...]` (one per sample).
    segments: `[..., T]` int, turns or roles. Neither the bootstrapped value nor
      the trace crosses a change of segment. None means one segment.

  Returns:
    `[..., T]` advantages; 0 outside the mask.
  """
  next_index, has_next = masked.following(mask)
  if segments is not None:
    has_next &= jnp.take_along_axis(segments, next_index, -1) == segments
  next_value = jnp.take_along_axis(values, next_index, -1)
  next_value = jnp.where(has_next, next_value, 0.0)
  deltas = jnp.where(mask, rewards + gamma * next_value - values, 0.0)
  lam = jnp.broadcast_to(jnp.asarray(lam, jnp.float32), mask.shape[:-1])
  trace = jnp.where(has_next, gamma * lam[..., None], 0.0)
  # A decay of 1 passes the value over entries that do not exist.
  decay = jnp.where(mask, trace, 1.0)
  return jnp.where(mask, _reverse_recurrence(decay, deltas), 0.0)
