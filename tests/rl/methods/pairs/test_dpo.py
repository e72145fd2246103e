"""Worked examples of methods whose loss is DPO on a pair of each group."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import worked_example

from rl import methods
from rl.methods.pairs import mah_dpo


@pytest.mark.worked_example("method:semi_online_dpo", "method:mah_dpo")
@pytest.mark.parametrize("name", ["semi_online_dpo", "mah_dpo"])
def test_best_and_worst_sample(name):
  """Sample 2 of the first group is the best, 1 the worst; one group is flat."""
  rollout = worked_example.rollout(
    [[0.3, -0.4, 0.8, 0.8, 9], [0.5, 0.5, 0.5, 0.5, 9]],
    [[1, 3, 2, 1, 1], [1, 2, 1, 1, 1]],
    sample_mask=np.array([[True, True, True, True, False]] * 2),
  )
  log_probs = np.full((2, 5, 3), -1.0)
  # d = log pi - log ref: -0.7 + 0.3 + 1.2 = 0.8, and 0.9 - 0.4 = 0.5.
  d = np.full((2, 5, 3), 0.6)
  d[0, 1], d[0, 2] = [-0.7, 0.3, 1.2], [0.9, -0.4, 5]
  loss, slopes = worked_example.loss(
    methods.get(name), rollout, log_probs, other={"ref": log_probs - d}
  )
  # -log sigma(beta (d_+ - d_-)) with beta = 0.1.
  x = 0.1 * (0.5 - 0.8)
  np.testing.assert_allclose(loss, np.log1p(np.exp(-x)), rtol=1e-5)
  rate = 0.1 / (1 + np.exp(x))
  wanted = np.zeros((2, 5, 3))
  wanted[0, 1], wanted[0, 2, :2] = rate, -rate
  np.testing.assert_allclose(slopes, wanted, atol=1e-6)


@pytest.mark.worked_example("method:semi_online_dpo")
def test_imitation_and_generator():
  """0.5 times the mean of -log pi over the tokens of the best sample."""
  rollout = worked_example.rollout([[0.3, 0.8, 0.1]], [[1, 2, 3]])
  log_probs = np.full((1, 3, 3), -1.0)
  log_probs[0, 1] = [-0.5, -2, -9]
  m = methods.get("semi_online_dpo", nll_coef=0.5)
  loss, slopes = worked_example.loss(m, rollout, log_probs)
  np.testing.assert_allclose(loss, np.log(2) + 0.5 * 2.5 / 2, rtol=1e-5)
  wanted = [[0] * 3, [-0.05 - 0.25] * 2 + [0], [0.05] * 3]
  np.testing.assert_allclose(slopes[0], wanted, atol=1e-6)
  # The generator is a copy that is renewed after every 10 training steps.
  for name in ("semi_online_dpo", "semi_online_grpo"):
    update = dict(methods.get(name).parameter_sets)["generator"].update
    copies = [update(jnp.zeros(()), jnp.ones(()), i) for i in (8, 9, 10)]
    assert [int(x) for x in copies] == [0, 1, 0]


@pytest.mark.worked_example("method:mah_dpo")
def test_pairs_by_objective_and_their_weight():
  """Two of three objectives have a pair; each has its own."""
  rollout = worked_example.rollout(
    [1, 2, 3],
    components={"a": [0.2, 0.9, 0.5], "b": [3, 2, 1], "c": [4, 4, 4]},
  )
  for name, pair in (("a", [-1, 1, 0]), ("b", [1, 0, -1]), ("", [-1, 0, 1])):
    actual = worked_example.apply(mah_dpo.pair_of(name), rollout)
    np.testing.assert_array_equal(actual, [pair])
  weight = mah_dpo.objective_weight(("a", "b", "c"))
  np.testing.assert_allclose(worked_example.apply(weight, rollout), 1 / 2)
