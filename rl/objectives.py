"""Set objectives: the expected best of k samples, and its estimators.

A group of n samples with scores g_1..g_n estimates, without bias,

  maxk(g, k) = E over k-subsets I of [max_I g]        (pass@k when g is 0/1)

and the gradient of its expectation is E[ sum_i s_i grad log pi(y_i) ] with

  s_i = (1 / C(n, k)) sum_{I containing i, |I| = k} max_I g.

Everything below comes from one sort. With x_1 <= ... <= x_n and the
probability that the j-th smallest is the largest of a random k-subset,

  w_j = C(j-1, k-1) / C(n, k),   w_n = k/n,   w_{j-1} = w_j (j-k) / (j-1),

it follows that s_{j+1} - s_j = w_j (x_{j+1} - x_j) and sum_i s_i = k maxk(g,
k). Hence s is a cumulative sum of gaps between scores, and so is s minus any of
the baselines. No binomial coefficient is computed, ties and shifts of the
scores cost no accuracy, and equal scores give exactly equal weights.

Conventions. The samples of a group are on the last axis; k is a static int.
Weights are for a SUM over the group: `sum_i w_i grad log pi(y_i)` is the
estimator. A sample is *valid* if it exists; the weight of any other sample is
0. A group with fewer than k valid samples has no k-subset: its value and its
weights are 0.

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

from rl import masked, registry

Array = jax.Array
BASELINES = ("none", "leave_one_out", "leave_one_out_minus_one", "centered")
FORMS = ("analytic", "bootstrap", "full")
ORDERS = ("exact", "first", "zeroth")


class _Sorted(NamedTuple):
  """A group in ascending order of score; samples that are not valid come last.

  Attributes:
    order: `[..., S]`, index of the sample with the j-th smallest score.
    x: `[..., S]`, scores in that order; x_n at samples that are not valid.
    n: `[..., 1]`, number of valid samples.
    weights: `[..., S]`, w_j; 0 for j > n, and if n < k.
  """

  order: Array
  x: Array
  n: Array
  weights: Array


def _check_k(k: int, size: int) -> None:
  if not isinstance(k, int) or isinstance(k, bool):
    raise TypeError(f"k = {k!r} must be a static int")
  if not 1 <= k <= size:
    raise ValueError(
      f"k = {k} must be from 1 to the {size} samples of a group; nearest: "
      f"{min(max(k, 1), size)}"
    )


def _check_choice(kind: str, value: str, allowed: tuple[str, ...]) -> None:
  if value not in allowed:
    raise ValueError(registry.describe_unknown(kind, value, allowed))


def _sort(scores: Array, k: int, valid: Array | None) -> _Sorted:
  size = scores.shape[-1]
  _check_k(k, size)
  valid = masked.mask_or_ones(scores, valid)
  n = masked.count(valid, keepdims=True)
  order = jnp.argsort(jnp.where(valid, scores, jnp.inf), axis=-1, stable=True)
  j = jnp.arange(1, size + 1, dtype=jnp.float32)
  exists = j <= n
  x = jnp.where(exists, jnp.take_along_axis(scores, order, -1), -jnp.inf)
  x = jnp.where(exists, x, jnp.max(x, -1, keepdims=True))
  x = jnp.where(n > 0, x, 0.0)
  # w_{j-1} / w_j; the products of these ratios from the top down are w_j / w_n.
  ratio = jnp.where(
    exists, jnp.maximum(j - k, 0.0) / jnp.maximum(j - 1, 1.0), 1.0
  )
  below = jnp.concatenate([ratio[..., 1:], jnp.ones_like(ratio[..., :1])], -1)
  tail = jax.lax.cumprod(below, axis=below.ndim - 1, reverse=True)
  weights = k / jnp.maximum(n, 1.0) * tail
  return _Sorted(order, x, n, jnp.where(exists & (n >= k), weights, 0.0))


def _unsort(group: _Sorted, values: Array) -> Array:
  """Brings values in ascending order of score back to the order of the samples.

  Samples that are not valid get 0.
  """
  j = jnp.arange(1, values.shape[-1] + 1)
  values = jnp.where((j <= group.n), values, 0.0)
  return jnp.put_along_axis(
    jnp.zeros_like(values), group.order, values, axis=-1, inplace=False
  )


def _value(group: _Sorted) -> Array:
  return jnp.sum(group.weights * group.x, -1, keepdims=True)


def _deviations(group: _Sorted) -> Array:
  """`s_j - mean s` in sorted order.

  It is a sum of gaps between scores, and exactly 0 if all scores are equal.
  """
  gaps = jnp.diff(group.x, axis=-1)
  rises = jnp.cumsum(group.weights[..., :-1] * gaps, -1)  # s_j - s_1, j >= 2
  rises = jnp.concatenate([jnp.zeros_like(group.x[..., :1]), rises], -1)
  exists = jnp.arange(1, rises.shape[-1] + 1) <= group.n
  return rises - masked.mean(rises, exists, keepdims=True)


def max_at_k_value(scores: Array, k: int, valid: Array | None = None) -> Array:
  """Unbiased estimate of the expected maximum of k samples.

  maxk = sum_j w_j x_j over the sorted scores.

  Args:
    scores: `[..., S]`, real numbers.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[...]`; 0 if fewer than k samples are valid.

  Raises:
    ValueError: if k is not in 1..S.
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
                             over the group without i; for n = k no such subset
                             exists, and the baseline is 0. For equal scores c
                             the weight is -k c / (n (n-1)), not 0
    leave_one_out_minus_one  s_i - k/n maxk(g without i, k-1)
                             = mean over I containing i of (max_I - max_{I-i})
                             times k/n, >= 0 for k >= 2; the least variance
    centered                 (s_i - mean s) / (1 - k/n): subtracting the mean of
                             s scales the expected gradient by 1 - k/n, and the
                             division restores it. 0 for k = n, where s is flat

  At k = 1 "none" and "leave_one_out_minus_one" are g_i / n, and "centered" is
  RLOO's advantage over n.

  When a group prefers no sample: s is flat (all s_i are equal) if
  x_k = ... = x_n. This is always so for k = n. With scores of 0 and 1, of which
  c are 1, it is so for c = 0 and for n - c < k. For c > 0 and k > 1:

                       none  leave_one_out     ..._minus_one           centered
    n - c = k-1, k < n  k/n   -k / (n (n-1))    k/n / C(n-1, k-1) if    0
                                                right, 0 if wrong
    k = n, c = 1        1     1                 1 if right, 0 if wrong  0
    n - c < k-1, k < n  k/n   -k / (n (n-1))    0                       0
    k = n, c > 1        1     1                 0                       0

  For c = 0 all weights are 0. In a flat group, "none" and "leave_one_out" give
  all samples the same weight, which prefers none of them and adds variance;
  "centered" gives 0. "leave_one_out_minus_one" is 0 only if x_{k-1} = ... =
  x_n, and whenever it is 0 the other three are flat. Therefore it is the
  default of `rl.methods.sets.max_at_k`. For k = n it is the gap to the second
  best score for the single best sample, while "centered" is always 0.

  Args:
    scores: `[..., S]`, real numbers.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.
    baseline: one of `BASELINES`.

  Returns:
    `[..., S]`; 0 for samples that are not valid, and if fewer than k are valid.

  Raises:
    ValueError: if k is not in 1..S, or the baseline is unknown.
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
      # s_i - k/(n-1) n/(n-k) (maxk - s_i), because every k-subset either
      # contains i or does not: the two parts add up to maxk.
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
  with rho = exp(log_ratios) and E the elementary symmetric polynomials. These
  are computed as *means* over subsets, p_i(m) = E_i / C(m, i), by the convex
  combination

    p_i(m) = (1 - i/m) p_i(m-1) + (i/m) rho_m p_{i-1}(m-1),

  which overflows only if the ratios do. It takes O(n k) time. The gradient with
  respect to `log_ratios` are the exact weights (see
  `max_at_k_off_policy_weights`). For rho = 1 the value is `max_at_k_value`.

  Args:
    scores: `[..., S]`, real numbers; they are not differentiated.
    log_ratios: `[..., S]`, log pi(y_i) - log mu(y_i) of samples, with mu the
      policy that drew them.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[...]`; 0, with a gradient of 0, if fewer than k samples are valid.

  Raises:
    ValueError: if k is not in 1..S.
  """
  group, ratios, means = _sort_ratios(scores, log_ratios, k, valid)
  return jnp.sum(group.weights * group.x * ratios * means, -1)


def _sort_ratios(
  scores: Array, log_ratios: Array, k: int, valid: Array | None
) -> tuple[_Sorted, Array, Array]:
  """Sorts a group and its ratios by score.

  Returns:
    The group, the ratios in its order `[..., S]`, and p_{k-1}(j - 1) for each
    j, `[..., S]`, with p as in `max_at_k_off_policy_value`.
  """
  valid = masked.mask_or_ones(scores, valid)
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

    exact   d J / d log rho_i = (1/C(n,k)) sum_{I containing i} prod_I rho max_I
    first   its first-order expansion in rho - 1, as in The Best of N Worlds; the
            bias is of second order in rho - 1
    zeroth  its value at rho = 1, which are the on-policy weights; the bias is
    of
            first order in rho - 1

  Args:
    scores: `[..., S]`, real numbers.
    log_ratios: `[..., S]`, log pi(y_i) - log mu(y_i) of samples, with mu the
      policy that drew them.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.
    order: one of `ORDERS`.

  Returns:
    `[..., S]`; 0 for samples that are not valid, and if fewer than k are valid.

  Raises:
    ValueError: if k is not in 1..S, or the order is unknown.
  """
  _check_choice("order", order, ORDERS)
  weights = jax.grad(
    lambda r: max_at_k_off_policy_value(scores, r, k, valid).sum()
  )
  if order == "exact":
    return weights(log_ratios)
  return _expand(weights, log_ratios, order)


