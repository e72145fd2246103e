"""Credit: from step scores to rewards, returns and advantages of tokens.

A *reward* belongs to one reasoning step or token. A *return* is the sum of the
rewards from a step or token on. If a reward were copied to all T tokens of a
sample, as an advantage is, the return of the first token would be T times as
large.

All functions are functions of arrays `[..., N]`, with N = K reasoning steps or
N = T tokens on the last axis. Masks are True for entries that exist, the
*valid* entries. Other entries, such as padding or the tokens of a tool, are
skipped: a value does not depend on how many of them lie between two valid
entries. The result at these entries is 0.
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, registry

Array = jax.Array
REDUCE = ("sum", "min")  # allowed values of `reduce` in `returns_to_go`


def min_form_rewards(
  step_scores: Array, step_mask: Array, temperature: float = 0.1
) -> Array:
  """Computes rewards of steps whose *sum* is a soft minimum of the step scores.

    w_k = softmax_k(-s_k / temperature),    r*_k = w_k s_k

  s_k is the score of step k, r*_k is its reward, and the softmax is over the
  steps of one sample. The sum of the r*_k lies between min_k s_k, its limit as
  temperature -> 0, and mean_k s_k, its limit as temperature -> infinity. The
  return of a step in min-form credit is the sum of r* from this step on; only
  that of the first step is the soft minimum.
  Source: Cheng et al. 2025, Stop Summation (PURE).

  Args:
    step_scores: `[..., K]`. Those of PURE are p(good) - p(bad), in (-1, 1).
    step_mask: `[..., K]` bool, steps that exist.
    temperature: temperature of the softmax, in units of the score; positive.
      `math.inf` weighs all steps that exist alike, so that the sum of the
      rewards is the mean of the scores.

  Returns:
    `[..., K]`. The reward of a single step is its score; if no step exists, all
    rewards are 0.

  Raises:
    UsageError: if the temperature is not positive.
  """
  if not temperature > 0:
    raise UsageError(
      f"temperature = {temperature} must be positive; for the strict minimum "
      "use returns_to_go(..., reduce='min') on steps"
    )
  scores = jnp.where(step_mask, step_scores, 0.0)
  lowest = jnp.min(scores, -1, keepdims=True, where=step_mask, initial=jnp.inf)
  # Weights relative to that of the lowest score, which is 1: no exp overflows.
  # The softmax does not depend on this shift, and so has no gradient by it.
  gaps = jnp.where(step_mask, scores - jax.lax.stop_gradient(lowest), 0.0)
  # A temperature that float32 rounds to 0 would divide 0 by 0.
  limits = jnp.finfo(jnp.float32)
  temperature = min(max(temperature, float(limits.tiny)), float(limits.max))
  weights = jnp.where(step_mask, jnp.exp(-gaps / temperature), 0.0)
  total = weights.sum(-1, keepdims=True)
  total = jnp.where(total > 0, total, 1.0)  # 0 if no step exists
  return scores * weights / total


def _reverse_recurrence(decay: Array, x: Array) -> Array:
  """Solves y_t = x_t + decay_t * y_{t+1} on the last axis in O(log N) steps."""

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
  """Computes the sum, or the minimum, of the rewards from each entry on.

    sum: G_t = r_t + gamma G_{t+1}, with t+1 the next valid entry
    min: G_t = min over valid t' >= t of r_t'

  Strict min-form credit is "min" over *steps*. Do not use "min" over tokens:
  the rewards between the ends of steps are 0, and the minimum would take these
  zeros for scores, as the released code of PURE does.

  Args:
    rewards: `[..., N]`, over steps or tokens.
    mask: `[..., N]` bool, True for valid entries.
    gamma: discount per valid entry; it must be 1 for "min".
    reduce: "sum" or "min".

  Returns:
    `[..., N]`; 0 outside the mask.

  Raises:
    UsageError: if `reduce` is unknown, gamma is not in [0, 1], or gamma is not
      1 for "min".
  """
  registry.check_known("reduce", reduce, REDUCE)
  if not 0 <= gamma <= 1:
    raise UsageError(f"gamma = {gamma} must be between 0 and 1")
  if reduce == "min":
    if gamma != 1.0:
      raise UsageError(f"gamma = {gamma} must be 1 with reduce='min'")
    lowest = jax.lax.cummin(
      jnp.where(mask, rewards, jnp.inf), axis=rewards.ndim - 1, reverse=True
    )
    return jnp.where(mask, lowest, 0.0)
  # A decay of 1 passes a return over entries that are not valid.
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
  """Computes advantages by generalised advantage estimation (GAE).

    delta_t = r_t + gamma V_{t+1} - V_t
    A_t = delta_t + gamma * lam * A_{t+1}

  t+1 is the next *valid* token. If there is none, or it is in another segment,
  V_{t+1} and A_{t+1} are 0. The return is A + V. Source: Schulman et al. 2015.

  Args:
    rewards: `[..., T]`, r.
    values: `[..., T]`, V_t: value of the text before token t.
    mask: `[..., T]` bool, True for valid tokens: those that the policy chose.
    gamma: discount per valid token.
    lam: the lambda of GAE, a float or an array `[...]` (one per sample).
    segments: `[..., T]` int, number of the turn or role of each token. None
      means that all tokens are in one segment.

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
  # A decay of 1 passes the advantage over tokens that are not valid.
  decay = jnp.where(mask, trace, 1.0)
  return jnp.where(mask, _reverse_recurrence(decay, deltas), 0.0)
