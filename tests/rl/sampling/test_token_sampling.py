"""Tokens are drawn with their exact frequencies and log-probs."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers.token_distribution import TRUNCATIONS, exact

from rl.sampling import token_sampling

PLAIN = token_sampling.TokenSampling()
sample_token = jax.jit(token_sampling.sample_token, static_argnums=2)


@pytest.mark.parametrize("name", TRUNCATIONS)
def test_frequencies_over_a_grid_of_uniforms_are_the_probabilities(name):
  sampling = dataclasses.replace(PLAIN, **TRUNCATIONS[name])
  logits = np.random.default_rng(2).normal(size=17) * 2
  grid = 4000
  uniforms = jnp.asarray((np.arange(grid) + 0.5) / grid, jnp.float32)
  rows = jnp.broadcast_to(jnp.asarray(logits, jnp.float32), (grid, 17))
  tokens, log_probs = sample_token(rows, uniforms, sampling)
  probs = exact(logits, sampling)
  counts = np.bincount(tokens, minlength=17)
  # An interval of length p holds p * grid points of the grid, up to one.
  np.testing.assert_allclose(counts / grid, probs, atol=1.001 / grid)
  assert (counts[probs == 0] == 0).all()
  np.testing.assert_allclose(log_probs, np.log(probs[tokens]), atol=1e-5)


def test_tokens_of_a_large_vocabulary_are_inverted_in_their_block():
  """Each of the 300 probabilities has its share of the unit interval."""
  weights = np.random.default_rng(6).integers(1, 64, 300)
  weights[[0, 127, 128, 255]] = 0
  weights[299] += 2**14 - weights.sum()  # the sum is a power of 2
  ends = np.cumsum(weights) / 2**14  # exact in float32
  # A uniform number at the start of the interval of each token, up to rounding.
  token = np.flatnonzero(weights)
  uniforms = (ends - weights / 2**14)[token] + 2.0**-16
  logits = np.log(np.where(weights, weights, 1e-30))
  logits = np.where(weights, logits, -np.inf)
  rows = jnp.broadcast_to(jnp.float32(logits), (len(uniforms), 300))
  tokens, log_probs = sample_token(rows, jnp.float32(uniforms), PLAIN)
  np.testing.assert_array_equal(tokens, token)
  probs = weights[tokens] / 2**14
  np.testing.assert_allclose(log_probs, np.log(probs), atol=1e-5)


def test_a_number_at_the_end_of_an_interval_draws_the_next_token():
  logits = jnp.zeros((4, 4))
  uniforms = jnp.array([0.0, 0.25, 0.5, 0.75])
  tokens, _ = sample_token(logits, uniforms, PLAIN)
  assert tokens.tolist() == [0, 1, 2, 3]


def test_the_only_possible_token_is_drawn_for_every_uniform_number():
  """Even if rounding makes the number as large as the sum of all weights."""
  only = jnp.full((4, 300), -jnp.inf)
  only = only.at[jnp.arange(4), jnp.array([0, 1, 128, 299])].set(0.5)
  for uniform in (0.0, 1.0):
    tokens, log_probs = sample_token(only, jnp.full(4, uniform), PLAIN)
    assert tokens.tolist() == [0, 1, 128, 299]
    assert not log_probs.any()


@pytest.mark.parametrize("name", ["plain", "top_k", "top_p", "min_p"])
@pytest.mark.parametrize("uniform", [0.0, 1 - 2.0**-24, 1.0])
def test_a_token_of_probability_zero_is_never_drawn(name, uniform):
  # The neighbours of every possible token are impossible, as are the first and
  # the last token. Sums over 3001 tokens round both up and down.
  generator = np.random.default_rng(3)
  logits = generator.normal(size=(64, 3001)).astype(np.float32)
  logits[:, ::2] = -np.inf
  sampling = dataclasses.replace(PLAIN, **TRUNCATIONS[name])
  uniforms = jnp.full(64, uniform, jnp.float32)
  tokens, log_probs = sample_token(logits, uniforms, sampling)
  assert (np.asarray(tokens) % 2 == 1).all()
  assert np.isfinite(log_probs).all()


@pytest.mark.parametrize(
  ("truncation", "survivors"),
  [
    ({}, [2, 1, 4, 3]),
    ({"top_k": 1}, [2]),
    ({"top_k": 3}, [2, 1, 4]),
    ({"top_k": 99}, [2, 1, 4, 3]),
    # The tokens have 8/16, 4/16, 3/16 and 1/16 of the probability.
    ({"top_p": 0.001}, [2]),
    ({"top_p": 0.499}, [2]),
    ({"top_p": 0.501}, [2, 1]),
    ({"top_p": 0.749}, [2, 1]),
    ({"top_p": 0.751}, [2, 1, 4]),
    ({"top_p": 0.95}, [2, 1, 4, 3]),
    ({"min_p": 0.125}, [2, 1, 4, 3]),
    ({"min_p": 0.375}, [2, 1, 4]),
    ({"min_p": 0.376}, [2, 1]),
    ({"min_p": 1.0}, [2]),
    # 8/15 of what top_k keeps, and then 3/8 of the most likely token.
    ({"top_k": 3, "top_p": 0.54}, [2, 1]),
    ({"top_k": 3, "top_p": 0.53, "min_p": 0.4}, [2]),
    ({"top_k": 3, "top_p": 0.81, "min_p": 0.4}, [2, 1]),
  ],
)
def test_truncations_keep_the_tokens_that_they_name(truncation, survivors):
  """Logits are divided by the temperature first, and their maximum is 0."""
  ratios = np.array([0.0, 4, 8, 1, 3]) / 8
  with np.errstate(divide="ignore"):
    scaled = np.float32(np.log(ratios))
  sampling = dataclasses.replace(PLAIN, temperature=2.0, **truncation)
  logits = jnp.stack([2 * scaled, 2 * scaled + 8])
  result = np.asarray(token_sampling.truncate(logits, sampling))
  want = np.where(np.isin(np.arange(5), survivors), scaled, -np.inf)
  np.testing.assert_allclose(result[0], want, rtol=1e-6)
  if "min_p" not in truncation:  # sums with 8 are rounded
    np.testing.assert_allclose(result[1], want, rtol=1e-5)


def test_a_top_p_of_1_keeps_the_least_likely_token():
  logits = jnp.array([[0.0, -40.0, -80.0]])
  np.testing.assert_array_equal(token_sampling.truncate(logits, PLAIN), logits)
  greedy = dataclasses.replace(PLAIN, temperature=0.0)
  tokens, _ = sample_token(
    jnp.array([[1.0, 7.0, 7.0, -2.0]]), jnp.array([0.9]), greedy
  )
  assert tokens.tolist() == [1]  # the first of the most likely


def test_tied_tokens_are_kept_together():
  logits = jnp.log(jnp.array([[0.4, 0.2, 0.2, 0.2]]))
  for truncation in ({"top_k": 2}, {"top_p": 0.5}):
    sampling = dataclasses.replace(PLAIN, **truncation)
    assert np.isfinite(token_sampling.truncate(logits, sampling)).all()


@pytest.mark.parametrize("truncation", [{"top_p": 0.9}, {"top_k": 50}])
def test_truncations_equal_sorting_on_a_large_vocabulary(truncation):
  logits = np.random.default_rng(4).normal(size=(8, 5000)) * 3
  sampling = dataclasses.replace(PLAIN, **truncation)
  is_kept = np.isfinite(token_sampling.truncate(jnp.asarray(logits), sampling))
  probs = np.stack([exact(row, sampling) for row in logits])
  np.testing.assert_array_equal(is_kept, probs > 0)


def test_temperature_zero_is_the_most_likely_token():
  logits = np.random.default_rng(5).normal(size=(9, 13))
  greedy = dataclasses.replace(PLAIN, temperature=0)
  tokens, log_probs = sample_token(logits, jnp.full(9, 0.9), greedy)
  np.testing.assert_array_equal(tokens, logits.argmax(-1))
  np.testing.assert_array_equal(log_probs, 0)
