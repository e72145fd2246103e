"""Set objectives: the expected best of k samples, and its estimators.

A group of n samples with scores g_1..g_n estimates, without bias,

  maxk(g, k) = E over k-subsets I of [max_I g]        (pass@k when g is 0/1)

and the gradient of its expectation is E[ sum_i s_i grad log pi(y_i) ] with

  s_i = (1 / C(n, k)) sum_{I containing i, |I| = k} max_I g.

Everything below comes from one sort. With x_1 <= ... <= x_n and the
probability that the j-th smallest is the largest of a random k-subset,

  w_j = C(j-1, k-1) / C(n, k),   w_n = k/n,   w_{j-1} = w_j (j-k) / (j-1),

one finds s_{j+1} - s_j = w_j (x_{j+1} - x_j) and sum_i s_i = k maxk(g, k), so
that s is a cumulative sum of gaps, and so is every baseline of it. No binomial
coefficient is ever formed, ties and shifts of the scores cost no accuracy, and
equal scores give exactly equal weights.

Conventions. The samples are on the last axis; k is a static int. Weights are
for a SUM over the group: `sum_i w_i grad log pi(y_i)` is the estimator. A group
with fewer than k valid samples has no k-subset: its value and its weights are
0. Invalid slots have weight 0.

Sources: Walder & Karkhanis, Pass@K Policy Optimization (s and its
leave-one-out forms); Chen et al. 2021 (unbiased pass@k); Chen et al. 2025,
Pass@k Training (normalised by the spread over subsets); The Best of N Worlds
(off-policy max@k).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp

from rl import choices, masked

Array = jax.Array
BASELINES = ("none", "leave_one_out", "leave_one_out_minus_one", "centered")
FORMS = ("analytic", "bootstrap", "full")
ORDERS = ("exact", "first", "zeroth")


class _Sorted(NamedTuple):
  """A group in ascending order of score; invalid slots come last, as x_n.

  Attributes:
    order: `[..., S]` slot of the j-th smallest score.
    x: `[..., S]` scores in that order.
    n: `[..., 1]` number of valid samples.
    weights: `[..., S]` w_j, 0 beyond n and where n < k.
  """

  order: Array
  x: Array
  n: Array
  weights: Array


def _check_k(k: int, size: int) -> None:
  if not isinstance(k, int) or isinstance(k, bool):
    raise TypeError(f"k must be a static int, got {k!r}")
  if not 1 <= k <= size:
    raise ValueError(
      f"k = {k} must be from 1 to the {size} samples of a group; nearest: "
      f"{min(max(k, 1), size)}"
    )


def _check_choice(what: str, value: str, allowed: tuple[str, ...]) -> None:
  if value not in allowed:
    raise ValueError(choices.unknown(what, value, allowed))


def _sort(scores: Array, k: int, valid: Array | None) -> _Sorted:
  size = scores.shape[-1]
  _check_k(k, size)
  valid = masked.all_valid(scores, valid)
  n = masked.count(valid, keepdims=True)
  order = jnp.argsort(jnp.where(valid, scores, jnp.inf), axis=-1, stable=True)
  j = jnp.arange(1, size + 1, dtype=jnp.float32)
  real = j <= n
  x = jnp.where(real, jnp.take_along_axis(scores, order, -1), -jnp.inf)
  x = jnp.where(real, x, jnp.max(x, -1, keepdims=True))
  x = jnp.where(n > 0, x, 0.0)
  ratio = jnp.where(
    real, jnp.maximum(j - k, 0.0) / jnp.maximum(j - 1, 1.0), 1.0
  )
  below = jnp.concatenate([ratio[..., 1:], jnp.ones_like(ratio[..., :1])], -1)
  tail = jax.lax.cumprod(below, axis=below.ndim - 1, reverse=True)
  weights = k / jnp.maximum(n, 1.0) * tail
  return _Sorted(order, x, n, jnp.where(real & (n >= k), weights, 0.0))


def _unsort(group: _Sorted, values: Array) -> Array:
  """Values in ascending order of score -> their slots; invalid slots get 0."""
  j = jnp.arange(1, values.shape[-1] + 1)
  values = jnp.where((j <= group.n), values, 0.0)
  return jnp.put_along_axis(
    jnp.zeros_like(values), group.order, values, axis=-1, inplace=False
  )


def _value(group: _Sorted) -> Array:
  return jnp.sum(group.weights * group.x, -1, keepdims=True)


def _deviations(group: _Sorted) -> Array:
  """`s_j - mean s` in sorted order, from the gaps: 0 exactly where x is flat."""
  gaps = jnp.diff(group.x, axis=-1)
  steps = jnp.cumsum(group.weights[..., :-1] * gaps, -1)
  steps = jnp.concatenate([jnp.zeros_like(group.x[..., :1]), steps], -1)
  real = jnp.arange(1, steps.shape[-1] + 1) <= group.n
  return steps - masked.mean(steps, real, keepdims=True)


def max_at_k_value(scores: Array, k: int, valid: Array | None = None) -> Array:
  """Unbiased estimate of the expected maximum of k samples.

  maxk = sum_j w_j x_j over the sorted scores.

  Args:
    scores: `[..., S]` any real score.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, real samples; None keeps all.

  Returns:
    `[...]`; 0 where fewer than k samples are valid.

  Raises:
    ValueError: k is not in 1..S.
  """
  group = _sort(scores.astype(jnp.float32), k, valid)
  return _value(group)[..., 0]


def max_at_k_weights(
  scores: Array, k: int, valid: Array | None = None, baseline: str = "none"
) -> Array:
  """Weights whose score-function sum estimates grad E[max of k].

  `sum_i w_i grad log pi(y_i)`, unbiased for every baseline:

    none                     s_i
    leave_one_out            s_i - k/(n-1) maxk(g without i, k), the mean of s
                             over the group without i; where n = k no such
                             subset exists and the baseline is 0. Equal scores
                             c leave -k c / (n (n-1)), not 0
    leave_one_out_minus_one  s_i - k/n maxk(g without i, k-1)
                             = mean over I containing i of (max_I - max_{I-i})
                             times k/n, >= 0 for k >= 2; the least variance
    centered                 (s_i - mean s) / (1 - k/n): subtracting the mean
                             of s scales the expected gradient by 1 - k/n, the
                             division restores it. 0 at k = n, where s is flat

  At k = 1 "none" and "leave_one_out_minus_one" are g_i / n, and "centered" is
  RLOO's advantage over n.

  Where a group prefers no sample. s is flat where x_k = ... = x_n: at k = n
  always; with 0/1 scores, c of them right, at c = 0 and where n - c < k. For
  c > 0 and k > 1:

                       none  leave_one_out     ..._minus_one           centered
    n - c = k-1, k < n  k/n   -k / (n (n-1))    k/n / C(n-1, k-1) if    0
                                                right, 0 if wrong
    k = n, c = 1        1     1                 1 if right, 0 if wrong  0
    n - c < k-1, k < n  k/n   -k / (n (n-1))    0                       0
    k = n, c > 1        1     1                 0                       0

  At c = 0 all are 0. "none" and "leave_one_out" go on weighing all samples of a
  flat group alike, which prefers none of them and adds variance; "centered" is
  0 there. "leave_one_out_minus_one" is the last to stop: it is 0 only where
  x_{k-1} = ... = x_n, so wherever it is 0 the other three are flat. (That is
  why `rl.methods.max_at_k` has it for default.) At k = n it is the gap to the
  runner-up, for the single best sample, while "centered" has stopped for good.

  Args:
    scores: `[..., S]` any real score.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, real samples; None keeps all.
    baseline: one of `BASELINES`.

  Returns:
    `[..., S]`; 0 in invalid slots and where fewer than k samples are valid.

  Raises:
    ValueError: k is not in 1..S, or an unknown baseline.
  """
  _check_choice("baseline", baseline, BASELINES)
  group = _sort(scores.astype(jnp.float32), k, valid)
  n = jnp.maximum(group.n, 1.0)
  if baseline == "leave_one_out_minus_one":
    below = jnp.concatenate(
      [jnp.zeros_like(group.x[..., :1]), group.x[..., :-1]], -1
    )
    weights = jnp.cumsum(group.weights * (group.x - below), -1)
  else:
    deviation = _deviations(group)
    mean = k / n * _value(group)
    if baseline == "none":
      weights = mean + deviation
    elif baseline == "centered":
      weights = jnp.where(n > k, deviation / jnp.maximum(1 - k / n, 1e-9), 0.0)
    else:
      # s_i - k/(n-1) n/(n-k) (maxk - s_i), since the subsets without i hold
      # what the subsets with i do not.
      others = jnp.maximum(n - 1, 1.0)
      scale = 1 + k * n / (others * jnp.maximum(n - k, 1.0))
      weights = jnp.where(
        n > k, deviation * scale - mean / others, mean + deviation
      )
  return _unsort(group, jnp.where(group.n >= k, weights, 0.0))


def max_at_k_off_policy_value(
  scores: Array, log_ratios: Array, k: int, valid: Array | None = None
) -> Array:
  """Importance-weighted max@k of samples drawn from another policy.

  J = sum_j x_j rho_j E_{k-1}(rho_1..rho_{j-1}) / C(n, k), sorted ascending,
  with rho = exp(log_ratios) and E the elementary symmetric polynomials. They
  are carried as *means* over subsets, p_i(m) = E_i / C(m, i), by the convex

    p_i(m) = (1 - i/m) p_i(m-1) + (i/m) rho_m p_{i-1}(m-1),

  so nothing overflows that the ratios themselves do not. O(n k) time.
  The gradient in `log_ratios` is the exact weights (see
  `max_at_k_off_policy_weights`); at rho = 1 the value is `max_at_k_value`.

  Args:
    scores: `[..., S]` any real score; not differentiated.
    log_ratios: `[..., S]` log pi(y_i) - log mu(y_i) of whole samples.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, real samples; None keeps all.

  Returns:
    `[...]`; 0, with zero gradient, where fewer than k samples are valid.

  Raises:
    ValueError: k is not in 1..S.
  """
  group, ratios, means = _sort_ratios(scores, log_ratios, k, valid)
  return jnp.sum(group.weights * group.x * ratios * means, -1)


def _sort_ratios(
  scores: Array, log_ratios: Array, k: int, valid: Array | None
) -> tuple[_Sorted, Array, Array]:
  """The group, its ratios in order of score, and p_{k-1} of those before each.

  All `[..., S]`; p as in `max_at_k_off_policy_value`.
  """
  valid = masked.all_valid(scores, valid)
  group = _sort(jax.lax.stop_gradient(scores.astype(jnp.float32)), k, valid)
  ratios = jnp.where(valid, jnp.exp(jnp.where(valid, log_ratios, 0.0)), 0.0)
  ratios = jnp.take_along_axis(ratios, group.order, -1)
  i = jnp.arange(k, dtype=jnp.float32)

  def add_sample(means, sample):
    m, ratio = sample
    share = jnp.minimum(i / m, 1.0)
    smaller = jnp.concatenate(
      [jnp.zeros_like(means[..., :1]), means[..., :-1]], -1
    )
    grown = (1 - share) * means + share * ratio[..., None] * smaller
    return grown, means[..., k - 1]

  start = jnp.zeros((*scores.shape[:-1], k)).at[..., 0].set(1.0)
  m = jnp.arange(1, scores.shape[-1] + 1, dtype=jnp.float32)
  _, means = jax.lax.scan(add_sample, start, (m, jnp.moveaxis(ratios, -1, 0)))
  return group, ratios, jnp.moveaxis(means, 0, -1)


def max_at_k_off_policy_weights(
  scores: Array,
  log_ratios: Array,
  k: int,
  valid: Array | None = None,
  order: str = "exact",
) -> Array:
  """Weights of grad log pi(y_i) for samples drawn from another policy.

  exact: d J / d log rho_i = (1/C(n,k)) sum_{I containing i} prod_I rho max_I.
  first: its first-order expansion in rho - 1, as in The Best of N Worlds; its
  bias is of second order in rho - 1.
  zeroth: its value at rho = 1, the on-policy weights, uncorrected: biased to
  first order in rho - 1.

  Args:
    scores: `[..., S]` any real score.
    log_ratios: `[..., S]` log pi(y_i) - log mu(y_i) of whole samples.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, real samples; None keeps all.
    order: one of `ORDERS`.

  Returns:
    `[..., S]`; 0 in invalid slots and where fewer than k samples are valid.

  Raises:
    ValueError: k is not in 1..S, or an unknown order.
  """
  _check_choice("order", order, ORDERS)
  weights = jax.grad(
    lambda r: max_at_k_off_policy_value(scores, r, k, valid).sum()
  )
  if order == "exact":
    return weights(log_ratios)
  return _expand(weights, log_ratios, order)


def _expand(exact: Callable, log_ratios: Array, order: str) -> Array:
  """`exact` at rho = 1, and to first order in rho - 1."""
  on_policy = jnp.zeros_like(log_ratios)
  if order == "zeroth":
    return exact(on_policy)
  # d log rho = d rho at rho = 1.
  primal, tangent = jax.jvp(exact, (on_policy,), (jnp.expm1(log_ratios),))
  return primal + tangent


def max_at_k_off_policy_advantages(
  scores: Array,
  log_ratios: Array,
  k: int,
  valid: Array | None = None,
  order: str = "exact",
) -> Array:
  """The off-policy weights less their leave-one-out-minus-one baseline.

  (rho_i / C(n,k)) sum_{I containing i} prod_{I-i} rho (max_I - max_{I-i}): the
  baseline does not know y_i, so `sum_i A_i grad log pi(y_i)` keeps the exact
  weights' expectation, with far less variance. Since elementary symmetric
  polynomials add up, sum_{j<=m} rho_j E_{k-2}(rho_1..rho_{j-1}) =
  E_{k-1}(rho_1..rho_m), it is one cumulative sum over the sorted scores,

    A_i = rho_i sum_{j <= i} w_j (x_j - x_{j-1}) p_{k-1}(rho_1..rho_{j-1}),

  with w of this file, p of `max_at_k_off_policy_value` and x_0 = 0. At rho = 1
  it is `max_at_k_weights(..., baseline="leave_one_out_minus_one")`. A_i >= 0
  for k >= 2; at k = 1 there is no baseline and A_i = rho_i g_i / n.

  Args, Returns, Raises, orders: as of `max_at_k_off_policy_weights`.

  Source: ours; the baseline is that of Walder & Karkhanis, Pass@K Policy
  Optimization, the ratios those of The Best of N Worlds.
  """
  _check_choice("order", order, ORDERS)

  def exact(log_ratios):
    group, ratios, means = _sort_ratios(scores, log_ratios, k, valid)
    below = jnp.concatenate(
      [jnp.zeros_like(group.x[..., :1]), group.x[..., :-1]], -1
    )
    gained = jnp.cumsum(group.weights * (group.x - below) * means, -1)
    return _unsort(group, ratios * gained)

  if order == "exact":
    return exact(log_ratios)
  return _expand(exact, log_ratios, order)


def pass_at_k_value(
  correct: Array, k: int, valid: Array | None = None
) -> Array:
  """Unbiased pass@k, 1 - C(n-c, k) / C(n, k) with c right of n samples.

  Args:
    correct: `[..., S]` bool or 0/1. Mark unknown verdicts invalid.
    k: number of tries, 1..S.
    valid: `[..., S]` bool, real samples; None keeps all.

  Returns:
    `[...]`; 0 where fewer than k samples are valid.

  Raises:
    ValueError: k is not in 1..S.
  """
  return max_at_k_value((correct > 0).astype(jnp.float32), k, valid)


def pass_at_k_advantages(
  scores: Array,
  k: int,
  valid: Array | None = None,
  form: str = "analytic",
  key: Array | None = None,
) -> Array:
  """Advantages of Pass@k Training: z-scored maxima of k-subsets.

  analytic   A_i = (n s_i / k - maxk) / sd, the mean over the k-subsets that
             hold i of their z-score; sd^2 = sum_j w_j (x_j - maxk)^2. Holds
             for any real score; for 0/1 scores it is the paper's closed form.
             k = 1 is the group z-score (ddof 0).
  bootstrap  n random k-subsets with distinct members; A_i = sum of the
             z-scores (over the drawn subsets) of those that hold i.
  full       floor(n/k) disjoint subsets in sampling order, z-scored; samples
             left over get 0.

  All three are 0 where every k-subset has the same maximum (x_k = ... = x_n,
  see `max_at_k_weights`): at c = 0, at saturation n - c < k, and at k = n
  always. "analytic" is 0 only there. "full" is also 0 for every k > n/2, which
  leaves a single subset, and wherever its subsets agree; so is "bootstrap".

  Args:
    scores: `[..., S]` any real score.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, real samples; None keeps all.
    form: one of `FORMS`.
    key: PRNG key, for "bootstrap" only.

  Returns:
    `[..., S]`, mean 0 over the group for "analytic". 0 where all subsets have
    the same maximum, where fewer than k samples are valid, in invalid slots.

  Raises:
    ValueError: k is not in 1..S, an unknown form, or "bootstrap" without key.
  """
  _check_choice("form", form, FORMS)
  scores = scores.astype(jnp.float32)
  if form == "analytic":
    group = _sort(scores, k, valid)
    # Relative to x_n: subsets that contain the maximum add exactly 0.
    below = group.x - jnp.max(group.x, -1, keepdims=True)
    center = jnp.sum(group.weights * below, -1, keepdims=True)
    variance = jnp.sum(group.weights * (below - center) ** 2, -1, keepdims=True)
    gain = jnp.maximum(group.n, 1.0) / k * _deviations(group)
    varied = variance > 0
    spread = jnp.sqrt(jnp.where(varied, variance, 1.0))
    return _unsort(group, jnp.where(varied, gain / spread, 0.0))
  _check_k(k, scores.shape[-1])
  valid = masked.all_valid(scores, valid)
  if form == "bootstrap":
    if key is None:
      raise ValueError("form 'bootstrap' draws subsets: it needs a key")
    order = _random_subsets(key, valid)[..., :k]
    drawn = valid
  else:
    order, drawn = _disjoint_subsets(valid, k)
  return _subset_advantages(scores, valid, order, drawn, k)


def _random_subsets(key: Array, valid: Array) -> Array:
  """`[..., G = S, S]` random orders of the slots, valid ones first."""
  size = valid.shape[-1]
  noise = jax.random.uniform(key, (*valid.shape[:-1], size, size))
  return jnp.argsort(jnp.where(valid[..., None, :], noise, 2.0), axis=-1)


def _disjoint_subsets(valid: Array, k: int) -> tuple[Array, Array]:
  """`[..., S // k, k]` slots in sampling order, and which subsets are whole."""
  order = jnp.argsort(~valid, axis=-1, stable=True)
  subsets = valid.shape[-1] // k
  order = order[..., : subsets * k].reshape(*valid.shape[:-1], subsets, k)
  n = masked.count(valid, keepdims=True)
  return order, (jnp.arange(subsets) + 1) * k <= n


def _subset_advantages(
  scores: Array, valid: Array, order: Array, drawn: Array, k: int
) -> Array:
  """Sum over drawn subsets `order [..., G, k]` of their z-scored maxima."""
  slots = order.reshape(*order.shape[:-2], -1)
  best = jnp.take_along_axis(scores, slots, -1).reshape(order.shape).max(-1)
  drawn = drawn & (masked.count(valid, keepdims=True) >= k)
  centered = best - masked.mean(best, drawn, keepdims=True)
  spread = masked.std(best, drawn, keepdims=True)
  safe = jnp.where(spread > 0, spread, 1.0)
  z = jnp.where(drawn & (spread > 0), centered / safe, 0.0)
  # Members are set and not added up: in the same order on every device.
  member = jnp.put_along_axis(
    jnp.zeros((*order.shape[:-1], scores.shape[-1])),
    order,
    1.0,
    axis=-1,
    inplace=False,
  )
  total = jnp.einsum("...g,...gs->...s", z, member, precision="highest")
  return jnp.where(valid, total, 0.0)
