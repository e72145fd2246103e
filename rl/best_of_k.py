"""Objectives of subsets: the expected best of k samples, and its estimators.

A group is the samples y_1..y_n of one prompt, with scores g_1..g_n. Its mean
over all subsets I of k samples,

  maxk(g, k) = mean over I of max_{i in I} g_i       (pass@k if g is 0 or 1),

is an unbiased estimate of *max@k*, the expected best score of k samples. The
gradient of max@k is E[sum_i s_i grad log pi(y_i)] with

  s_i = (1 / C(n, k)) * sum over I that contain i of max_I g,

where C is the binomial coefficient, and max_I g is short for max_{i in I} g_i.

All functions sort the scores, x_1 <= ... <= x_n; below, s_j belongs to the
sample with score x_j. The probability that x_j is the largest score of a random
k-subset is

  w_j = C(j-1, k-1) / C(n, k),   w_n = k/n,   w_{j-1} = w_j (j-k) / (j-1).

It follows that s_{j+1} - s_j = w_j (x_{j+1} - x_j), and that sum_i s_i =
k * maxk(g, k). Hence s is a cumulative sum of gaps between scores, and so is s
minus any of the baselines. No binomial coefficient is computed, ties and shifts
of the scores cost no accuracy, and equal scores give exactly equal weights.

Conventions. The samples of a group are on the last axis, `[..., S]`; k is a
static int. A sample is *valid* if it exists, and n counts the valid samples;
the weight of any other sample is 0. A group with fewer than k valid samples has
no k-subset: its value and its weights are 0. The weights that the functions
return are for a sum over the group: `sum_i weight_i grad log pi(y_i)` is the
estimator of the gradient.

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

from rl import UsageError, masked, registry

Array = jax.Array
BASELINES = ("none", "leave_one_out", "leave_one_out_minus_one", "centered")
# Forms of `pass_at_k_advantages`, and orders of the off-policy weights.
FORMS = ("analytic", "bootstrap", "full")
ORDERS = ("exact", "first", "zeroth")


class Sorted(NamedTuple):
  """A group in ascending order of score; samples that are not valid come last.

  Attributes:
    order: `[..., S]`, entry j is the index of the sample with the j-th smallest
      score.
    x: `[..., S]`, entry j is the j-th smallest score x_j; x_n for j > n.
    n: `[..., 1]`, number of valid samples.
  """

  order: Array
  x: Array
  n: Array


def _check_k(k: int, samples: int) -> None:
  """Checks that k is an int between 1 and S, the samples of a group."""
  if not isinstance(k, int) or isinstance(k, bool):
    raise TypeError(f"k = {k!r} must be a static int")
  if not 1 <= k <= samples:
    raise UsageError(
      f"k = {k} must be from 1 to the {samples} samples of a group; the "
      f"nearest valid value is {min(max(k, 1), samples)}"
    )


def sort(scores: Array, valid: Array | None) -> Sorted:
  """Sorts the samples of each group, `[..., S]`, by score."""
  scores = scores.astype(jnp.float32)
  valid = masked.mask_or_ones(scores, valid)
  n = masked.count(valid, keepdims=True)
  order = jnp.argsort(jnp.where(valid, scores, jnp.inf), axis=-1, stable=True)
  exists = jnp.arange(1, scores.shape[-1] + 1) <= n
  x = jnp.where(exists, jnp.take_along_axis(scores, order, -1), -jnp.inf)
  x = jnp.where(exists, x, jnp.max(x, -1, keepdims=True))
  return Sorted(order, jnp.where(n > 0, x, 0.0), n)


def _chances(group: Sorted, k: int | Array) -> Array:
  """Computes w_j, `[..., S]`; 0 for j > n, and if n < k."""
  # k is from 1 to S, which callers check; it may be traced.
  n = group.n
  j = jnp.arange(1, group.x.shape[-1] + 1, dtype=jnp.float32)
  exists = j <= n
  # w_{j-1} / w_j; 1 for j > n. The product of the ratios j+1..n is w_j / w_n.
  ratio = jnp.where(
    exists, jnp.maximum(j - k, 0.0) / jnp.maximum(j - 1, 1.0), 1.0
  )
  ratio_of_next = jnp.concatenate(
    [ratio[..., 1:], jnp.ones_like(ratio[..., :1])], -1
  )
  relative_weights = jax.lax.cumprod(
    ratio_of_next, axis=ratio_of_next.ndim - 1, reverse=True
  )
  weights = k / jnp.maximum(n, 1.0) * relative_weights
  return jnp.where(exists & (n >= k), weights, 0.0)


def unsort(group: Sorted, values: Array) -> Array:
  """Brings values in ascending order of score back to the samples' order."""
  j = jnp.arange(1, values.shape[-1] + 1)
  # Samples that are not valid get 0.
  values = jnp.where((j <= group.n), values, 0.0)
  return jnp.put_along_axis(
    jnp.zeros_like(values), group.order, values, axis=-1, inplace=False
  )


