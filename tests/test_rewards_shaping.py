"""Shapes of scores, their running moments, and ensembles."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards import ensembles, shaping

REFERENCES = jnp.array([0.0, 1.0, 2.0])
RELATIVE = [
  shaping.preference,
  shaping.late_preference,
  shaping.centered,
  shaping.tanh,
  shaping.arctan,
  shaping.polynomial,
]


def test_par_s_number_and_its_ends():
  np.testing.assert_allclose(
    shaping.preference(1.0, REFERENCES), 0.5, rtol=1e-6
  )
  far = shaping.preference(jnp.array([-80.0, 80.0]), REFERENCES)
  np.testing.assert_allclose(far, [0, 1], atol=1e-6)
  one, other = jnp.float32(0.3), jnp.float32(1.7)
  total = shaping.preference(one, other[None]) + shaping.preference(
    other, one[None]
  )
  np.testing.assert_allclose(total, 1, rtol=1e-6)
  steep = shaping.preference(1.5, REFERENCES, slope=1e4)
  np.testing.assert_allclose(steep, 2 / 3, rtol=1e-6)  # two of three beaten


@pytest.mark.parametrize("shape", RELATIVE)
def test_relative_shapes_rise_and_do_not_see_a_common_shift(shape):
  scores = jnp.linspace(-3, 4, 40)
  value = shape(scores, REFERENCES)
  assert (jnp.diff(value) > 0).all()
  moved = shape(scores + 17, REFERENCES + 17)
  np.testing.assert_allclose(moved, value, atol=2e-5)
  # Several references are the mean over each of them.
  each = jnp.stack([shape(scores, r[None]) for r in REFERENCES])
  np.testing.assert_allclose(value, each.mean(0), atol=1e-6)
  assert shape(jnp.float32(1), REFERENCES, jnp.zeros(3, bool)) == 0


def test_the_polynomial_is_near_the_sigmoid_and_clipped():
  gaps = jnp.linspace(-4.9, 4.9, 200)
  found = shaping.polynomial(gaps, jnp.zeros(1))
  np.testing.assert_allclose(found, jax.nn.sigmoid(gaps), atol=0.03)
  ends = shaping.polynomial(jnp.array([-5.0, 5.0, -99.0, 99.0]), jnp.zeros(1))
  np.testing.assert_array_equal(ends, [0, 1, 0, 1])


def test_slow_growth_is_the_same_shape_three_later():
  np.testing.assert_allclose(
    shaping.late_preference(4.0, REFERENCES),
    shaping.preference(1.0, REFERENCES),
    rtol=1e-6,
  )


def test_tokens_beyond_those_that_are_free_cost():
  found = shaping.length_charge(jnp.array([10, 300, 301, 500]))
  np.testing.assert_allclose(found, [0, 0, -0.01, -2], rtol=1e-5, atol=1e-7)


def test_log_sigmoid_s_numbers():
  quantile = shaping.reference_quantile(REFERENCES)
  np.testing.assert_allclose(quantile, 1.846244, rtol=1e-6)
  u = shaping.log_sigmoid(1.0, quantile)
  np.testing.assert_allclose(u, -1.203235, rtol=1e-5)
  np.testing.assert_allclose(
    shaping.log_sigmoid(quantile, quantile), -np.log(2), rtol=1e-6
  )
  assert shaping.reference_quantile(jnp.array([3.5])) == 3.5


def test_a_sum_of_log_sigmoids_is_the_log_of_a_product():
  rng = np.random.default_rng(0)
  gaps = jnp.asarray(rng.normal(size=(3, 50)), jnp.float32)
  total = jnp.exp(shaping.log_sigmoid(gaps, 0.0).sum(0))
  np.testing.assert_allclose(
    total, jnp.prod(jax.nn.sigmoid(gaps), 0), rtol=1e-5
  )


def test_the_gradient_of_log_sigmoid_fades_above_and_stays_below():
  slope = jax.grad(lambda r: shaping.log_sigmoid(r, 0.0))
  np.testing.assert_allclose(slope(-60.0), 1, rtol=1e-6)
  assert slope(60.0) < 1e-20
  assert np.isfinite(shaping.log_sigmoid(-1e4, 0.0))


def test_streaming_moments_are_those_of_all_batches():
  rng = np.random.default_rng(1)
  batches = [rng.normal(5, 3, size) for size in ((4,), (2, 3), (1,), (50,))]
  moments = shaping.init_moments()
  for batch in batches:
    moments = shaping.observe(moments, jnp.asarray(batch, jnp.float32))
  every = np.concatenate([batch.ravel() for batch in batches])
  np.testing.assert_allclose(moments.mean, every.mean(), rtol=1e-5)
  np.testing.assert_allclose(moments.std, every.std(), rtol=1e-5)
  assert moments.low == np.float32(every.min())
  assert moments.high == np.float32(every.max())
  scores = jnp.asarray(every, jnp.float32)
  np.testing.assert_allclose(
    shaping.standardized(scores, moments),
    (every - every.mean()) / every.std(),
    atol=1e-5,
  )
  unit = shaping.min_max(scores, moments)
  assert (unit.min(), unit.max()) == (0, 1)
  within = shaping.clipped(scores, moments)
  np.testing.assert_allclose(jnp.ptp(within), 2 * every.std(), rtol=1e-5)


def test_moments_of_one_score_and_of_none():
  moments = shaping.observe(shaping.init_moments(), jnp.array([2.0]))
  assert shaping.standardized(jnp.array([3.0]), moments) == 1  # over 1
  assert shaping.min_max(jnp.array([2.0]), moments) == 0
  same = shaping.observe(moments, jnp.array([jnp.nan, 9.0]), jnp.zeros(2, bool))
  np.testing.assert_array_equal(jnp.stack(same), jnp.stack(moments))
  assert shaping.ceiling(jnp.float32(9.0), 2.0) == 2


def test_an_unbounded_shape_can_be_hacked_and_a_bounded_one_less():
  """The weakness of centring alone: one outlier is worth any other gain."""
  good, hacked = jnp.float32(3.0), jnp.float32(300.0)
  gain = shaping.centered(hacked, REFERENCES) - shaping.centered(
    good, REFERENCES
  )
  assert gain > 100
  bounded = shaping.preference(hacked, REFERENCES) - shaping.preference(
    good, REFERENCES
  )
  assert bounded < 0.2


# Ensembles.

MEMBERS = jnp.array([1.0, 2.0, 6.0])[:, None]
RULES = [
  ensembles.mean,
  ensembles.median,
  ensembles.worst,
  ensembles.less_spread,
  ensembles.less_variance,
]


def test_aggregates_of_three_members():
  expected = [3, 2, 1, 0.839753, 2 / 3]
  for rule, value in zip(RULES, expected, strict=True):
    np.testing.assert_allclose(rule(MEMBERS)[0], value, rtol=1e-5)


@pytest.mark.parametrize("rule", RULES)
def test_members_are_exchangeable_and_equal_ones_are_one(rule):
  rng = np.random.default_rng(2)
  scores = jnp.asarray(rng.normal(size=(5, 30)), jnp.float32)
  np.testing.assert_allclose(rule(scores[::-1]), rule(scores), atol=1e-6)
  alike = jnp.broadcast_to(scores[0], scores.shape)
  np.testing.assert_allclose(rule(alike), scores[0], atol=1e-6)
  assert (ensembles.worst(scores) <= ensembles.median(scores)).all()


@pytest.mark.parametrize("rule", RULES)
def test_centred_members_have_no_offset(rule):
  rng = np.random.default_rng(3)
  scores = jnp.asarray(rng.normal(size=(5, 2, 8)), jnp.float32)
  shifted = scores.at[1].add(10.0).at[3, 0].add(-4.0)
  np.testing.assert_allclose(
    rule(ensembles.center_members(shifted)),
    rule(ensembles.center_members(scores)),
    atol=1e-5,
  )


def test_what_one_member_overrates_the_worst_does_not():
  scores = jnp.array([[9.0, 1.0], [-1.0, 1.0], [-1.0, 1.0]])
  assert jnp.argmax(ensembles.mean(scores)) == 0  # the mean's own weakness
  assert jnp.argmax(ensembles.worst(scores)) == 1
  assert jnp.argmax(ensembles.median(scores)) == 1
