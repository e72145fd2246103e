"""Objectives of the tail of the scores, and their estimators.

R is the score of a sample of a prompt, and S(tau) = P(R > tau) the probability
that a sample is better than a threshold. An objective is given by a function g:

  J = integral over tau of g(S(tau)).

If scores are verdicts, 0 or 1, J is g(p) up to a constant, with the success
rate p. An objective is written by a name,

  "mean"       the mean score        g(s) = s
  "max@k"      the best of k         g(s) = 1 - (1 - s)^k, such as "max@4"
  "log"        TailRL, or MaxRL      g(s) = log s, cut at the degree below
  "log@d"      the same, cut at d    g(s) = -sum_{j=1}^d (1 - s)^j / j
  "tsallis@q"  between mean and log  g(s) = s^(1-q) / (1-q), cut; q below 1
  "top@a"      the best share a      g(s) = min(s / a, 1)

or by the coefficients (a_0, ..., a_d) of a power series in 1 - s,

  g(s) = sum_{j=0}^{d} a_j (1 - s)^j,

such as (1, -1) for the mean; `power_series` computes them from g. For such a
series J is the mixture -sum_j a_j max@j of the objectives of the best of j
samples, and "log" is the sum of max@j / j.

If S depends on the parameters of the policy, grad S(tau) = E[1[R > tau] grad
log pi(y)], hence

  grad J = E[A(R) grad log pi(y)],   A(r) = integral up to r of g'(S(tau)).

An integral over quantiles u of the score says the same: the sample at the
quantile u has the weight g'(1 - u), which is 1 for the mean, k u^(k-1) for
max@k, and (1 - u^d) / (1 - u) for log@d.

A group has n samples with scores x_1 <= ... <= x_n. Between x_{j-1} and x_j the
estimate of g'(S) may not depend on the sample that it multiplies. From m
further samples, of which v are below tau, the estimate

  D(v, m) = -sum_j j a_j C(v, j - 1) / C(m, j - 1)

has the expectation g'(S(tau)), for every polynomial g with a degree of at most
m + 1. Terms of a higher degree have no unbiased estimate and are left out, so
that the objective is the truncated series. That is a small change for log, and
may be a large one for coefficients of alternating sign. The slope of "top@a" is
no polynomial: its estimate from the share (m - v) / m is biased for every n.

Sources: the estimate of (1 - s)^j is that of Chen et al. 2021 (pass@k). That a
function of the success rate gives an advantage is in Advantage Shaping as
Surrogate Reward Maximization (arXiv 2510.23049). TailRL (arXiv 2609.02987) has
log, as a mixture of best-of-k gradients. The family, the closed forms for any
series and the estimates for graded scores are from this project.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from rl import UsageError, best_of_k, registry

Array = jax.Array
Objective = str | Sequence[float]
BASELINES = ("centered", "leave_one_out_minus_one")
NAMES = ("mean", "max@k", "log", "log@d", "tsallis@q", "top@a")
_RADIUS, _POINTS = 0.8, 512  # of the circle of `power_series`


def power_series(g: Callable, degree: int) -> tuple[float, ...]:
  """Computes the coefficients of an objective g(s) as a power series in 1 - s.

    power_series(lambda s: s**3, degree=3)      (1, -3, 3, -1)
    power_series(np.log, degree=7)              (0, -1, -1/2, ..., -1/7)

  The coefficient a_j is the mean of g(1 - z) z^-j over a circle |z| = 0.8
  (Cauchy's integral). Up to degree 16 the rounding error is about 1e-12.

  Args:
    g: function of an array of complex numbers s, without a singularity within
      a distance of 0.8 from s = 1, such as a polynomial, `np.log`, `np.sqrt`.
    degree: degree of the last coefficient; see `tail_advantages` for the number
      of samples that it needs.
  """
  z = _RADIUS * np.exp(2j * np.pi * np.arange(_POINTS) / _POINTS)
  coefficients = np.fft.fft(g(1 - z)) / _POINTS
  scaled = coefficients[: degree + 1] / _RADIUS ** np.arange(degree + 1)
  return tuple(float(a) for a in scaled.real)


def series(objective: Objective, degree: int) -> tuple[float, ...]:
  """Returns the coefficients of an objective in powers of 1 - s.

  Args:
    objective: a name, other than "top@a", or the coefficients themselves.
    degree: degree at which "log" and "tsallis@q" are cut.

  Raises:
    UsageError: the name or its number is not valid, or the objective has no
      power series.
  """
  if not isinstance(objective, str):
    return tuple(objective)
  name, number = _parse(objective)
  if name == "mean":
    return (1.0, -1.0)
  if name == "max@k":
    return (1.0, *[0.0] * (number - 1), -1.0)
  if name == "top@a":
    raise UsageError(
      f"{objective!r} has no power series in 1 - s; write it by its name, or "
      "choose max@k"
    )
  if name == "tsallis@q":
    # The coefficients of (1 - z)^b, by their recurrence.
    b, coefficients = 1 - number, [1.0]
    for j in range(1, degree + 1):
      coefficients.append(coefficients[-1] * (j - 1 - b) / j)
    return tuple(a / b for a in coefficients)
  degree = degree if name == "log" else number
  return (0.0, *(-1 / j for j in range(1, degree + 1)))


def _parse(objective: str) -> tuple[str, int | float]:
  """Returns the form of a name, one of `NAMES`, and its number."""
  name, at, text = objective.partition("@")
  form = next((x for x in NAMES if x.partition("@")[:2] == (name, at)), "")
  try:
    number = float(text) if at else 0.0
  except ValueError:
    form, number = "", 0.0
  if not form:
    raise UsageError(registry.describe_unknown("objective", objective, NAMES))
  is_count = form in ("max@k", "log@d")
  if is_count and not (number >= 1 and number == int(number)):
    raise UsageError(f"objective {objective!r}: {text} must be 1, 2, 3, ...")
  if form == "tsallis@q" and not 0 <= number < 1:
    raise UsageError(
      f"objective {objective!r}: {text} must be at least 0 and below 1; 'log' "
      "is the limit at 1"
    )
  if form == "top@a" and not 0 < number <= 1:
    raise UsageError(
      f"objective {objective!r}: {text} must be above 0 and at most 1"
    )
  return form, int(number) if is_count else number


def tail_advantages(
  scores: Array,
  objective: Objective,
  valid: Array | None = None,
  baseline: str = "centered",
  floor: float = 0.0,
) -> Array:
  """Computes weights of the samples that estimate the gradient of J.

  `sum_i A_i grad log pi(y_i)` is an unbiased estimate of grad J, up to the
  terms of g that are left out; for "top@a" it is biased. For the sample with
  the i-th smallest score x_i, and with D as in this module:

    centered                 A_i = sum_{j=2}^i (x_j - x_{j-1}) D(j - 2, n - 2) /
                             (n - 1), minus its mean over the group. D is
                             estimated without a sample on either side of the
                             threshold. It equals F - F_i, where F estimates J
                             from the group, and F_i from the other samples. A
                             group of equal scores has A = 0. Terms with j > n -
                             1 are left out
    leave_one_out_minus_one  A_i = sum_{j=1}^i (x_j - x_{j-1}) D(j - 1, n - 1) /
                             n, with x_0 = `floor`. It equals F - F_i, where F_i
                             estimates J from the group with the score of i
                             replaced by `floor`. Terms with j > n are left out

  The weights of `rl.best_of_k.max_at_k_weights` with the same baselines are
  those of "max@k", for k < n if centered. On verdicts, "log", centered, is
  (r_i - mean r) / (n mean r) of a verdict r_i. Sums of alternating terms lose
  accuracy in float32: a polynomial such as s^k should have a degree of at most
  8. Sorting takes O(S log S) time, and a series of degree d O(S d); "log" has a
  closed form, D(v, m) = (m + 1) / (m + 1 - v).

  Args:
    scores: `[..., S]`, real numbers.
    objective: a name of `NAMES` with its number, or the coefficients (a_0, ...,
      a_d) of a series.
    valid: `[..., S]` bool, samples that exist; None means all.
    baseline: one of `BASELINES`.
    floor: a score that no sample is below; "leave_one_out_minus_one" reads it.

  Returns:
    `[..., S]`; 0 for samples that are not valid.

  Raises:
    UsageError: if the objective or the baseline is unknown, or the degree of
      the series exceeds S, or S - 1 if centered.
  """
  registry.check_known("baseline", baseline, BASELINES)
  S = scores.shape[-1]
  largest = S - 1 if baseline == "centered" else S
  group = best_of_k.sort(scores, valid)
  below = jnp.arange(S, dtype=jnp.float32)
  if baseline == "centered":
    slopes = _slopes(objective, largest, below, group.n - 2)
    weights = slopes / jnp.maximum(group.n - 1, 1)
    values = best_of_k.deviations(group, weights)
  else:
    weights = _slopes(objective, largest, below, group.n - 1)
    weights /= jnp.maximum(group.n, 1)
    previous = jnp.full_like(group.x[..., :1], floor)
    gaps = jnp.diff(group.x, axis=-1, prepend=previous)
    values = jnp.cumsum(weights * gaps, -1)
  return best_of_k.unsort(group, values)


def _slopes(
  objective: Objective, largest: int, below: Array, m: Array
) -> Array:
  """Computes D(v, m) for each v of `below` and each m `[..., 1]`."""
  m = jnp.maximum(m, 0.0)
  below = jnp.clip(below, 0.0, m)
  if objective == "log":
    return (m + 1) / (m + 1 - below)
  if isinstance(objective, str) and objective.startswith("top@"):
    share = _parse(objective)[1]
    above = (m - below) / jnp.maximum(m, 1.0)
    return jnp.where((above < share) | (share == 1), 1 / share, 0.0)
  coefficients = series(objective, largest)
  if len(coefficients) - 1 > largest:
    raise UsageError(
      f"the objective has degree {len(coefficients) - 1}, but with this "
      f"baseline groups of this size estimate the slope of a polynomial of "
      f"degree {largest} at most; sample more, or cut the series after "
      f"{largest + 1} coefficients"
    )
  # g'(s) = -sum_j j a_j (1 - s)^(j-1).
  derivative = -(np.asarray(coefficients) * np.arange(len(coefficients)))[1:]

  def add_term(carry, term):
    share, total = carry  # C(v, j) / C(m, j) of the next term
    j, a = term
    total += a * share
    ratio = jnp.maximum(below - j, 0.0) / jnp.maximum(m - j, 1.0)
    return (share * jnp.where(j < m, ratio, 0.0), total), None

  start = jnp.ones_like(below), jnp.zeros_like(below)
  terms = np.arange(len(derivative)), derivative.astype(np.float32)
  (_, slopes), _ = jax.lax.scan(add_term, start, terms)
  return slopes