def _value(group: Sorted, chances: Array) -> Array:
  """Computes maxk, `[..., 1]`."""
  return jnp.sum(chances * group.x, -1, keepdims=True)


def deviations(group: Sorted, weights: Array) -> Array:
  """Computes s_j minus the mean of s over the group, in sorted order.

  Args:
    group: the group.
    weights: `[..., S]`, w_j in s_{j+1} - s_j = w_j (x_{j+1} - x_j).
  """
  # A sum of gaps between scores is exactly 0 if all scores are equal.
  gaps = jnp.diff(group.x, axis=-1)
  relative = jnp.cumsum(weights[..., :-1] * gaps, -1)  # s_j - s_1, j >= 2
  relative = jnp.concatenate([jnp.zeros_like(group.x[..., :1]), relative], -1)
  exists = jnp.arange(1, relative.shape[-1] + 1) <= group.n
  return relative - masked.mean(relative, exists, keepdims=True)


def max_at_k_value(scores: Array, k: int, valid: Array | None = None) -> Array:
  """Computes maxk = sum_j w_j x_j, the unbiased estimate of max@k.

  Args:
    scores: `[..., S]`, real numbers.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[...]`; 0 if fewer than k samples are valid.

  Raises:
    UsageError: if k is not in 1..S.
  """
  _check_k(k, scores.shape[-1])
  group = sort(scores, valid)
  return _value(group, _chances(group, k))[..., 0]


def max_at_k_values(scores: Array, valid: Array | None = None) -> Array:
  """Computes `max_at_k_value` for every k from 1 to S.

  Args:
    scores: `[..., S]`, real numbers.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[..., S]`; entry k - 1 is 0 if fewer than k samples are valid.
  """
  group = sort(scores, valid)
  ks = jnp.arange(1, scores.shape[-1] + 1)
  values = jax.lax.map(lambda k: _value(group, _chances(group, k))[..., 0], ks)
  return jnp.moveaxis(values, 0, -1)


def max_at_k_weights(
  scores: Array, k: int, valid: Array | None = None, baseline: str = "none"
) -> Array:
  """Computes weights of the samples that estimate the gradient of max@k.

  `sum_i weight_i grad log pi(y_i)` is unbiased for every baseline, except for
  "centered" with k = n. The weight of sample i is:

    none                     s_i
    leave_one_out            s_i - k/(n-1) * maxk(g without i, k). The baseline
                             is the mean of s that the group would have without
                             i. For n = k, the group without i has no k-subset,
                             and the baseline is 0. If all scores are equal to
                             g, the weight is -k g / (n (n-1)), not 0
    leave_one_out_minus_one  s_i - k/n * maxk(g without i, k-1), which is k/n
                             times the mean over I containing i of max_I g minus
                             the maximum over the other samples of I; >= 0 for
                             k >= 2
    centered                 (s_i - mean s) / (1 - k/n). Subtracting the mean of
                             s scales the expected gradient by 1 - k/n, and the
                             division restores it. For k = n the weight is 0

  For k = 1, "none" and "leave_one_out_minus_one" are g_i / n, and "centered" is
  `rl.advantages.leave_one_out` divided by n.

  s is *flat* (all s_i are equal) if x_k = ... = x_n, and always if k = n. If c
  scores are 1 and n - c are 0, s is flat for c = 0 and for n - c < k. For c = 0
  all weights are 0. For c > 0 and k > 1, the weights in a flat group are:

                       none  leave_one_out     ..._minus_one           centered
    n - c = k-1, k < n  k/n   -k / (n (n-1))    k/n / C(n-1, k-1) if    0
                                                right, 0 if wrong
    k = n, c = 1        1     1                 1 if right, 0 if wrong  0
    n - c < k-1, k < n  k/n   -k / (n (n-1))    0                       0
    k = n, c > 1        1     1                 0                       0

  The equal weights of "none" and "leave_one_out" prefer no sample and add
  variance. "leave_one_out_minus_one" is 0 only if x_{k-1} = ... = x_n, and
  whenever it is 0, the weights of each other baseline are equal. Therefore it
  is the default of `rl.methods.sets.max_at_k`. For k = n, its weight of the
  best sample is the gap to the second best score, and that of any other sample
  is 0.

  Args:
    scores: `[..., S]`, real numbers.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.
    baseline: one of `BASELINES`.

  Returns:
    `[..., S]`; 0 for samples that are not valid, and if fewer than k are valid.

  Raises:
    UsageError: if k is not in 1..S, or the baseline is unknown.
  """
  registry.check_known("baseline", baseline, BASELINES)
  _check_k(k, scores.shape[-1])
  group = sort(scores, valid)
  chances = _chances(group, k)
  n = jnp.maximum(group.n, 1.0)
  if baseline == "leave_one_out_minus_one":
    weights = jnp.cumsum(chances * (group.x - _previous(group.x)), -1)
  else:
    deviation = deviations(group, chances)
    mean = k / n * _value(group, chances)  # mean of s
    if baseline == "none":
      weights = mean + deviation
    elif baseline == "centered":
      # For n <= k the deviation is 0, and 1e-9 only keeps the quotient finite.
      weights = deviation / jnp.maximum(1 - k / n, 1e-9)
    else:
      # maxk(g without i, k) = n/(n-k) (maxk - s_i), because s_i is the part of
      # maxk from the k-subsets that contain i.
      others = jnp.maximum(n - 1, 1.0)
      scale = 1 + k * n / (others * jnp.maximum(n - k, 1.0))
      weights = jnp.where(
        n > k, deviation * scale - mean / others, mean + deviation
      )
  return unsort(group, weights)


