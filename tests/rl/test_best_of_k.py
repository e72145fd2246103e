"""Set objectives against enumeration: values, weights, unbiasedness."""

import itertools
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled

from rl import best_of_k

objectives = compiled.functions(best_of_k)

OUTCOMES = 3
LOGITS = np.array([0.3, -0.4, 0.1])
REWARDS = np.array([0.2, 1.0, -0.5])

# Compiled: eager operations on many shapes cost more than the programs.
max_at_k_value = jax.jit(best_of_k.max_at_k_value, static_argnums=1)
max_at_k_values = jax.jit(best_of_k.max_at_k_values)
max_at_k_weights = jax.jit(best_of_k.max_at_k_weights, static_argnums=(1, 3))
off_policy_advantages = jax.jit(
  best_of_k.max_at_k_off_policy_advantages, static_argnums=(2, 4)
)
off_policy_weights = jax.jit(
  best_of_k.max_at_k_off_policy_weights, static_argnums=(2, 4)
)
pass_at_k_value = jax.jit(best_of_k.pass_at_k_value, static_argnums=1)
pass_at_k_advantages = jax.jit(
  best_of_k.pass_at_k_advantages, static_argnums=(1, 3)
)


def softmax(z):
  e = np.exp(z - z.max())
  return e / e.sum()


def subsets(n, k):
  return list(itertools.combinations(range(n), k))


def value_by_subsets(g, k):
  return np.mean([max(g[list(i)]) for i in subsets(len(g), k)])


def weights_by_subsets(g, k):
  """s_i, from its definition."""
  s = np.zeros(len(g))
  for subset in subsets(len(g), k):
    s[list(subset)] += max(g[list(subset)])
  return s / math.comb(len(g), k)


def groups():
  """Scores with ties, without, constant, shifted far from 0; n = 1 .. 6."""
  rng = np.random.default_rng(0)
  for n in range(1, 7):
    yield rng.normal(size=n)
    yield rng.integers(0, 3, n) / 2.0
    yield np.full(n, 0.7)
    yield rng.normal(size=n) + 50.0


def in_slots(g, slots=8):
  """The group scattered over `slots` slots, garbage elsewhere."""
  rng = np.random.default_rng(len(g))
  at = np.sort(rng.permutation(slots)[: len(g)])
  row = np.full(slots, np.nan)
  row[at] = g
  valid = np.zeros(slots, bool)
  valid[at] = True
  return jnp.asarray(row, jnp.float32), jnp.asarray(valid), at


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_value_and_weights_are_means_over_subsets_of_ragged_groups(k):
  for g in groups():
    row, valid, at = in_slots(g)
    value = max_at_k_value(row, k, valid)
    s = np.asarray(max_at_k_weights(row, k, valid))
    if len(g) < k:
      assert value == 0
      assert not s.any()
      continue
    np.testing.assert_allclose(value, value_by_subsets(g, k), rtol=1e-5)
    atol = 1e-6 * abs(g).max()
    np.testing.assert_allclose(s[at], weights_by_subsets(g, k), atol=atol)
    assert not np.delete(s, at).any()


def test_the_values_for_every_k_are_those_of_each_k():
  for g in groups():
    row, valid, _ = in_slots(g)
    values = max_at_k_values(row, valid)
    assert values.shape == row.shape
    for k in range(1, len(row) + 1):
      want = value_by_subsets(g, k) if k <= len(g) else 0.0
      np.testing.assert_allclose(values[k - 1], want, rtol=1e-5)


@pytest.mark.parametrize("k", [1, 2, 3, 6])
def test_baselines_are_their_definitions(k):
  for g in groups():
    n = len(g)
    if n < k:
      continue
    row, valid, at = in_slots(g)
    s = weights_by_subsets(g, k)
    without = [np.delete(g, i) for i in range(n)]

    def value(others, size):
      if size == 0 or len(others) < size:
        return 0.0
      return value_by_subsets(others, size)

    expected = {
      "leave_one_out": s
      - [k / max(n - 1, 1) * value(others, k) for others in without],
      "leave_one_out_minus_one": s
      - [k / n * value(others, k - 1) for others in without],
      "centered": (s - s.mean()) / (1 - k / n) if n > k else 0 * s,
    }
    for baseline, want in expected.items():
      got = max_at_k_weights(row, k, valid, baseline)
      atol = 3e-6 * max(1.0, abs(g).max())
      np.testing.assert_allclose(np.asarray(got)[at], want, atol=atol)


