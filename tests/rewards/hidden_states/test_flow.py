"""Tests of `rewards.hidden_states.flow`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from rewards.hidden_states import flow


def test_a_perfect_field_finds_nothing_amiss(monkeypatch):
  """Tests that equal states h have the velocity (h - x) / (1 - t)."""
  h = jnp.array([0.5, -1.0, 2.0])

  def perfect(field, x, time, before):
    return (h - x) / (1 - time[..., None])

  states = jnp.broadcast_to(h, (2, 4, 3))
  mask = jnp.ones((2, 4), bool).at[0, 3].set(False)
  key = jax.random.key(0)
  monkeypatch.setattr(flow, "velocity", perfect)
  near = flow.score([], states, states, mask, key)
  np.testing.assert_allclose(near, 0, atol=1e-8)
  off = flow.score([], states + 1.0, states, mask, key)
  # v - (h' - noise) = (h - h') / (1 - t) = -5 at t = .8, weighed t / (1 - t).
  np.testing.assert_allclose(off[np.asarray(mask)], 4 * 5.0**2, rtol=1e-4)
  assert off[0, 3] == 0


def test_a_field_learns_the_states_it_is_shown():
  rng = np.random.default_rng(5)
  size = 2
  states = jnp.asarray([1.0, -1.0] + 0.05 * rng.normal(size=(8, 4, size)))
  states = states.astype(jnp.float32)
  mask = jnp.ones((8, 4), bool)
  before = jnp.zeros_like(states)
  field = flow.init(jax.random.key(0), size, width=32)

  @jax.jit
  def step(field, key):
    slope = jax.grad(flow.matching_loss)(field, states, before, mask, key)
    return jax.tree.map(lambda p, g: p - 0.05 * g, field, slope)

  for key in jax.random.split(jax.random.key(1), 500):
    field = step(field, key)
  key = jax.random.key(2)
  labelled = flow.score(field, states, before, mask, key)
  strange = flow.score(field, -states, before, mask, key)
  assert strange.min() > labelled.max()
  dirty = jnp.where((jnp.arange(4) < 2)[:, None], states, jnp.nan)
  part = jnp.broadcast_to(jnp.arange(4) < 2, (8, 4))
  slope = jax.grad(flow.matching_loss)(field, dirty, dirty, part, key)
  assert all(np.isfinite(x).all() for x in jax.tree.leaves(slope))


def test_few_tokens_are_charged_and_only_those_far_off():
  rng = np.random.default_rng(6)
  scores = rng.exponential(size=(30, 12))
  mask = rng.random((30, 12)) < 0.8
  mask[0] = False
  scores[1] = 3.0
  dirty = jnp.asarray(np.where(mask, scores, np.nan))
  result = flow.token_rewards(dirty, jnp.asarray(mask), 0.01, 0.3, 2)
  for s, m, r in zip(scores, mask, result, strict=True):
    expected = np.zeros(12)
    if m.any() and s[m].max() > s[m].min():
      u = (s - s[m].min()) / (s[m].max() - s[m].min())
      best = sorted(np.flatnonzero(m), key=lambda t: -u[t])[:2]
      expected[[t for t in best if u[t] > 0.3]] = 1
      expected = -0.01 * expected * u
    np.testing.assert_allclose(r, expected, atol=1e-7)
  nothing = flow.token_rewards(dirty, jnp.asarray(mask), coef=0.0)
  np.testing.assert_array_equal(nothing, 0)


def test_a_field_is_told_what_came_before_whoever_wrote_it():
  """The state before the first token of an answer is read, and told apart."""
  field = flow.init(jax.random.key(0), 2, width=8)
  states = jnp.ones((1, 4, 2))
  mask = jnp.array([[False, True, True, False]])
  key = jax.random.key(1)
  before = jnp.full((1, 4, 2), jnp.nan).at[:, 1:3].set(0.5)
  reference = flow.score(field, states, before, mask, key)
  other = flow.score(field, states, before.at[:, 1].set(-2.0), mask, key)
  assert np.isfinite(reference).all()
  np.testing.assert_array_equal(reference[0] != other[0], [0, 1, 0, 0])


def test_a_field_reads_two_states_and_a_time():
  field = flow.init(jax.random.key(0), 3)
  shapes = [(layer["kernel"].shape, layer["bias"].shape) for layer in field]
  assert shapes == [
    ((7, 256), (256,)),
    ((256, 256), (256,)),
    ((256, 3), (3,)),
  ]


FIELD = [
  {"kernel": jnp.array([[1.0], [-2.0], [3.0]]), "bias": jnp.array([0.5])},
  {"kernel": jnp.array([[4.0]]), "bias": jnp.array([-1.0])},
]


@pytest.mark.worked_example(
  "function:flow.velocity", "function:flow.score", "function:flow.matching_loss"
)
def test_errors_of_a_small_field_by_hand(monkeypatch):
  """One channel, one hidden unit, and numbers instead of random draws."""

  def v(x, t, before):  # 4 silu(x - 2 before + 3 t + 1/2) - 1
    unit = x - 2 * before + 3 * t + 0.5
    return 4 * unit / (1 + np.exp(-unit)) - 1

  x, t, before = np.array([0.3, -0.7]), np.array([0.4, 0.9]), np.array([0.2, 1])
  value = flow.velocity(FIELD, x[:, None], t, before[:, None])
  np.testing.assert_allclose(value[:, 0], v(x, t, before), rtol=1e-5)
  h, before = np.array([0.6, -1.2]), np.array([0.1, 0.9])
  noise, times = np.array([0.5, -0.4]), np.array([0.25, 0.7])
  nan = np.nan
  states = jnp.array([*h, nan])[:, None]
  before_states = jnp.array([*before, nan])[:, None]
  mask = jnp.array([True, True, False])
  key = jax.random.key(0)
  monkeypatch.setattr(
    jax.random, "normal", lambda key, shape: jnp.array([*noise, 9.0])[:, None]
  )
  monkeypatch.setattr(
    jax.random, "uniform", lambda key, shape: jnp.array([*times, 0.1])
  )

  def error(t):
    # (v(t h + (1 - t) noise, t, before) - (h - noise))^2
    return (v(t * h + (1 - t) * noise, t, before) - (h - noise)) ** 2

  # t / (1 - t) error, with t = 0.8 and with t = 0.3
  value = flow.score(FIELD, states, before_states, mask, key)
  expected = [*(4 * error(0.8)), 0]
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  value = flow.score(FIELD, states, before_states, mask, key, 0.3)
  expected = [*(3 / 7 * error(0.3)), 0]
  np.testing.assert_allclose(value, expected, rtol=1e-4)
  loss = flow.matching_loss(FIELD, states, before_states, mask, key)
  np.testing.assert_allclose(loss, error(times).mean(), rtol=1e-4)


@pytest.mark.worked_example("function:flow.token_rewards")
def test_rewards_of_twenty_tokens():
  """Sixteen errors are above 0.6 of the largest, and 15 of them charged."""
  u = np.array([0.0, 0.5, *np.linspace(0.7, 1.0, 16), 0.25])
  mask = jnp.arange(20) < 19
  scores = jnp.array([*(2 + 8 * u), np.nan])
  # -0.01 u of the 15 largest above 0.6; that of 0.7 is the 16th.
  expected = np.where(u > 0.7, -0.01 * u, 0)
  value = flow.token_rewards(scores, mask)
  np.testing.assert_allclose(value, [*expected, 0], rtol=1e-5)
  # An error exactly at the threshold 1/2 is not charged.
  scores = jnp.array([0.0, 1.0, 2.0, 3.0, 4.0])
  value = flow.token_rewards(scores, mask[:5], 0.2, 0.5, 4)
  np.testing.assert_allclose(value, [0, 0, 0, -0.15, -0.2], rtol=1e-6)
  # Of tokens with equal errors the first ones are charged.
  equal = jnp.ones(100).at[0].set(0.0)
  value = flow.token_rewards(equal, jnp.ones(100, bool), max_tokens=3)
  np.testing.assert_allclose(value, [0, *[-0.01] * 3, *[0] * 96], rtol=1e-6)
  few = jnp.array([0.0, 5.8, 6.2, 10.0])
  value = flow.token_rewards(few, mask[:4])
  np.testing.assert_allclose(value, [0, 0, -0.0062, -0.01], rtol=1e-5)
