"""Worked example of EEPO."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clipped_group, compiled, worked_example

from rl import methods
from rl.methods.sampling import eepo

eepo = compiled.functions(eepo)


class Batch:
  """Two prompts; the parameters are the log-probs of the first two samples."""

  policy, samples, temperature = worked_example.POLICY, 5, 1.0

  def __init__(self, probabilities):
    table = jnp.log(jnp.asarray(probabilities, jnp.float32))
    self.params = {"log_probs": table, "values": jnp.zeros_like(table)}
    self.used = []

  def sample(self, params, count, first=0, active=None):
    self.used.append((np.asarray(params["log_probs"]), count, first))
    exists = np.array([[True, True, True], [True, False, True]])
    return worked_example.rollout(
      np.zeros((2, count)),
      np.array([[3, 2, 1], [1, 2, 3]])[:, :count],
      sample_mask=exists[:, :count],
    )


P = np.array(
  [[[0.9, 0.95, 0.99], [0.97, 0.93, 0.5]], [[0.96, 0.5, 0.5], [0.4, 0.5, 0.5]]]
)


@pytest.mark.worked_example("method:eepo")
@pytest.mark.parametrize(
  ("earlier", "seen", "unlearns"),
  # The mean entropy of the six tokens is 0.189; the threshold is 0.3.
  [([0, 0, 0], 0, True), ([9, 0.3, 0.4], 5, True), ([0, 0.3, 0.5], 5, False)],
)
def test_the_second_half_after_unlearning(earlier, seen, unlearns):
  """theta' = theta - 0.003 grad, of the mean over samples of -log(1 - p)."""
  batch = Batch(P)
  memory = {"entropies": jnp.float32(earlier), "seen": jnp.int32(seen)}
  sampler = methods.get("eepo").sampler
  np.testing.assert_array_equal(sampler.init()["entropies"], [0, 0, 0])
  rollout = sampler.run(batch, memory)
  new = rollout.memory
  (first, *call), (second, *later) = batch.used
  assert (call, later) == ([2, 0], [3, 2])
  # The slope of -log(1 - p) in log p is p / (1 - p).
  mask = np.array([[[1, 1, 1], [1, 1, 0]], [[1, 0, 0], [0, 0, 0]]], bool)
  shares = mask / np.array([[3, 2], [1, 1]])[..., None] / 3
  step = 3e-3 * shares * P / (1 - P) * unlearns
  np.testing.assert_allclose(second, np.log(P) - step, atol=1e-6)
  np.testing.assert_allclose(first, np.log(P), atol=1e-6)
  q = P[mask]
  entropy = np.mean(-q * np.log(q) - (1 - q) * np.log(1 - q))
  recent = [*earlier[1:], entropy]
  np.testing.assert_allclose(new["entropies"], recent, rtol=1e-4)
  assert new["seen"] == (3 if seen else 1)
  # The first half, of two samples, and then the second one.
  np.testing.assert_array_equal(
    rollout.tokens.lengths, [[3, 2, 3, 2, 1], [1, 2, 1, 2, 3]]
  )
  assert (sum(recent) / (3 if seen else 1) < 0.3) == unlearns


@pytest.mark.worked_example("method:eepo")
def test_an_entropy_that_is_the_threshold_is_not_below_it():
  batch, sampler = Batch(P), methods.get("eepo").sampler
  entropy = sampler.run(batch, sampler.init()).memory["entropies"][-1]
  sampler = methods.get("eepo", threshold=float(entropy)).sampler
  sampler.run(batch, sampler.init())
  (first, *_), (second, *_) = batch.used[2:]
  np.testing.assert_array_equal(second, first)


def test_a_single_sample_is_drawn_in_one_pass():
  """There is no half to unlearn, and the memory stays as it is."""
  batch = Batch(P)
  batch.samples = 1
  memory = {"entropies": jnp.arange(3.0), "seen": jnp.int32(2)}
  rollout = methods.get("eepo").sampler.run(batch, memory)
  assert rollout.memory is memory
  assert [call[1:] for call in batch.used] == [(1, 0)]


def test_the_loss_of_a_certain_token_is_bounded():
  """-log(1 - p) with p = 1 - 1e-4 is 9.21; the other token has log 2."""
  log_probs = jnp.log(jnp.array([[[1, 0.5]]]))
  loss = eepo.unlearning_loss(log_probs, jnp.ones((1, 1, 2), bool))
  np.testing.assert_allclose(loss, (4 * np.log(10) + np.log(2)) / 2, rtol=1e-3)


@pytest.mark.worked_example("method:eepo")
def test_ratios_to_the_sampler():
  """The log-probs of the sampler, and not those of the trainer, are below."""
  expected = clipped_group.objective(
    clipped_group.Z_SCORES, clipped_group.SAMPLE_MEAN, 0.8, 1.2
  )
  rollout = clipped_group.group(
    behavior_log_probs=np.log(clipped_group.OLD)[None]
  )
  log_probs = np.log(clipped_group.OLD * clipped_group.RATIOS)
  log_probs = np.where(clipped_group.MASK, log_probs, -1)[None]
  loss, slopes = worked_example.loss(
    methods.get("eepo"), rollout, log_probs, log_probs
  )
  np.testing.assert_allclose(loss, expected[0], rtol=1e-5, atol=1e-6)
  np.testing.assert_allclose(slopes[0], expected[1], atol=1e-6)