def _previous(x: Array) -> Array:
  """Shifts sorted scores by one, x_{j-1}, with x_0 = 0."""
  return jnp.concatenate([jnp.zeros_like(x[..., :1]), x[..., :-1]], -1)


def max_at_k_off_policy_value(
  scores: Array, log_ratios: Array, k: int, valid: Array | None = None
) -> Array:
  """Estimates max@k of the policy pi from samples of another policy mu.

    J = sum_j x_j rho_j e_{k-1}(rho_1..rho_{j-1}) / C(n, k)

  rho_j = pi(y_j) / mu(y_j) is the ratio of the sample with score x_j, and e_i
  is the elementary symmetric polynomial of degree i. Let p_i(m) be the mean of
  prod_{j in I} rho_j over the subsets I of i of the first m samples, which is
  e_i(rho_1..rho_m) / C(m, i). It is computed by the convex combination

    p_i(m) = (1 - i/m) p_i(m-1) + (i/m) rho_m p_{i-1}(m-1),

  which overflows only if the ratios do. This takes O(n k) time. The gradient of
  J with respect to `log_ratios` is `max_at_k_off_policy_weights` (exact). If
  all rho are 1, the value is `max_at_k_value`.

  Args:
    scores: `[..., S]`, real numbers; they are not differentiated.
    log_ratios: `[..., S]`, log pi(y_i) - log mu(y_i) of each sample.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[...]`; 0, with a gradient of 0, if fewer than k samples are valid.

  Raises:
    UsageError: if k is not in 1..S.
  """
  group, chances, ratios, means = _sort_ratios(scores, log_ratios, k, valid)
  return jnp.sum(chances * group.x * ratios * means, -1)


def _sort_ratios(
  scores: Array, log_ratios: Array, k: int, valid: Array | None
) -> tuple[Sorted, Array, Array, Array]:
  """Sorts a group and its ratios; computes the w_j and p_{k-1}(j - 1)."""
  _check_k(k, scores.shape[-1])
  valid = masked.mask_or_ones(scores, valid)
  group = sort(jax.lax.stop_gradient(scores), valid)
  ratios = jnp.exp(jnp.where(valid, log_ratios, 0.0))
  ratios = jnp.take_along_axis(ratios, group.order, -1)
  i = jnp.arange(k, dtype=jnp.float32)

  def add_sample(means, sample):
    # means: p_i(m - 1) for i = 0..k-1, [..., k].
    m, ratio = sample
    share = i / m  # for i > m it multiplies zeros
    added = share * ratio[..., None] * _previous(means)
    return (1 - share) * means + added, means[..., k - 1]

  start = jnp.zeros((*scores.shape[:-1], k)).at[..., 0].set(1.0)
  m = jnp.arange(1, scores.shape[-1] + 1, dtype=jnp.float32)
  _, means = jax.lax.scan(add_sample, start, (m, jnp.moveaxis(ratios, -1, 0)))
  # The last entry is p_{k-1}(j - 1) of `max_at_k_off_policy_value` for j from 1
  # to S, `[..., S]`.
  return group, _chances(group, k), ratios, jnp.moveaxis(means, 0, -1)


