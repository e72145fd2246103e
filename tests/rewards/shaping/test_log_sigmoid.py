"""Tests of `rewards.shaping.log_sigmoid`."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import compiled, worked_example

from rewards import combine
from rewards.combine import Part
from rewards.shaping import log_sigmoid

log_sigmoid = compiled.functions(log_sigmoid)

OK = jnp.array([1.0, 0.0, 1.0, 0.0])
STYLE = jnp.array([0.2, 0.9, 0.4, 0.1])
VALUES = {"ok": OK, "style": STYLE}


def test_log_sigmoids_add_up_to_an_and():
  u = {
    name: log_sigmoid.log_sigmoid_scores(x, 0.0) for name, x in VALUES.items()
  }
  total = combine.combine(u, (Part("ok"), Part("style"))).total
  expected = jax.nn.sigmoid(OK) * jax.nn.sigmoid(STYLE)
  np.testing.assert_allclose(jnp.exp(total), expected, rtol=1e-5)


REFERENCES = jnp.array([0.0, 1.0, 2.0])


@pytest.mark.worked_example(
  "function:log_sigmoid.log_sigmoid_scores",
  "function:log_sigmoid.reference_quantile",
)
def test_log_sigmoid_s_numbers():
  quantile = log_sigmoid.reference_quantile(REFERENCES)
  np.testing.assert_allclose(quantile, 1.846244, rtol=1e-6)
  u = log_sigmoid.log_sigmoid_scores(1.0, quantile)
  np.testing.assert_allclose(u, -1.203235, rtol=1e-5)
  np.testing.assert_allclose(
    log_sigmoid.log_sigmoid_scores(quantile, quantile), -np.log(2), rtol=1e-6
  )
  assert log_sigmoid.reference_quantile(jnp.array([3.5])) == 3.5


def test_a_sum_of_log_sigmoids_is_the_log_of_a_product():
  rng = np.random.default_rng(0)
  gaps = jnp.asarray(rng.normal(size=(3, 50)), jnp.float32)
  total = jnp.exp(log_sigmoid.log_sigmoid_scores(gaps, 0.0).sum(0))
  np.testing.assert_allclose(
    total, jnp.prod(jax.nn.sigmoid(gaps), 0), rtol=1e-5
  )


def test_the_gradient_of_log_sigmoid_fades_above_and_stays_below():
  slope = jax.grad(lambda r: log_sigmoid.log_sigmoid_scores(r, 0.0))
  np.testing.assert_allclose(slope(-60.0), 1, rtol=1e-6)
  assert slope(60.0) < 1e-20
  assert np.isfinite(log_sigmoid.log_sigmoid_scores(-1e4, 0.0))


@pytest.mark.worked_example("reward:log_sigmoid")
def test_the_binding_reads_the_scores_of_reference_samples():
  """References 0, 1, 2 of prompt 0, and 3 alone of prompt 1."""
  rollout = worked_example.rollout(
    [[1.0, 2.0, 0.0], [3.0, 2.5, 4.0]],
    extras={
      "sampler/reference_scores": [[0, 1, 2, np.nan], [3] + 3 * [np.nan]]
    },
    components={"style": [[0.5, 0.0, 0.0], [0.0, 0.0, 0.0]]},
  )
  got = worked_example.reward(
    "log_sigmoid", rollout, references="sampler/reference_scores"
  )
  # r_ref = 1 + 1.0364 sqrt(2 / 3), and 3.
  gaps = [[1 - 1.846244, 2 - 1.846244, -1.846244], [0.0, -0.5, 1.0]]
  target = -np.log1p(np.exp(-np.array(gaps)))
  np.testing.assert_allclose(got, target, rtol=1e-5)
  style = worked_example.reward(
    *("log_sigmoid", rollout),
    references="sampler/reference_scores",
    component="style",
  )
  np.testing.assert_allclose(
    style[0, 0], -np.log1p(np.exp(1.846244 - 0.5)), rtol=1e-5
  )


@pytest.mark.worked_example("function:log_sigmoid.reference_quantile")
def test_quantile_of_references_that_exist():
  """References 0, 1, 2: mean 1, and standard deviation sqrt(2 / 3)."""
  references = jnp.array([[0, 1, 2, jnp.nan], [3, 7, 9, jnp.nan]])
  mask = jnp.array([[True, True, True, False], [True, True, False, False]])
  # mean + 1.0364 std, the 85th percentile of a normal distribution
  target = [1 + 1.036433 * np.sqrt(2 / 3), 5 + 1.036433 * 2]
  np.testing.assert_allclose(
    log_sigmoid.reference_quantile(references, mask), target, rtol=1e-6
  )
  np.testing.assert_allclose(
    log_sigmoid.reference_quantile(references[0, :3], z=-2.0),
    1 - 2 * np.sqrt(2 / 3),
    rtol=1e-6,
  )
