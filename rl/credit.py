"""Credit: from step scores to token rewards to returns. Array functions.

A *reward* is placed on a token once; a *return* is what a token can still
collect; broadcasting a reward as if it were an advantage would multiply the
return by T. Rewards and masks are `[..., N]` over steps or tokens; masked
entries are skipped (a tool's tokens, padding): the value at a valid entry does
not depend on how many masked ones stand between, and masked outputs are 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import choices, masked

Array = jax.Array
REDUCE = ("sum", "min")


def min_form_rewards(
  step_scores: Array, step_mask: Array, temperature: float = 0.1
) -> Array:
  """Step scores to rewards whose *sum* is the soft minimum of the scores.

  w_k = softmax_k(-s_k / temperature) over the steps of one sample,
  r*_k = w_k s_k, so sum_k r*_k lies between min_k s_k and mean_k s_k: the
  minimum as temperature -> 0, the mean as temperature -> infinity. The
  ordinary return-to-go of r* is then min-form credit.
  Source: Cheng et al. 2025, Stop Summation (PURE).

  Args:
    step_scores: `[..., K]`, PURE's are p(good) - p(bad) in (-1, 1).
    step_mask: `[..., K]` bool, steps that exist.
    temperature: in units of the score; positive.

  Returns:
    `[..., K]` r*; one step keeps its score; no step gives zeros.

  Raises:
    ValueError: temperature is not positive.
  """
  if not temperature > 0:
    raise ValueError(
      f"temperature = {temperature} must be positive; for the strict minimum "
      "use returns_to_go(..., reduce='min') on steps"
    )
  scores = jnp.where(step_mask, step_scores, jnp.inf)
  lowest = jnp.where(
    step_mask.any(-1, keepdims=True), jnp.min(scores, -1, keepdims=True), 0.0
  )
  gap = jnp.where(step_mask, step_scores - lowest, 0.0)
  weights = jnp.where(step_mask, jnp.exp(-gap / temperature), 0.0)
  total = jnp.maximum(weights.sum(-1, keepdims=True), 1.0)
  return jnp.where(step_mask, step_scores, 0.0) * weights / total


def _reverse_recurrence(decay: Array, x: Array) -> Array:
  """y_t = x_t + decay_t y_{t+1} on the last axis, in logarithmic depth."""

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
  """What is still to come from each entry on.

  sum: G_t = r_t + gamma G_{t+1}.  min: G_t = min over valid t' >= t of r_t'.
  Strict min-form credit is "min" on *steps*; on tokens it would take the
  zeros between step ends for scores (a fault of released code).

  Args:
    rewards: `[..., N]` over steps or tokens.
    mask: `[..., N]` bool, entries that exist; others are skipped.
    gamma: discount per valid entry; "min" takes only 1.
    reduce: "sum" or "min".

  Returns:
    `[..., N]`, 0 where masked.

  Raises:
    ValueError: unknown `reduce`, gamma outside [0, 1], or gamma != 1 with "min".
  """
  if reduce not in REDUCE:
    raise ValueError(choices.unknown("reduce", reduce, REDUCE))
  if not 0 <= gamma <= 1:
    raise ValueError(f"gamma = {gamma} must be from 0 to 1")
  if reduce == "min":
    if gamma != 1.0:
      raise ValueError(f"reduce='min' has no discount, got gamma = {gamma}")
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

  delta_t = r_t + gamma V_{t+1} - V_t,  A_t = delta_t + gamma lam A_{t+1},
  where t+1 is the next *valid* token of the same segment; after the last one
  V and A are 0. The return is A + V. Source: Schulman et al. 2015.

  Args:
    rewards: `[..., T]`.
    values: `[..., T]` V before token t is emitted.
    mask: `[..., T]` bool, the policy's own tokens.
    gamma: discount per valid token.
    lam: trace decay, a float or `[...]` (one per sample).
    segments: `[..., T]` int; neither bootstrap nor trace crosses a change of
      segment (turns, roles). None: one segment.

  Returns:
    `[..., T]` advantages, 0 where masked.
  """
  at, linked = masked.following(mask)
  if segments is not None:
    linked &= jnp.take_along_axis(segments, at, -1) == segments
  next_value = jnp.where(linked, jnp.take_along_axis(values, at, -1), 0.0)
  deltas = jnp.where(mask, rewards + gamma * next_value - values, 0.0)
  lam = jnp.broadcast_to(jnp.asarray(lam, jnp.float32), mask.shape[:-1])
  trace = jnp.where(linked, gamma * lam[..., None], 0.0)
  decay = jnp.where(mask, trace, 1.0)
  return jnp.where(mask, _reverse_recurrence(decay, deltas), 0.0)