def max_at_k_off_policy_weights(
  scores: Array,
  log_ratios: Array,
  k: int,
  valid: Array | None = None,
  order: str = "exact",
) -> Array:
  """Computes weights that estimate the gradient of max@k from other samples.

  The samples are from a policy mu, and the gradient is that of the policy pi;
  J and rho are defined in `max_at_k_off_policy_value`.

    exact   d J / d log rho_i, which is (1 / C(n, k)) times the sum over I
            containing i of (prod_{j in I} rho_j) * max_I g
    first   the expansion of "exact" to first order in rho - 1, as in The Best
            of N Worlds; the bias is of second order in rho - 1
    zeroth  the value of "exact" at rho = 1, which are the on-policy weights
            s_i; the bias is of first order in rho - 1

  Args:
    scores: `[..., S]`, real numbers.
    log_ratios: `[..., S]`, log pi(y_i) - log mu(y_i) of each sample.
    k: size of the subset, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.
    order: one of `ORDERS`.

  Returns:
    `[..., S]`; 0 for samples that are not valid, and if fewer than k are valid.

  Raises:
    UsageError: if k is not in 1..S, or the order is unknown.
  """
  weights = jax.grad(
    lambda r: max_at_k_off_policy_value(scores, r, k, valid).sum()
  )
  return _expand(weights, log_ratios, order)


def _expand(exact: Callable, log_ratios: Array, order: str) -> Array:
  """Expands a function of the log-ratios around rho = 1, unless it is exact."""
  registry.check_known("order", order, ORDERS)
  if order == "exact":
    return exact(log_ratios)
  on_policy = jnp.zeros_like(log_ratios)  # [..., S]
  # `order` is the order of the expansion in rho - 1.
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
  """Subtracts a baseline from the weights of `max_at_k_off_policy_weights`.

    A_i = (rho_i / C(n, k)) * sum over I containing i of
          (prod_{j in J} rho_j) * (max_I g - max_J g),  J = I without i

  The subtracted part depends on y_i through rho_i alone. Hence
  `sum_i A_i grad log pi(y_i)` has the expectation of the exact weights, with
  less variance. Because the elementary symmetric polynomials satisfy
  sum_{j<=m} rho_j e_{k-2}(rho_1..rho_{j-1}) = e_{k-1}(rho_1..rho_m), A is a
  cumulative sum over the sorted scores,

    A_i = rho_i * sum_{j <= i} w_j (x_j - x_{j-1}) p_{k-1}(j - 1),

  with w as in this module, p as in `max_at_k_off_policy_value`, and x_0 = 0. If
  all rho are 1, A is
  `max_at_k_weights(..., baseline="leave_one_out_minus_one")`. A_i >= 0 for
  k >= 2. For k = 1 the baseline is 0, and A_i = rho_i g_i / n.

  The arguments, the result, the errors and the orders are the same as in
  `max_at_k_off_policy_weights`.

  Source: this project. The baseline is that of Walder & Karkhanis, Pass@K
  Policy Optimization; the ratios are those of The Best of N Worlds.
  """

  def exact(log_ratios):
    group, chances, ratios, means = _sort_ratios(scores, log_ratios, k, valid)
    gaps = group.x - _previous(group.x)
    return unsort(group, ratios * jnp.cumsum(chances * gaps * means, -1))

  return _expand(exact, log_ratios, order)


def pass_at_k_value(
  correct: Array, k: int, valid: Array | None = None
) -> Array:
  """Estimates pass@k, the probability that one of k samples is right.

  The estimate 1 - C(n-c, k) / C(n, k), for c right samples among n, is
  unbiased.

  Args:
    correct: `[..., S]`, True or 1 for samples that are right. The caller must
      leave out samples with an unknown verdict from `valid`.
    k: number of tries, 1..S.
    valid: `[..., S]` bool, samples that exist; None means all.

  Returns:
    `[...]`; 0 if fewer than k samples are valid.

  Raises:
    UsageError: if k is not in 1..S.
  """
  return max_at_k_value((correct > 0).astype(jnp.float32), k, valid)


