"""Large groups in float32 against float64, from the definitions."""

import functools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl import best_of_k

objectives = compiled.functions(best_of_k)


def chances(n, k):
  """log C(j-1, k-1) / C(n, k) and log C(j-2, k-2) / C(n, k), j = 1..n."""

  def log_binomial(a, b):
    if not 0 <= b <= a:
      return -math.inf
    return math.lgamma(a + 1) - math.lgamma(b + 1) - math.lgamma(a - b + 1)

  total = log_binomial(n, k)
  largest = [log_binomial(j - 1, k - 1) - total for j in range(1, n + 1)]
  second = [log_binomial(j - 2, k - 2) - total for j in range(1, n + 1)]
  return np.exp(largest), np.exp(second)


def exact_weights(g, k):
  """s_i = w_i x_i + sum_{j > i} u_j x_j in sorted order, float64."""
  order = np.argsort(g, kind="stable")
  x = g[order].astype(np.float64)
  w, u = chances(len(g), k)
  after = np.cumsum((u * x)[::-1])[::-1] - u * x
  s = np.empty_like(x)
  s[order] = w * x + after
  return float(w @ x), s


@pytest.mark.parametrize("k", [2, 64, 8192, 16384])
def test_weights_of_16384_samples(k):
  g = np.random.default_rng(k).normal(size=16384).astype(np.float32)
  value, s = exact_weights(g, k)
  np.testing.assert_allclose(
    jax.jit(best_of_k.max_at_k_value, static_argnums=1)(g, k),
    value,
    rtol=1e-4,
  )
  weigh = jax.jit(best_of_k.max_at_k_weights, static_argnums=(1, 3))
  expected = {"none": s}
  if k < len(g):
    expected["centered"] = (s - s.mean()) / (1 - k / len(g))
  for baseline, want in expected.items():
    got = np.asarray(weigh(g, k, None, baseline), np.float64)
    assert np.abs(got - want).max() < 1e-3 * np.abs(want).max(), baseline


def test_ragged_groups_of_512_with_k_64():
  """A group of n valid ones of 512 samples has the weights of its n samples."""
  rng = np.random.default_rng(0)
  weigh = jax.jit(best_of_k.max_at_k_weights, static_argnums=1)
  for n in (64, 100, 511):
    g = rng.normal(size=512).astype(np.float32)
    valid = np.zeros(512, bool)
    valid[rng.permutation(512)[:n]] = True
    _, s = exact_weights(g[valid], 64)
    got = np.asarray(weigh(g, 64, valid))
    assert np.abs(got[valid] - s).max() < 1e-3 * np.abs(s).max()
    assert not got[~valid].any()


def off_policy_value(x, rho, k):
  """J of ascending scores, float64, E_i not normalised: below 1e308 here.

  Args:
    x: `[n]` ascending.
    rho: `[B, n]` ratios in that order.
    k: size of the subset.
  """
  n = len(x)
  polynomials = np.zeros((len(rho), k))
  polynomials[:, 0] = 1.0
  total = np.zeros(len(rho))
  for j in range(n):
    total += x[j] * rho[:, j] * polynomials[:, k - 1]
    polynomials[:, 1:] += rho[:, j, None] * polynomials[:, :-1].copy()
  return total / math.comb(n, k)


def test_exact_off_policy_weights_of_512_samples_with_k_256():
  """J is linear in each ratio, so a weight is J - J(that ratio = 0)."""
  n, k = 512, 256
  rng = np.random.default_rng(1)
  g = rng.normal(size=n).astype(np.float32)
  log_ratios = (0.1 * rng.normal(size=n)).astype(np.float32)
  order = np.argsort(g, kind="stable")
  x, rho = g[order].astype(np.float64), np.exp(log_ratios[order].astype(float))
  without = np.where(np.eye(n, dtype=bool), 0.0, rho)
  value = off_policy_value(x, rho[None], k)[0]
  want = np.empty(n)
  want[order] = value - off_policy_value(x, without, k)
  weigh = functools.partial(best_of_k.max_at_k_off_policy_weights, k=k)
  got = np.asarray(jax.jit(weigh)(jnp.asarray(g), jnp.asarray(log_ratios)))
  assert np.abs(got - want).max() < 1e-3 * np.abs(want).max()
  first = jax.jit(functools.partial(weigh, order="first"))
  small = first(jnp.asarray(g), 1e-4 * jnp.asarray(log_ratios))
  _, on_policy = exact_weights(g, k)
  near = np.abs(np.asarray(small) - on_policy).max()
  assert near < 1e-2 * np.abs(on_policy).max()
  # The baseline: what the others' (k-1)-subsets reach, times the ratio.
  lost = off_policy_value(x, without, k - 1)
  want[order] -= rho * lost * math.comb(n, k - 1) / math.comb(n, k)
  gains = jax.jit(best_of_k.max_at_k_off_policy_advantages, static_argnums=2)
  got = np.asarray(gains(jnp.asarray(g), jnp.asarray(log_ratios), k))
  assert np.abs(got - want).max() < 1e-3 * np.abs(want).max()
