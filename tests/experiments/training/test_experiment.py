"""The parts of an experiment, and the shapes that follow from them."""

import dataclasses
import types as python_types

import jax
import pytest
from helpers import small_run, worked_example

from experiments.training.experiment import Experiment
from models import policy, sharding
from rl import scoring

NAMESPACE = python_types.SimpleNamespace


@pytest.fixture(scope="module")
def small():
  return small_run.experiment()


def test_an_experiment_does_not_change(small):
  """Its shapes are computed once."""
  with pytest.raises(dataclasses.FrozenInstanceError):
    small.model = None


def test_a_demonstration_is_the_only_sample_of_its_prompt():
  e = small_run.experiment("supervised")
  assert e.abstract_rollout.scores.shape == (small_run.PROMPTS, 1)


@pytest.mark.parametrize("part", ["signal_needs", "term_needs"])
def test_a_reference_is_computed_once_for_the_texts_of_a_file(part):
  reference = scoring.Need("ref", scoring.log_probs)
  needs = {reference, scoring.Need("policy", scoring.log_probs)}
  method = NAMESPACE(
    **{"signal_needs": set(), "term_needs": set(), part: needs}
  )
  e = NAMESPACE(config=NAMESPACE(kind="preferences"), method=method)
  assert Experiment.reference_needs.fget(e) == {reference}
  e.config.kind = "rl"
  assert Experiment.reference_needs.fget(e) == frozenset()


def test_arrays_of_prompts_are_split_over_the_mesh():
  e = NAMESPACE(batch_sharding="split", replicated="copied")
  rollout = worked_example.rollout([[1.0, 2.0], [3.0, 4.0]])
  for rollouts in (rollout, {"policy": rollout, "other": rollout}):
    shardings = Experiment.rollout_shardings(e, rollouts)
    one = shardings["other"] if isinstance(rollouts, dict) else shardings
    assert (one.scores, one.tokens.prompts, one.keys) == ("split",) * 3
    assert one.step == "copied"


@pytest.mark.several_devices
def test_heads_are_repeated_for_the_mesh_that_samples():
  """One group of two query heads is split over two devices."""
  e = small_run.experiment(model__kv_heads=1)
  assert e.sampling_model == e.model
  assert e.sampling_policy is e.policy
  split = sharding.make_mesh(tensor=2, data=1, devices=jax.devices()[:2])
  other = dataclasses.replace(e, sampling_mesh=split)
  model = other.sampling_model
  assert model.kv_heads == 2
  assert other.sampling_policy is policy.bind(model)
  assert other.sampling_policy is not e.policy
  # No head is repeated on another mesh that divides them.
  one_device = sharding.make_mesh(devices=jax.devices()[1:2])
  other = dataclasses.replace(e, sampling_mesh=one_device)
  assert other.sampling_policy is e.policy
