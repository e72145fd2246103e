"""Groups without a gradient of set objectives: k = n, none right, few wrong.

Every statement of the tables in `rl.best_of_k`, on groups of n = 4.
"""

import functools
import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from rl import best_of_k, methods

N = 4
weights = jax.jit(best_of_k.max_at_k_weights, static_argnums=(1, 3))
advantages = jax.jit(best_of_k.pass_at_k_advantages, static_argnums=(1, 3))
close = functools.partial(np.testing.assert_allclose, atol=1e-6, rtol=0)
CASES = [(k, c) for k in range(1, N + 1) for c in range(N + 1)]


def right(c):
  return np.arange(N) < c


def of(k, c):
  """The weights of every baseline, `{name: [N]}`."""
  g = jnp.asarray(right(c), jnp.float32)
  return {b: np.asarray(weights(g, k, None, b)) for b in best_of_k.BASELINES}


def is_flat(k, c):
  """Every k-subset has the same maximum."""
  return c == 0 or N - c < k


@pytest.mark.parametrize("k", range(1, N + 1))
def test_nothing_right_is_nothing_to_learn(k):
  assert not any(w.any() for w in of(k, 0).values())


@pytest.mark.parametrize(("k", "c"), CASES)
def test_s_prefers_a_right_sample_unless_all_subsets_are_solved(k, c):
  s = of(k, c)["none"]
  if is_flat(k, c):
    close(s, k / N if c else 0)
  else:
    assert s[right(c)].min() > s[~right(c)].max()


@pytest.mark.parametrize(("k", "c"), CASES)
def test_centered_stops_where_s_is_flat_and_at_k_n_for_good(k, c):
  assert bool(of(k, c)["centered"].any()) == (not is_flat(k, c))
  assert not of(N, c)["centered"].any()


@pytest.mark.parametrize(
  ("k", "c"), [(k, c) for k, c in CASES if is_flat(k, c) and c]
)
def test_leave_one_out_weighs_a_solved_group_alike(k, c):
  want = -k / (N * (N - 1)) if k < N else 1.0  # k = n: no group without i
  close(of(k, c)["leave_one_out"], want)


@pytest.mark.parametrize("k", range(2, N + 1))
def test_minus_one_still_learns_from_k_minus_1_wrong_samples(k):
  """With these each right sample is decisive in one subset."""
  c = N - (k - 1)
  actual = of(k, c)
  want = np.where(right(c), k / N / math.comb(N - 1, k - 1), 0)
  close(actual["leave_one_out_minus_one"], want)
  assert not actual["centered"].any()
  g = jnp.asarray(right(c), jnp.float32)
  assert not np.asarray(advantages(g, k)).any()


@pytest.mark.parametrize(("k", "c"), [(k, c) for k, c in CASES if k > 1])
def test_minus_one_stops_at_fewer_than_k_minus_1_wrong_samples(k, c):
  learns = 0 < c <= N - (k - 1)
  assert bool(of(k, c)["leave_one_out_minus_one"].any()) == learns


def test_k_1_has_no_baseline_but_none_and_minus_one_are_the_score():
  for c in range(N + 1):
    for baseline in ("none", "leave_one_out_minus_one"):
      close(of(1, c)[baseline], right(c) / N)


def test_where_the_default_is_silent_no_other_prefers_a_sample():
  """For all groups of three scores: all weights of a group are equal."""
  g = jnp.array(list(itertools.product((-0.5, 0.0, 0.5), repeat=N)))
  for k in range(2, N + 1):
    silent = ~np.asarray(weights(g, k, None, "leave_one_out_minus_one")).any(-1)
    assert 0 < silent.sum() < len(g)
    for baseline in best_of_k.BASELINES:
      w = np.asarray(weights(g, k, None, baseline))[silent]
      close(np.ptp(w, axis=-1), 0)
    assert not np.asarray(advantages(g, k))[silent].any()


def test_at_k_n_the_default_credits_the_best_with_its_lead():
  graded = jnp.array([0.1, 0.7, 0.4, 1.0])
  got = {b: weights(graded, N, None, b) for b in best_of_k.BASELINES}
  close(got["leave_one_out_minus_one"], [0, 0, 0, 0.3])
  close(got["leave_one_out"], [1.0] * 4)
  close(got["none"], [1.0] * 4)
  close(got["centered"], [0] * 4)


@pytest.mark.parametrize(("k", "c"), CASES)
def test_analytic_pass_at_k_is_zero_only_where_s_is_flat(k, c):
  got = advantages(jnp.asarray(right(c), jnp.float32), k)
  assert bool(got.any()) == (not is_flat(k, c))


@pytest.mark.parametrize("form", ["bootstrap", "full"])
@pytest.mark.parametrize(
  ("k", "c"), [(k, c) for k, c in CASES if is_flat(k, c)]
)
def test_sampled_pass_at_k_is_zero_where_s_is_flat(form, k, c):
  g = jnp.asarray(right(c), jnp.float32)
  assert not advantages(g, k, None, form, jax.random.key(c)).any()


def test_full_pass_at_k_needs_two_whole_subsets():
  for c in range(N + 1):
    g = jnp.asarray(right(c), jnp.float32)
    assert not advantages(g, 3, None, "full").any()
  close(advantages(jnp.array([1.0, 1, 0, 0]), 2, None, "full"), [1, 1, -1, -1])
  assert not advantages(jnp.array([1.0, 0, 1, 0]), 2, None, "full").any()


def test_bootstrap_is_zero_where_its_subsets_agree():
  """With one wrong pair of six, four draws miss it (5/6)^4 of the time."""
  g = jnp.array([1.0, 1, 0, 0])
  keys = jax.random.split(jax.random.key(0), 4000)
  draw = jax.vmap(lambda key: advantages(g, 2, None, "bootstrap", key))
  silent = ~np.asarray(draw(keys)).any(-1)
  p = (5 / 6) ** 4 + (1 / 6) ** 4  # all with a right one, or all without
  assert abs(silent.mean() - p) < 3 * np.sqrt(p * (1 - p) / 4000)


@pytest.mark.parametrize("k", [2, 3, 4])
def test_fewer_samples_than_k_are_nothing_to_learn(k):
  g = jnp.array([1.0, 0, 0, 1])
  valid = jnp.arange(N) < k - 1
  for baseline in best_of_k.BASELINES:
    assert not weights(g, k, valid, baseline).any()
  for form in best_of_k.FORMS:
    assert not advantages(g, k, valid, form, jax.random.key(0)).any()
  assert best_of_k.max_at_k_value(g, k, valid) == 0


@pytest.mark.parametrize(
  ("name", "learns"),
  [
    ("max_at_k", True),
    ("pass_at_k", False),
    ("bon_mean", False),
    ("pass_at_k_exceeding", False),
    ("pass_at_k_combination", True),
  ],
)
def test_the_methods_at_one_wrong_sample_of_four_and_k_2(name, learns):
  """Solved for pass@2; max_at_k's default and the pass@1 part still learn."""
  rollout = tabular_policy.rollout(p=1, s=N, ragged=False).replace(
    scores=jnp.asarray([right(3)], jnp.float32)
  )
  advantage = methods.get(name, k=2).advantage
  got, _ = jax.jit(advantage.apply)(None, rollout, advantage.init())
  assert bool(got.any()) == learns
