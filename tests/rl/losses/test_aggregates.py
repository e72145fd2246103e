"""Tests of `rl.losses.aggregates`: the weights of a mask by hand."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest

from rl.losses import aggregates

# Three prompts of two samples of up to four tokens. The first prompt has
# samples of three and one tokens, the second one of four tokens and one
# without, and the third has no token in the loss.
MASK = np.array(
  [
    [[1, 1, 0, 1], [0, 1, 0, 0]],
    [[1, 1, 1, 1], [0, 0, 0, 0]],
    [[0, 0, 0, 0], [0, 0, 0, 0]],
  ],
  bool,
)
SAMPLES = np.array([[1, 1], [1, 0], [0, 0]])  # with a token in the loss
LENGTHS = np.array([[3, 1], [4, 1], [1, 1]])[..., None]  # 1 instead of 0


@pytest.mark.parametrize(
  ("aggregate", "name", "level", "weights"),
  [
    (aggregates.token_mean(), "token_mean", "token", MASK / 8),
    (aggregates.token_sum(), "token_sum", "token", MASK * 1.0),
    (
      aggregates.seq_mean_token_mean(),
      "seq_mean_token_mean",
      "token",
      MASK / LENGTHS / 3,
    ),
    (
      aggregates.seq_mean_token_sum(),
      "seq_mean_token_sum",
      "token",
      MASK / 3,
    ),
    (
      aggregates.seq_mean_token_sum_norm(),
      "seq_mean_token_sum_norm(T)",
      "token",
      MASK / 3 / 4,
    ),
    (
      aggregates.seq_mean_token_sum_norm(10),
      "seq_mean_token_sum_norm(10)",
      "token",
      MASK / 3 / 10,
    ),
    (
      aggregates.prompt_mean_token_sum(),
      "prompt_mean_token_sum",
      "token",
      MASK / 2,
    ),
    (aggregates.sample_mean(), "sample_mean", "sample", SAMPLES / 3),
    (
      aggregates.prompt_mean(),
      "prompt_mean",
      "prompt",
      np.array([1, 1, 0]) / 2,
    ),
  ],
  ids=lambda value: value if isinstance(value, str) else "",
)
def test_the_weights_of_an_aggregate(aggregate, name, level, weights):
  assert (str(aggregate), aggregate.level) == (name, level)
  result = aggregate.fn(jnp.asarray(MASK))
  assert result.dtype == jnp.float32
  np.testing.assert_allclose(result, weights, rtol=1e-6)
  # Without any token, all weights are 0.
  assert not aggregate.fn(jnp.zeros_like(MASK)).any()


def test_a_count_of_0_becomes_a_divisor_of_1():
  divisors = aggregates.at_least_one(jnp.arange(4))
  assert divisors.dtype == jnp.float32
  assert divisors.tolist() == [1, 1, 2, 3]


def test_an_aggregate_is_a_value():
  with pytest.raises(dataclasses.FrozenInstanceError):
    aggregates.token_mean().name = "other"