def expected_estimate(weigh, n, sampler=LOGITS):
  """E over all n-tuples of sum_i w_i grad log pi(y_i), exactly."""
  tuples = np.array(list(itertools.product(range(OUTCOMES), repeat=n)))
  probability = softmax(sampler)[tuples].prod(-1)
  weights = np.asarray(weigh(tuples))
  score = np.eye(OUTCOMES)[tuples] - softmax(LOGITS)
  return np.einsum("g,gn,gnv->v", probability, weights, score)


def exact_gradient(k):
  """Gradient in the logits of E[max of k draws], by enumeration."""
  tuples = np.array(list(itertools.product(range(OUTCOMES), repeat=k)))
  best = REWARDS[tuples].max(-1)
  p = softmax(LOGITS)
  score = (np.eye(OUTCOMES)[tuples] - p).sum(1)
  return np.einsum("g,g,gv->v", p[tuples].prod(-1), best, score)


@pytest.mark.parametrize(
  ("n", "k", "baseline"),
  [
    (n, k, baseline)
    for n, k in ((4, 1), (4, 2), (5, 3), (4, 4))
    for baseline in best_of_k.BASELINES
    if n > k or baseline != "centered"  # s is flat at n = k
  ],
)
def test_every_baseline_is_unbiased(n, k, baseline):
  weigh = jax.jit(lambda g: max_at_k_weights(g, k, None, baseline))
  got = expected_estimate(lambda t: weigh(REWARDS[t]), n)
  np.testing.assert_allclose(got, exact_gradient(k), atol=2e-6)


def test_value_is_unbiased():
  tuples = np.array(list(itertools.product(range(OUTCOMES), repeat=5)))
  probability = softmax(LOGITS)[tuples].prod(-1)
  for k in (1, 2, 4):
    best = np.array(list(itertools.product(range(OUTCOMES), repeat=k)))
    true = softmax(LOGITS)[best].prod(-1) @ REWARDS[best].max(-1)
    values = max_at_k_value(jnp.asarray(REWARDS[tuples]), k)
    np.testing.assert_allclose(
      probability @ np.asarray(values), true, atol=1e-6
    )


def test_plain_mean_centering_shrinks_the_gradient_by_one_minus_k_over_n():
  def weigh(t):
    s = max_at_k_weights(jnp.asarray(REWARDS[t]), 2)
    return s - s.mean(-1, keepdims=True)

  np.testing.assert_allclose(
    expected_estimate(weigh, 5), (1 - 2 / 5) * exact_gradient(2), atol=2e-6
  )


@pytest.mark.parametrize("k", [1, 2, 3])
def test_exact_off_policy_weights_are_unbiased_where_on_policy_ones_are_not(k):
  sampler = np.array([0.1, 0.5, -0.2])
  log_ratio = np.log(softmax(LOGITS) / softmax(sampler))

  def weigh(order):
    weights = jax.jit(lambda g, r: off_policy_weights(g, r, k, None, order))
    return lambda t: weights(REWARDS[t], log_ratio[t])

  def gain(t):
    advantages = jax.jit(lambda g, r: off_policy_advantages(g, r, k))
    return advantages(REWARDS[t], log_ratio[t])

  exact = exact_gradient(k)
  for estimator in (weigh("exact"), gain):
    got = expected_estimate(estimator, 4, sampler)
    np.testing.assert_allclose(got, exact, atol=2e-6)
  first = expected_estimate(weigh("first"), 4, sampler)
  uncorrected = expected_estimate(
    lambda t: max_at_k_weights(jnp.asarray(REWARDS[t]), k),
    4,
    sampler,
  )
  assert np.abs(first - exact).max() < np.abs(uncorrected - exact).max()