def _expand(exact: Callable, log_ratios: Array, order: str) -> Array:
  """Expands `exact` around rho = 1, to order "zeroth" or "first" in rho - 1."""
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

    A_i = (rho_i / C(n,k)) sum_{I containing i} prod_{I-i} rho
          (max_I - max_{I-i})

  The baseline is independent of y_i. Hence `sum_i A_i grad log pi(y_i)` has the
  expectation of the exact weights, with far less variance. Because
  sum_{j<=m} rho_j E_{k-2}(rho_1..rho_{j-1}) = E_{k-1}(rho_1..rho_m) for
  elementary symmetric polynomials E, A is a cumulative sum over the sorted
  scores,

    A_i = rho_i sum_{j <= i} w_j (x_j - x_{j-1}) p_{k-1}(rho_1..rho_{j-1}),

  with w as in this module, p as in `max_at_k_off_policy_value`, and x_0 = 0.
  For rho = 1 it is `max_at_k_weights(..., baseline="leave_one_out_minus_one")`.
  A_i >= 0 for k >= 2. For k = 1 there is no baseline, and A_i = rho_i g_i / n.

  The arguments, the result, the errors and the orders are the same as in
  `max_at_k_off_policy_weights`.

  Source: this project. The baseline is that of Walder & Karkhanis, Pass@K
    Policy
  Optimization; the ratios are those of The Best of N Worlds.
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
  """Unbiased pass@k, 1 - C(n-c, k) / C(n, k), for c right ones of n samples.

  Args:
    correct: `[..., S]`, bool or 0 and 1. A sample with an unknown verdict must
      not be valid.
    k: number of tries, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[...]`; 0 if fewer than k samples are valid.

  Raises:
    ValueError: if k is not in 1..S.
  """
  return max_at_k_value((correct > 0).astype(jnp.float32), k, valid)


