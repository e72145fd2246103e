"""RiskPO: bundles of prompts, valued by the risk of their total score.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import UsageError, masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

Array = jax.Array
State = dict[str, Array]
# Smallest standard deviation of scores that advantages are divided by; below
# it, the differences of scores count as rounding error.
_SMALLEST_STD = 1e-3


def mixed_risk(
  totals: Array, quantiles: Array, levels: tuple[float, float], w: float
) -> Array:
  """Returns (w CVaR + RVaR) / (w + 1) of each total score s.

    RVaR = (relu(s - q_low) - relu(s - q_high) + q_low - q_high) / (high - low)
    CVaR = -relu(q_low - s) / low

  low and high are levels such as 0.2 and 0.8, and q_low and q_high the
  quantiles of s at these levels. CVaR, the conditional value at risk, varies
  below q_low only; RVaR, the range value at risk, varies between both quantiles
  only.

  Args:
    totals: s, of any shape.
    quantiles: `[2]`, q_low and q_high.
    levels: low and high.
    w: weight of the CVaR.
  """
  (low, high), (q_low, q_high) = levels, quantiles
  above_low, above_high = (jax.nn.relu(totals - q) for q in (q_low, q_high))
  rvar = (above_low - above_high + q_low - q_high) / (high - low)
  return (rvar - w * jax.nn.relu(q_low - totals) / low) / (w + 1.0)


def track_quantiles(
  state: State,
  totals: Array,
  valid: Array,
  levels: tuple[float, float],
  rate: float,
) -> State:
  """Returns the state with both quantiles moved towards those of a batch.

  A quantile q of level a becomes q + rate * (a - share of totals below q). The
  first batch with a valid total sets q to its quantiles instead; a batch
  without a valid total changes nothing.

  Args:
    state: `{"quantiles": [2], "seen": [] bool}`; "seen" says whether the
      quantiles were set.
    totals: `[bundles, S]` total scores.
    valid: `[bundles, S]` bool, True where a total exists.
    levels: the levels low and high.
    rate: step size of the quantiles.
  """
  old, is_set = state["quantiles"], state["seen"]
  has_totals = valid.any()
  first = jnp.stack([masked.quantile(totals, valid, a, (0, 1)) for a in levels])
  below = jnp.stack([masked.mean(totals < q, valid, (0, 1)) for q in old])
  later = old + rate * (jnp.asarray(levels) - below)
  new = jnp.where(has_totals, jnp.where(is_set, later, first), old)
  return {"quantiles": new, "seen": is_set | has_totals}


def _divisor(values: Array, valid: Array) -> Array:
  """Returns the std (ddof 1) on the last axis; 1 if below `_SMALLEST_STD`."""
  std = masked.std(values, valid, ddof=1, keepdims=True)
  return jnp.where(std < _SMALLEST_STD, 1.0, std)


@transform(
  takes="sample",
  init=lambda **_: {"quantiles": jnp.zeros(2), "seen": jnp.zeros((), bool)},
)
def bundle_risk(
  signal: Array,
  rollout: types.Rollout,
  state: State,
  *,
  bundle: int,
  levels: tuple[float, float],
  w: float,
  rate: float,
) -> tuple[Array, State]:
  """Returns the risk of each sample's bundle, divided by two spreads.

  The divisors are the standard deviation of the totals of the bundle over its S
  samples, and that of the scores of the sample's own prompt.

  Args:
    signal: `[P, S]` scores.
    rollout: the rollout.
    state: same as in `track_quantiles`.
    bundle, w, rate: same as in `riskpo`.
    levels: `low` and `high` of `riskpo`.

  Raises:
    UsageError: if there are fewer prompts than a bundle has.
  """
  p, s = signal.shape  # [P, S]
  num_bundled = p // bundle * bundle  # number of prompts in complete bundles
  if not num_bundled:
    raise UsageError(
      f"riskpo: bundle = {bundle} exceeds the {p} prompts of a step; choose a "
      f"bundle of 1 to {p} prompts, or more prompts per step"
    )
  valid_samples = rollout.sample_mask
  totals = signal[:num_bundled].reshape(-1, bundle, s).sum(1)  # [bundles, S]
  # [bundles, S]; a total exists if all of its members do.
  valid = valid_samples[:num_bundled].reshape(-1, bundle, s).all(1)
  new_state = track_quantiles(state, totals, valid, levels, rate)
  # Quantiles from before this batch, except in the first batch.
  quantiles = jnp.where(
    state["seen"], state["quantiles"], new_state["quantiles"]
  )
  risk = mixed_risk(totals, quantiles, levels, w)
  risk = jnp.where(valid, risk / _divisor(totals, valid), 0.0)
  # Back to prompts, [P, S]; an incomplete last bundle has 0.
  risk = jnp.pad(jnp.repeat(risk, bundle, 0), ((0, p - num_bundled), (0, 0)))
  return risk / _divisor(signal, valid_samples), new_state


def riskpo(
  bundle: int = 5,
  low: float = 0.2,
  high: float = 0.8,
  w: float = 1.5,
  rate: float = 0.1,
  clip: float = 0.2,
) -> Method:
  """A = risk (w CVaR + RVaR) / (w + 1) of a bundle's total / two spreads.

  The samples number j of `bundle` consecutive prompts form one bundle; their
  scores add up to its total s. The risk (`mixed_risk`) rises steeply with s
  below the quantile of level `low`, gently up to the quantile of level `high`,
  and is constant above it. The quantiles start as those of the first batch;
  after each batch, a quantile q of level a increases by rate * (a - share of
  totals below q). The advantage of each sample of a bundle, [P, S], is the risk
  divided by the standard deviation of the totals of the same prompts over j,
  and by that of the scores of the sample's own prompt. The loss is PPO-clip,
  averaged over the tokens of all samples, without a KL. Prompts of an
  incomplete last bundle, and samples whose bundle lacks a sample, have
  advantage 0; their tokens count in the mean of the loss.
  Left out: the other ways of the released code to share the risk of a bundle
  among its samples, and its settings of quantile levels that it never reads.
  Open: released scripts combine `high` = 0.8 with another way to share the risk
  and without the constant q_low - q_high, or 0.9 with the way used here.
  Deviation: the released code replaces the standard deviation of a prompt by 1
  if it is below 1e-3; this implementation does the same for that of a bundle's
  totals.
  Source: Ren et al. 2025, RiskPO: Risk-based Policy Optimization, and its code.

  Args:
    bundle: number of prompts in a bundle.
    low, high: levels of the two quantiles.
    w: weight of the CVaR, the part of the risk below the low quantile.
    rate: step size of the quantiles.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    UsageError: if not 0 < low < high <= 1; also when a training step is traced,
      if it has fewer prompts than a bundle.
  """
  if not 0 < low < high <= 1:
    raise UsageError(
      f"riskpo: low = {low} and high = {high} must be levels of quantiles with "
      "0 < low < high <= 1, such as 0.2 and 0.8"
    )
  return Method(
    advantage=chain(scores(), bundle_risk(bundle, (low, high), w, rate)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
