"""Tests of the sampler `rewards.shaping.reference_scores`."""

import dataclasses

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import tabular_policy

from rewards.shaping import reference_scores
from rl.sampling import samplers


def test_reference_scores_are_those_of_the_reference_policy():
  """The references are numbered after the samples and are not in the group."""
  requested, sampled = [], []

  def sample(params, count, first=0, active=None, temperature=None):
    requested.append((params, count, first))
    scores = jnp.arange(2 * count, dtype=jnp.float32).reshape(2, count) + first
    rollout = tabular_policy.rollout(p=2, s=count, t=3, k=1, ragged=False)
    exists = scores != 6.0  # a score that the task did not give
    sampled.append(rollout.tokens.mask.sum())
    return rollout.replace(scores=scores, sample_mask=exists)

  batch = samplers.PromptBatch(
    *(None, "policy", {"ref": "base"}, 4, 1.0, sample, None, None)
  )
  sampler = reference_scores.reference_scores(count=3)
  result = sampler.run(batch, ())
  assert requested == [("policy", 4, 0), ("base", 3, 4)]
  assert result.scores.shape == (2, 4)
  assert result.extras["sampler/tokens"] == sum(sampled)
  np.testing.assert_array_equal(
    result.extras["sampler/reference_scores"], [[4, 5, np.nan], [7, 8, 9]]
  )
  assert sampler.gives == ("sampler/reference_scores",)
  with pytest.raises(ValueError, match="unknown parameter set 'ref'"):
    sampler.run(dataclasses.replace(batch, parameter_sets={}), ())


def test_the_number_of_references_is_8_and_at_least_1():
  default, one = (
    reference_scores.reference_scores(),
    reference_scores.reference_scores(count=1),
  )
  assert default.name == "reference_scores(count=8, params=ref)"
  assert one.name == "reference_scores(count=1, params=ref)"
  with pytest.raises(ValueError, match="count = 0 must be at least 1"):
    reference_scores.reference_scores(count=0)