def pass_at_k_advantages(
  scores: Array,
  k: int,
  valid: Array | None = None,
  form: str = "analytic",
  key: Array | None = None,
) -> Array:
  """Computes the advantages of Pass@k Training.

  They are derived from z-scores: the maximum of a k-subset, minus the mean of
  the maxima of the subsets, divided by their standard deviation (ddof 0).

    analytic   all k-subsets. A_i = (n s_i / k - maxk) / std is the mean z-score
               of the subsets that contain i, with
               std^2 = sum_j w_j (x_j - maxk)^2. It is defined for any real
               scores; for scores of 0 and 1 it is the closed form of the paper.
               For k = 1 it is the z-score in the group (ddof 0)
    bootstrap  n random subsets, each of k distinct samples. A_i is the sum of
               the z-scores of the subsets that contain i
    full       floor(n/k) disjoint subsets, in the order of sampling. A_i is the
               z-score of the subset that contains i, or 0 if none does

  All three are 0 if every k-subset has the same maximum (x_k = ... = x_n, and
  always for k = n). "analytic" is 0 only then. "bootstrap" and "full" are also
  0 if the subsets that they choose have the same maximum, as for the single
  subset of "full" for k > n/2.

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
    UsageError: if k is not in 1..S, the form is unknown, or "bootstrap" has no
      key.
  """
  registry.check_known("form", form, FORMS)
  _check_k(k, scores.shape[-1])
  scores = scores.astype(jnp.float32)
  if form == "analytic":
    group = sort(scores, valid)
    chances = _chances(group, k)
    # Scores relative to x_n, so that the variance is exactly 0 if all subsets
    # have the same maximum.
    shifted = group.x - jnp.max(group.x, -1, keepdims=True)
    mean = jnp.sum(chances * shifted, -1, keepdims=True)
    variance = jnp.sum(chances * (shifted - mean) ** 2, -1, keepdims=True)
    # n s_i / k - maxk.
    centered = group.n / k * deviations(group, chances)
    varied = variance > 0
    std = jnp.sqrt(jnp.where(varied, variance, 1.0))
    return unsort(group, jnp.where(varied, centered / std, 0.0))
  valid = masked.mask_or_ones(scores, valid)
  if form == "bootstrap":
    if key is None:
      raise UsageError(
        "form 'bootstrap' draws random subsets and needs a key; pass key="
      )
    members = _random_subsets(key, valid)[..., :k]  # [..., S, k]
    # As many subsets as valid samples. Only their number matters: the subsets
    # are random.
    exists = valid & (masked.count(valid, keepdims=True) >= k)
  else:
    members, exists = _disjoint_subsets(valid, k)
  return _subset_advantages(scores, members, exists)


def _random_subsets(key: Array, valid: Array) -> Array:
  """Draws S random orders `[..., S, S]` of the samples, valid samples first."""
  S = valid.shape[-1]
  noise = jax.random.uniform(key, (*valid.shape[:-1], S, S))
  return jnp.argsort(jnp.where(valid[..., None, :], noise, 2.0), axis=-1)


def _disjoint_subsets(valid: Array, k: int) -> tuple[Array, Array]:
  """Cuts the valid samples into subsets of k, in the order of sampling."""
  order = jnp.argsort(~valid, axis=-1, stable=True)
  subsets = valid.shape[-1] // k
  # Indices of the samples of each subset, `[..., S // k, k]`.
  order = order[..., : subsets * k].reshape(*valid.shape[:-1], subsets, k)
  n = masked.count(valid, keepdims=True)
  # Also returns which subsets consist of valid samples, `[..., S // k]`.
  return order, (jnp.arange(subsets) + 1) * k <= n


def _subset_advantages(scores: Array, members: Array, exists: Array) -> Array:
  """Sums, for each sample, the z-scores of the subsets that contain it."""
  # `members` `[..., G, k]` has the indices of the samples of G subsets. All
  # samples of a subset that `exists` `[..., G]` exist.
  samples = members.reshape(*members.shape[:-2], -1)  # [..., G k]
  best = jnp.take_along_axis(scores, samples, -1).reshape(members.shape).max(-1)
  centered = best - masked.mean(best, exists, keepdims=True)  # [..., G]
  std = masked.std(best, exists, keepdims=True)
  divisor = jnp.where(std > 0, std, 1.0)
  z = jnp.where(exists & (std > 0), centered / divisor, 0.0)
  # Members are marked by writing ones, which is deterministic on every device;
  # the order of additions in a scatter-add is not.
  contains = jnp.put_along_axis(  # [..., G, S]
    jnp.zeros((*members.shape[:-1], scores.shape[-1])),
    members,
    1.0,
    axis=-1,
    inplace=False,
  )
  return jnp.einsum("...g,...gs->...s", z, contains, precision="highest")