def test_the_orders_err_as_the_card_says():
  """Relative error of the expected gradient at the card's policy and sampler.

  Exact: none. First order: 4 % and 10 % for k = 2 and 3. Zeroth, which is
  uncorrected: 63 % and 143 %; at k = 1 the first order is exact, this is not.
  """
  logits, sampler = np.array([0.3, -0.2, 0.5]), np.array([0.1, 0.1, 0.2])
  rewards = np.array([0.0, 0.4, 1.0])
  p, mu = softmax(logits), softmax(sampler)
  log_ratio = np.log(p / mu)
  tuples = np.array(list(itertools.product(range(3), repeat=4)))
  score = np.eye(3)[tuples] - p
  card = {1: (0.0, 0.2965), 2: (0.0387, 0.6295), 3: (0.1015, 1.4288)}
  for k, (first, zeroth) in card.items():
    sets = np.array(list(itertools.product(range(3), repeat=k)))
    true = np.einsum(
      "g,g,gv->v",
      p[sets].prod(-1),
      rewards[sets].max(-1),
      (np.eye(3)[sets] - p).sum(1),
    )
    for order, want in (("exact", 0), ("first", first), ("zeroth", zeroth)):
      weights = off_policy_weights(
        jnp.asarray(rewards[tuples], jnp.float32),
        jnp.asarray(log_ratio[tuples], jnp.float32),
        k,
        None,
        order,
      )
      got = np.einsum(
        "g,gn,gnv->v", mu[tuples].prod(-1), np.asarray(weights), score
      )
      error = np.abs(got - true).max() / np.abs(true).max()
      np.testing.assert_allclose(error, want, atol=1e-4, err_msg=(k, order))


def best_of(scores):
  """The largest score; 0 without samples."""
  return scores.max() if scores.size else 0.0


@pytest.mark.parametrize(
  ("estimator", "has_baseline"),
  [(off_policy_weights, False), (off_policy_advantages, True)],
)
def test_off_policy_forms_equal_products_over_subsets(estimator, has_baseline):
  g = np.array([0.1, 0.7, 0.7, 1.0, -0.3])
  rho = np.array([1.1, 0.9, 1.0, 1.2, 0.6])
  delta = rho - 1
  for k in (1, 2, 4, 5):
    want = dict(
      zip(("exact", "first", "zeroth"), np.zeros((3, 5)), strict=True)
    )
    for subset in map(np.array, subsets(5, k)):
      for i in subset:
        without = best_of(g[subset[subset != i]]) if has_baseline else 0.0
        gain = g[subset].max() - without
        want["exact"][i] += rho[subset].prod() * gain
        want["first"][i] += (1 + delta[subset].sum()) * gain
        want["zeroth"][i] += gain
    row, valid, at = in_slots(g)
    ratios = np.full(8, np.nan)
    ratios[at] = np.log(rho)
    for order, sums in want.items():
      got = np.asarray(
        estimator(row, jnp.asarray(ratios, jnp.float32), k, valid, order)
      )
      np.testing.assert_allclose(got[at], sums / math.comb(5, k), atol=2e-6)
      assert not np.delete(got, at).any()


def test_off_policy_is_on_policy_at_ratio_one():
  g = jnp.asarray(np.random.default_rng(1).normal(size=(3, 6)), jnp.float32)
  zero = jnp.zeros_like(g)
  for order in best_of_k.ORDERS:
    np.testing.assert_allclose(
      off_policy_weights(g, zero, 3, None, order),
      max_at_k_weights(g, 3),
      atol=1e-6,
    )
    np.testing.assert_allclose(
      off_policy_advantages(g, zero, 3, None, order),
      max_at_k_weights(g, 3, baseline="leave_one_out_minus_one"),
      atol=1e-6,
    )
  np.testing.assert_allclose(
    best_of_k.max_at_k_off_policy_value(g, zero, 3),
    max_at_k_value(g, 3),
    atol=1e-6,
  )