def pass_at_k_advantages(
  scores: Array,
  k: int,
  valid: Array | None = None,
  form: str = "analytic",
  key: Array | None = None,
) -> Array:
  """Advantages of Pass@k Training: z-scores of the maxima of k-subsets.

    analytic   A_i = (n s_i / k - maxk) / sd with
               sd^2 = sum_j w_j (x_j - maxk)^2, which is the mean z-score of the
               k-subsets that contain i. It holds for any real scores; for
               scores of 0 and 1 it is the closed form of the paper. For k = 1
               it is the group z-score (ddof 0)
    bootstrap  n random k-subsets with distinct members; A_i is the sum of the
               z-scores, over these subsets, of those that contain i
    full       floor(n/k) disjoint subsets in the order of sampling, z-scored;
               samples in none of them get 0

  All three are 0 if every k-subset has the same maximum (x_k = ... = x_n, see
  `max_at_k_weights`): for c = 0, for n - c < k, and always for k = n.
  "analytic" is 0 only then. "full" is also 0 for k > n/2, which leaves a single
  subset, and if all its subsets have the same maximum. The latter is true of
  "bootstrap" too.

  Args:
    scores: `[..., S]`, real numbers.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.
    form: one of `FORMS`.
    key: PRNG key; read by "bootstrap" only.

  Returns:
    `[..., S]`; with mean 0 over the group for "analytic". 0 if all subsets have
    the same maximum, if fewer than k samples are valid, and for samples that
    are not valid.

  Raises:
    ValueError: if k is not in 1..S, the form is unknown, or "bootstrap" has no
      key.
  """
  _check_choice("form", form, FORMS)
  scores = scores.astype(jnp.float32)
  if form == "analytic":
    group = _sort(scores, k, valid)
    # Scores relative to x_n: subsets that contain the best sample add exactly
    # 0.
    below = group.x - jnp.max(group.x, -1, keepdims=True)
    center = jnp.sum(group.weights * below, -1, keepdims=True)
    variance = jnp.sum(group.weights * (below - center) ** 2, -1, keepdims=True)
    gain = jnp.maximum(group.n, 1.0) / k * _deviations(group)
    varied = variance > 0
    std = jnp.sqrt(jnp.where(varied, variance, 1.0))
    return _unsort(group, jnp.where(varied, gain / std, 0.0))
  _check_k(k, scores.shape[-1])
  valid = masked.mask_or_ones(scores, valid)
  if form == "bootstrap":
    if key is None:
      raise ValueError(
        "form 'bootstrap' draws random subsets and needs a key; pass key="
      )
    members = _random_subsets(key, valid)[..., :k]  # [..., S, k]
    exists = valid  # as many subsets as valid samples
  else:
    members, exists = _disjoint_subsets(valid, k)
  return _subset_advantages(scores, valid, members, exists, k)


