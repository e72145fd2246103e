"""Objectives that are functions of the success rate, and their estimators.

The success rate p of a prompt is the probability that a sample is right, and
q = 1 - p. An objective is a power series in q,

  f(p) = sum_{j=0}^{d} a_j q^j,

given by its coefficients `(a_0, ..., a_d)`:

  mean accuracy   p               (1, -1)
  pass@k          1 - q^k         (1, 0, ..., 0, -1), with d = k
  all k right     p^k             (-1)^j C(k, j), with d = k
  log p           -sum_j q^j / j  (0, -1, -1/2, -1/3, ...), without an end

A group of n samples, of which w are wrong, has the unbiased estimate

  E[C(w, j) / C(n, j)] = q^j,  j <= n,

and with it every polynomial of degree n or less has one. Terms with j > n have
none. In a group in which fewer samples exist, they are left out, so that the
objective is the truncated series, which differs from f by sum_{j > n} a_j q^j.
That is a small change for log p, and may be a large one for coefficients of
alternating sign. The gradient needs an estimate of f'(p) that is independent of
the sample that it multiplies. From m further samples, of which v are wrong, it
is

  D(v, m) = -sum_j j a_j C(v, j - 1) / C(m, j - 1).

If p depends on parameters, then grad p = E[1_right grad log pi(y)], and

  grad f(p) = f'(p) grad p = E[sum_i A_i grad log pi(y_i)]

for the advantages of `success_rate_advantages`.

Source: the estimate of q^j is that of Chen et al. 2021 (pass@k). That a
function of the success rate gives an advantage is in Advantage Shaping as
Surrogate Reward Maximization (arXiv 2510.23049). The closed forms for any
series are from this project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError, masked, registry

Array = jax.Array
BASELINES = ("centered", "leave_one_out_minus_one")
_RADIUS, _POINTS = 0.8, 512  # of the circle of `power_series`


def power_series(f: Callable, degree: int) -> tuple[float, ...]:
  """Computes the coefficients of an objective f(p) as a power series in 1 - p.

    power_series(lambda p: p**3, degree=3)      (1, -3, 3, -1)
    power_series(np.log, degree=7)              (0, -1, -1/2, ..., -1/7)

  The coefficient a_j is the mean of f(1 - z) z^-j over a circle |z| = 0.8
  (Cauchy's integral). Up to degree 16 the rounding error is about 1e-12.

  Args:
    f: function of an array of complex numbers p, without a singularity within
      a distance of 0.8 from p = 1, such as a polynomial, `np.log`, `np.sqrt`.
    degree: degree of the last coefficient; see `success_rate_advantages` for
      the number of samples that it needs.
  """
  z = _RADIUS * np.exp(2j * np.pi * np.arange(_POINTS) / _POINTS)
  coefficients = np.fft.fft(f(1 - z)) / _POINTS
  scaled = coefficients[: degree + 1] / _RADIUS ** np.arange(degree + 1)
  return tuple(float(a) for a in scaled.real)


def success_rate_advantages(
  correct: Array,
  series: Sequence[float],
  valid: Array | None = None,
  baseline: str = "centered",
) -> Array:
  """Computes weights of the samples that estimate the gradient of f(p).

  `sum_i A_i grad log pi(y_i)` is an unbiased estimate of grad f(p), up to the
  terms of f that are left out. With r_i = 1 for a right sample and 0 for a
  wrong one, w wrong samples among n, and D as in this module:

    centered                 A_i = (r_i - mean r) D(w - 1, n - 2) / (n - 1).
                             D is estimated without one right and one wrong
                             sample. The sum over the group is 0, and a group
                             that is all right or all wrong has A = 0. It equals
                             F - F_i, where F estimates f(p) from the group, and
                             F_i from the other samples. Terms with j > n - 1
                             are left out
    leave_one_out_minus_one  A_i = r_i D(w, n - 1) / n: only right samples have
                             a weight. It equals F - F_i, where F_i estimates
                             f(p) from the same group with sample i counted as
                             wrong. Terms with j > n are left out

  With the series of pass@k these are the weights of
  `rl.best_of_k.max_at_k_weights` with the same baselines, for k < n if
  centered; with that of p, "centered" is `rl.advantages.leave_one_out` over n;
  with that of log p, "centered" is (r_i - mean r) / (n mean r). Sums of
  alternating terms lose accuracy in float32: for "all k right", k should be at
  most 8.

  Args:
    correct: `[..., S]`, True or 1 for samples that are right.
    series: the coefficients (a_0, ..., a_d) of f.
    valid: `[..., S]` bool, samples that exist; None means all.
    baseline: one of `BASELINES`.

  Returns:
    `[..., S]`; 0 for samples that are not valid.

  Raises:
    UsageError: if the baseline is unknown, or the degree of the series exceeds
      S, or S - 1 if centered. Cut the series if the truncation is wanted.
  """
  if baseline not in BASELINES:
    raise UsageError(registry.describe_unknown("baseline", baseline, BASELINES))
  S = correct.shape[-1]
  largest = S - 1 if baseline == "centered" else S
  if len(series) - 1 > largest:
    raise UsageError(
      f"the series has degree {len(series) - 1}, but groups of {S} samples "
      f"estimate the slope of a polynomial of degree {largest} at most, with "
      f"the baseline {baseline!r}; sample more, or cut the series after "
      f"{largest + 1} coefficients"
    )
  valid = masked.mask_or_ones(correct, valid)
  is_right = jnp.where(valid, correct > 0, False)
  wrong, n = _count_wrong(correct, valid)
  a = jnp.asarray(series, jnp.float32)
  # f'(p) = -sum_j j a_j q^(j-1).
  derivative = -(a * jnp.arange(len(a)))[1:]
  if baseline == "centered":
    slope = _estimate(derivative, wrong - 1, n - 2) / jnp.maximum(n - 1, 1)
    mean = (n - wrong) / jnp.maximum(n, 1)
    advantage = (is_right - mean[..., None]) * slope[..., None]
    is_mixed = (wrong > 0) & (wrong < n)
    return jnp.where(valid & is_mixed[..., None], advantage, 0.0)
  slope = _estimate(derivative, wrong, n - 1) / jnp.maximum(n, 1)
  return jnp.where(is_right, slope[..., None], 0.0)


def _count_wrong(correct: Array, valid: Array | None) -> tuple[Array, Array]:
  """Returns the numbers of wrong and of all valid samples, both `[...]`."""
  valid = masked.mask_or_ones(correct, valid)
  is_wrong = valid & ~(correct > 0)
  return masked.count(is_wrong), masked.count(valid)


def _estimate(series: Array, wrong: Array, n: Array) -> Array:
  """Computes sum_j a_j C(w, j) / C(n, j), without the terms with j > n."""
  # `series` `[d + 1]` has the a_j; `wrong` is w.
  n = jnp.maximum(n, 0)[..., None]
  wrong = jnp.clip(wrong[..., None], 0, n)
  j = jnp.arange(len(series) - 1)
  # The ratio of the terms j + 1 and j, (w - j) / (n - j).
  ratios = jnp.maximum(wrong - j, 0) / jnp.maximum(n - j, 1)
  shares = jnp.cumprod(jnp.where(j < n, ratios, 0.0), axis=-1)
  # C(w, j) / C(n, j) for j = 0..d, `[..., d + 1]`.
  shares = jnp.concatenate([jnp.ones_like(n), shares], axis=-1)
  return jnp.sum(series * shares, axis=-1)