def test_pass_at_k_is_one_minus_the_chance_of_k_wrong_ones():
  for n, c, k in itertools.product((1, 4, 9), (0, 1, 3, 9), (1, 2, 4)):
    if c > n or k > n:
      continue
    correct = jnp.arange(n) < c
    want = 1 - math.comb(n - c, k) / math.comb(n, k)
    np.testing.assert_allclose(pass_at_k_value(correct, k), want, atol=1e-6)


@pytest.mark.parametrize("k", [1, 2, 3])
def test_analytic_advantages_are_mean_z_scores_over_subsets(k):
  for g in groups():
    if len(g) < k:
      continue
    row, valid, at = in_slots(g)
    best = np.array([max(g[list(i)]) for i in subsets(len(g), k)])
    want = np.zeros(len(g))
    if best.std() > 1e-12 * max(1, abs(g).max()):
      z = (best - best.mean()) / best.std()
      contains = np.array(
        [[i in s for i in range(len(g))] for s in subsets(len(g), k)]
      )
      want = (z[:, None] * contains).sum(0) / contains.sum(0)
    got = np.asarray(pass_at_k_advantages(row, k, valid))
    np.testing.assert_allclose(got[at], want, atol=5e-5)
    assert not np.delete(got, at).any()


def test_numbers_of_the_pass_at_k_paper_and_of_pkpo():
  """Worked values, computed by hand from the papers' formulas."""
  close = lambda a, b: np.testing.assert_allclose(a, b, atol=1e-4)  # noqa: E731
  binary = jnp.array([1.0, 0, 0, 1])
  graded = jnp.array([0.1, 0.7, 0.7, 1.0])
  a = pass_at_k_advantages
  close(a(binary, 2), [0.4472, -0.4472, -0.4472, 0.4472])
  close(a(jnp.array([0.0, 0, 0, 1]), 2), [-1 / 3, -1 / 3, -1 / 3, 1])
  close(a(graded, 2), [-1 / 3, -1 / 3, -1 / 3, 1])
  close(a(binary, 2, None, "full"), [0, 0, 0, 0])
  close(a(graded, 2, None, "full"), [-1, -1, 1, 1])
  w = max_at_k_weights
  close(w(binary, 2, None, "leave_one_out"), [0.0556, -0.3333, -0.3333, 0.0556])
  close(w(graded, 3, None, "leave_one_out_minus_one"), [0, 0, 0, 0.225])
  close(w(graded, 4, None, "leave_one_out_minus_one"), [0, 0, 0, 0.3])


def test_bootstrap_subsets_are_fair_and_keyed():
  """Averaged over keys they point where the analytic advantages do."""
  g = jnp.array([1.0, 0, 0, 1, 0, 0])
  draw = jax.vmap(
    lambda key: pass_at_k_advantages(g, 2, None, "bootstrap", key)
  )
  keys = jax.random.split(jax.random.key(0), 4000)
  mean = np.asarray(draw(keys)).mean(0)
  analytic = np.asarray(pass_at_k_advantages(g, 2))
  cosine = mean @ analytic / np.linalg.norm(mean) / np.linalg.norm(analytic)
  assert cosine > 0.999
  np.testing.assert_array_equal(draw(keys[:3]), draw(keys[:3]))
  with pytest.raises(ValueError, match="needs a key"):
    pass_at_k_advantages(g, 2, None, "bootstrap")


def test_full_form_leaves_out_the_remainder_and_invalid_slots():
  g = jnp.array([0.0, 9.0, 1.0, 1.0, 0.0, 1.0])
  valid = jnp.array([True, False, True, True, True, True])
  got = pass_at_k_advantages(g, 2, valid, "full")
  # Valid in order: 0 1 | 1 0 | 1: both maxima are 1.
  np.testing.assert_array_equal(got, np.zeros(6))
  got = pass_at_k_advantages(-g, 2, valid, "full")
  # -0 -1 | -1 -0 | left: maxima 0 and 0.
  np.testing.assert_array_equal(got, np.zeros(6))
  h = jnp.array([0.0, 9.0, 0.0, 1.0, 0.0, 5.0])
  got = pass_at_k_advantages(h, 2, valid, "full")
  np.testing.assert_allclose(got, [-1, 0, -1, 1, 1, 0], atol=1e-6)


