"""RiskPO: bundles of prompts, valued by the risk of their total score.

Axes: P prompts, S samples per prompt (a group).
"""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rl import masked, types
from rl.losses.surrogates import ppo_clip
from rl.losses.terms import policy_gradient
from rl.method import Method
from rl.transforms import chain, scores, transform

Array = jax.Array
State = dict[str, Array]
# A standard deviation below this is taken as 1.
_SMALLEST_SPREAD = 1e-3


def mixed_risk(
  totals: Array, quantiles: Array, levels: tuple[float, float], w: float
) -> Array:
  """(w CVaR + RVaR) / (w + 1) of each total score s.

  RVaR = (relu(s - q_low) - relu(s - q_high) + q_low - q_high) / (high - low)
  and CVaR = -relu(q_low - s) / low: both are linear between the quantiles.

  Args:
    totals: s, of any shape.
    quantiles: `[2]`, q_low and q_high.
    levels: low and high, the levels of these quantiles.
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
  """q + rate (level - share of totals below q) for both quantiles.

  The first batch with a valid total sets q to its quantiles; a batch without
  one leaves the state as it is.

  Args:
    state: {"quantiles": [2], "seen": [] bool, whether they were set}.
    totals: `[bundles, S]` total scores.
    valid: `[bundles, S]` bool, totals that exist.
    levels: low and high.
    rate: step size.
  """
  old, is_set = state["quantiles"], state["seen"]
  has_totals = valid.any()
  first = jnp.stack([masked.quantile(totals, valid, a, (0, 1)) for a in levels])
  below = jnp.stack([masked.mean(totals < q, valid, (0, 1)) for q in old])
  later = old + rate * (jnp.asarray(levels) - below)
  new = jnp.where(has_totals, jnp.where(is_set, later, first), old)
  return {"quantiles": new, "seen": is_set | has_totals}


def _spread(signal: Array, valid: Array) -> Array:
  """Standard deviation (ddof 1) on the last axis, 1 if it is tiny."""
  spread = masked.std(signal, valid, ddof=1, keepdims=True)
  return jnp.where(spread < _SMALLEST_SPREAD, 1.0, spread)


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
  """Risk of sample j's bundle / its spread over j / its prompt's spread."""
  p, s = signal.shape
  num_bundled = p // bundle * bundle  # prompts in complete bundles
  if not num_bundled:
    raise ValueError(
      f"riskpo: bundle = {bundle} exceeds the {p} prompts of a step; choose a "
      f"bundle of 1 to {p} prompts, or more prompts per step"
    )
  valid_samples = rollout.sample_mask
  members = jnp.where(valid_samples, signal, 0.0)[:num_bundled]
  members = members.reshape(-1, bundle, s)
  totals = members.sum(1)  # [bundles, S]
  # [bundles, S]; a total exists if all of its members do.
  valid = valid_samples[:num_bundled].reshape(-1, bundle, s).all(1)
  new = track_quantiles(state, totals, valid, levels, rate)
  quantiles = jnp.where(state["seen"], state["quantiles"], new["quantiles"])
  risk = mixed_risk(totals, quantiles, levels, w)
  risk = jnp.where(valid, risk / _spread(totals, valid), 0.0)
  # Back to prompts, [P, S]; an incomplete last bundle has 0.
  risk = jnp.pad(jnp.repeat(risk, bundle, 0), ((0, p - num_bundled), (0, 0)))
  return jnp.where(
    valid_samples, risk / _spread(signal, valid_samples), 0.0
  ), new


def riskpo(
  bundle: int = 5,
  low: float = 0.2,
  high: float = 0.8,
  w: float = 1.5,
  rate: float = 0.1,
  clip: float = 0.2,
) -> Method:
  """A = risk (w CVaR + RVaR) / (w + 1) of a bundle's total / two spreads.

  The samples with index j of `bundle` consecutive prompts form one bundle;
  their scores add up to its total s. The risk (`mixed_risk`) is steep in s
  below the quantile of level `low`, gentle up to that of level `high`, and
  constant above. The quantiles are those of the first batch; after each batch,
  q increases by rate times (level - share of totals below q). The advantage of
  each member, [P, S], is the risk divided by the standard deviation of the
  bundle's totals over j, and by that of the member's own prompt. The loss is
  PPO-clip, averaged over tokens, without a KL. Prompts of an incomplete last
  bundle, and samples whose bundle lacks a member, have advantage 0 and count in
  the mean.
  Left out: the other ways to share the risk of a bundle among its members, and
  settings of quantile levels that the code does not read.
  Open: released scripts combine `high` = .8 with another sharing and without
  the constant q_low - q_high, or .9 with this sharing.
  Deviation: the standard deviation of a bundle is taken as 1 if it is below
  1e-3, like that of a prompt.
  Source: Ren et al. 2025, RiskPO: Risk-based Policy Optimization, and its code.

  Args:
    bundle: number of prompts in a bundle.
    low, high: levels of the two quantiles.
    w: weight of the CVaR, the part below the low quantile.
    rate: step size of the quantiles.
    clip: clip range [1 - clip, 1 + clip] of the importance ratio.

  Raises:
    ValueError: if not 0 < low < high <= 1; and while a step is traced, if it
      has fewer prompts than a bundle.
  """
  if not 0 < low < high <= 1:
    raise ValueError(
      f"riskpo: low = {low} and high = {high} must be levels of quantiles with "
      "0 < low < high <= 1; usual: 0.2 and 0.8"
    )
  return Method(
    advantage=chain(scores(), bundle_risk(bundle, (low, high), w, rate)),
    loss=policy_gradient(ppo_clip(clip, clip)),
  )