def _random_subsets(key: Array, valid: Array) -> Array:
  """S random orders of the samples, the valid ones first, `[..., S, S]`."""
  size = valid.shape[-1]
  noise = jax.random.uniform(key, (*valid.shape[:-1], size, size))
  return jnp.argsort(jnp.where(valid[..., None, :], noise, 2.0), axis=-1)


def _disjoint_subsets(valid: Array, k: int) -> tuple[Array, Array]:
  """S // k subsets of k samples in the order of sampling, `[..., S // k, k]`.

  Also returns which of them have k valid samples, `[..., S // k]`.
  """
  order = jnp.argsort(~valid, axis=-1, stable=True)
  subsets = valid.shape[-1] // k
  order = order[..., : subsets * k].reshape(*valid.shape[:-1], subsets, k)
  n = masked.count(valid, keepdims=True)
  return order, (jnp.arange(subsets) + 1) * k <= n


def _subset_advantages(
  scores: Array, valid: Array, members: Array, exists: Array, k: int
) -> Array:
  """For each sample, the sum of the z-scores of the subsets that contain it.

  Args:
    scores, valid: `[..., S]`.
    members: `[..., G, k]`, indices of the samples of G subsets.
    exists: `[..., G]` bool, subsets that exist.
    k: size of a subset.
  """
  samples = members.reshape(*members.shape[:-2], -1)  # [..., G k]
  best = jnp.take_along_axis(scores, samples, -1).reshape(members.shape).max(-1)
  exists = exists & (masked.count(valid, keepdims=True) >= k)
  centered = best - masked.mean(best, exists, keepdims=True)  # [..., G]
  std = masked.std(best, exists, keepdims=True)
  divisor = jnp.where(std > 0, std, 1.0)
  z = jnp.where(exists & (std > 0), centered / divisor, 0.0)
  # Ones are set at the members, and nothing is added up, so that the result is
  # the same on every device.
  contains = jnp.put_along_axis(  # [..., G, S]
    jnp.zeros((*members.shape[:-1], scores.shape[-1])),
    members,
    1.0,
    axis=-1,
    inplace=False,
  )
  total = jnp.einsum("...g,...gs->...s", z, contains, precision="highest")
  return jnp.where(valid, total, 0.0)