def test_equal_scores_give_exactly_zero_however_large():
  for value in (0.1, 1e4, -3.3):
    g = jnp.full((7,), value)
    assert not pass_at_k_advantages(g, 3).any()
    for baseline in ("leave_one_out_minus_one", "centered"):
      assert not max_at_k_weights(g, 3, None, baseline).any()
    assert not pass_at_k_advantages(g, 1, None, "full").any()


@pytest.mark.parametrize("garbage", [0.5, np.nan])
def test_a_group_without_a_valid_sample_is_worth_nothing(garbage):
  g, none = jnp.full((6,), garbage), jnp.zeros((6,), bool)
  assert max_at_k_value(g, 2, none) == 0
  assert pass_at_k_value(g, 2, none) == 0
  for baseline in best_of_k.BASELINES:
    assert not max_at_k_weights(g, 2, none, baseline).any()
  for form in ("analytic", "full"):
    assert not pass_at_k_advantages(g, 2, none, form).any()


@pytest.mark.parametrize("k", [0, 5, 2.0])
def test_a_k_that_is_no_subset_size_is_refused(k):
  with pytest.raises((ValueError, TypeError), match="k "):
    max_at_k_value(jnp.ones(4), k)


BATCH = np.array(
  [
    [0.5, -1.0, 2.0, 0.25, np.nan],
    [np.nan, 3.0, 1.0, 1.0, 0.0],
    [np.nan, np.nan, np.nan, 4.0, -2.0],
  ],
  np.float32,
)
LOG_RATIOS = np.linspace(-0.4, 0.5, 15, dtype=np.float32).reshape(3, 5)


@pytest.mark.parametrize(
  "objective",
  [
    lambda g, r, valid: best_of_k.max_at_k_value(g, 2, valid),
    lambda g, r, valid: best_of_k.pass_at_k_value(g > 0.4, 2, valid),
    *(
      lambda g, r, valid, baseline=baseline: best_of_k.max_at_k_weights(
        g, 2, valid, baseline
      )
      for baseline in best_of_k.BASELINES
    ),
    lambda g, r, valid: best_of_k.max_at_k_off_policy_value(g, r, 2, valid),
    *(
      lambda g, r, valid, order=order: best_of_k.max_at_k_off_policy_advantages(
        g, r, 2, valid, order
      )
      for order in best_of_k.ORDERS
    ),
    lambda g, r, valid: best_of_k.max_at_k_off_policy_weights(g, r, 2, valid),
    lambda g, r, valid: best_of_k.pass_at_k_advantages(g, 2, valid),
    lambda g, r, valid: best_of_k.pass_at_k_advantages(g, 2, valid, "full"),
  ],
)
def test_a_group_of_a_batch_is_treated_as_if_it_were_alone(objective):
  """Its samples that do not exist may be anywhere."""
  objective = jax.jit(objective)
  g, r = BATCH, LOG_RATIOS
  together = np.asarray(objective(g, r, ~np.isnan(g)))
  for row in range(3):
    exists = ~np.isnan(BATCH[row])
    alone = objective(g[row, exists], r[row, exists], None)
    here = together[row][exists] if together.ndim == 2 else together[row]
    np.testing.assert_allclose(here, alone, atol=2e-6)
    if together.ndim == 2:
      assert not together[row][~exists].any()


def test_random_subsets_have_k_distinct_samples_that_exist():
  """A sample has the sum of the z-scores of its subsets."""
  valid = jnp.array([[True, True, False, True], [True] * 4])
  scores = jnp.array([[0.0, 1.0, 50.0, 3.0], [7.0, 7.0, 7.0, 7.0]])
  key = jax.random.key(11)
  advantages = pass_at_k_advantages(scores, 2, valid, "bootstrap", key)
  noise = jax.random.uniform(key, (2, 4, 4))[0]
  # Three subsets, because three samples exist, of the two smallest numbers.
  order = np.argsort(np.where(valid[0], noise, 2.0), -1)[:, :2]
  drawn = [order[i] for i in range(4) if valid[0, i]]
  best = np.array([max(np.asarray(scores)[0, subset]) for subset in drawn])
  z = (best - best.mean()) / best.std()
  want = [sum(z[i] for i in range(3) if s in drawn[i]) for s in range(4)]
  assert np.abs(want).max() > 0.5
  np.testing.assert_allclose(advantages[0], want, atol=1e-5)
  assert not advantages[1].any()
  lone = jnp.array([True, False, False, False])
  few = pass_at_k_advantages(scores[0], 2, lone, "bootstrap", key)
  assert not few.any()


def test_the_smallest_and_the_largest_k_are_accepted():
  g = jnp.array([1.0, 2.0, 4.0])
  np.testing.assert_allclose(max_at_k_value(g, 1), 7 / 3, rtol=1e-6)
  np.testing.assert_allclose(max_at_k_value(g, 3), 4, rtol=1e-6)
  np.testing.assert_allclose(
    best_of_k.max_at_k_weights(g, 3), [4, 4, 4], rtol=1e-6
  )
  np.testing.assert_allclose(
    best_of_k.max_at_k_off_policy_weights(g, 0 * g, 3), [4, 4, 4], rtol=1e-6
  )
  for k, nearest in ((0, 1), (4, 3)):
    for call in (
      lambda k=k: best_of_k.max_at_k_value(g, k),
      lambda k=k: best_of_k.pass_at_k_advantages(g, k, None, "full"),
    ):
      with pytest.raises(
        ValueError, match=f"k = {k} .* 3 samples .* valid value is {nearest}"
      ):
        call()
  for k in (True, 2.0):
    with pytest.raises(TypeError, match=f"k = {k} must be a static int"):
      best_of_k.max_at_k_value(g, k)


def test_unknown_choices_are_refused():
  g = jnp.ones(3)
  for kind, call in (
    ("baseline", lambda: best_of_k.max_at_k_weights(g, 2, None, "x")),
    (
      "order",
      lambda: best_of_k.max_at_k_off_policy_weights(g, g, 2, None, "x"),
    ),
    (
      "order",
      lambda: best_of_k.max_at_k_off_policy_advantages(g, g, 2, None, "x"),
    ),
    ("form", lambda: best_of_k.pass_at_k_advantages(g, 2, None, "x")),
  ):
    with pytest.raises(ValueError, match=f"unknown {kind} 'x'"):
      call()


def test_scores_of_integers_are_real_numbers():
  np.testing.assert_allclose(
    best_of_k.max_at_k_weights(jnp.array([0, 1, 4]), 1),
    [0, 1 / 3, 4 / 3],
    rtol=1e-6,
  )


def test_the_centered_weights_of_many_samples_are_not_shrunk():
  """For k = n - 1, where 1 - k/n is small."""
  n = 128
  g = jnp.arange(n, dtype=jnp.float32)
  weights = np.asarray(max_at_k_weights(g, n - 1, None, "centered"))
  # The best sample has (n - 1) / n times the gap to the second best, 1.
  np.testing.assert_allclose(weights[-1], (n - 1) / n, rtol=1e-3)
  np.testing.assert_allclose(weights[:-1], -1 / n, rtol=1e-3)


def test_a_group_of_one_sample_has_its_score_and_no_baseline():
  g, zero = jnp.array([5.0]), jnp.zeros(1)
  assert best_of_k.max_at_k_value(g, 1) == 5
  assert best_of_k.max_at_k_off_policy_value(g, zero, 1) == 5
  for baseline, want in zip(best_of_k.BASELINES, (5, 5, 5, 0), strict=True):
    weights = best_of_k.max_at_k_weights(g, 1, None, baseline)
    assert weights.tolist() == [want], baseline
  for estimate in (
    best_of_k.max_at_k_off_policy_weights,
    best_of_k.max_at_k_off_policy_advantages,
  ):
    np.testing.assert_allclose(estimate(g, zero, 1), [5])
  for form in ("analytic", "full"):
    assert best_of_k.pass_at_k_advantages(g, 1, None, form).tolist() == [0]
