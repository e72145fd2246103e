"""The parts of an experiment, and its states on two meshes."""

import dataclasses
import types as python_types

import jax
import numpy as np
import pytest
from helpers import small_run, worked_example

from experiments.training import prng_keys
from experiments.training.experiment import (
  KINDS,
  Experiment,
  _state_shardings,
)
from models import lora, policy, sharding, transformer
from rl import scoring, step
from rl.sampling import samplers

NAMESPACE = python_types.SimpleNamespace


@pytest.fixture(scope="module")
def small():
  return small_run.experiment()


def changed(e, **model):
  """The experiment with another shape of the decoder."""
  model = dataclasses.replace(e.model, **model)
  return dataclasses.replace(e, model=model, policy=policy.bind(model))


def keys_of(e):
  """Returns the keys of the initial parameters and of the run."""
  seed_key = prng_keys.from_seed(e.config.seed)
  return jax.random.split(
    jax.random.fold_in(seed_key, KINDS.index(e.config.kind))
  )


def assert_equal(one, other):
  jax.tree.map(np.testing.assert_array_equal, one, other)


def test_parameters_and_samples_have_keys_of_their_own(small):
  state = small.init()
  params_key, run_key = keys_of(small)
  np.testing.assert_array_equal(
    *map(jax.random.key_data, (state.carried.key, run_key))
  )
  init = jax.jit(lambda key: transformer.init(small.model, key))
  assert_equal(state.params, init(params_key))
  assert state.carried.frozen == {}


def test_heads_that_a_folder_lacks_are_initialised(small):
  """It has the head "a" alone, which is kept."""
  e = changed(small, extra_heads=(("a", 2), ("b", 3)))
  init = jax.jit(lambda key: transformer.init_heads(e.model, key))
  expected = init(keys_of(e)[0])["heads"]
  shapes = jax.eval_shape(
    lambda key: transformer.init(e.model, key), jax.random.key(0)
  )
  params = jax.tree.map(lambda x: np.full(x.shape, 0.5, x.dtype), shapes)
  del params["heads"]["b"]
  state = e.init(params)
  assert_equal(state.params["heads"]["a"], params["heads"]["a"])
  assert_equal(state.params["heads"]["b"], expected["b"])


def test_adapters_that_a_folder_lacks_are_initialised(small):
  e = changed(small, lora_rank=2)
  assert e.model_without_lora == small.model
  init = jax.jit(lambda key: lora.init(e.model, key))
  shapes = jax.eval_shape(
    lambda key: transformer.init(small.model, key), jax.random.key(0)
  )
  params = jax.tree.map(lambda x: np.full(x.shape, 0.5, x.dtype), shapes)
  state = e.init(params)
  assert_equal(state.params, init(keys_of(e)[0]))
  assert_equal(state.carried.frozen, params)


def test_an_experiment_does_not_change(small):
  """Its shapes are computed once."""
  with pytest.raises(dataclasses.FrozenInstanceError):
    small.model = None


def test_a_demonstration_is_the_only_sample_of_its_prompt():
  e = small_run.experiment("supervised")
  assert e.abstract_rollout.scores.shape == (small_run.PROMPTS, 1)


def test_only_heads_of_the_decoder_are_selected():
  shapes = {"decoder": {"w": 1}, "heads": {"a": 2}}
  e = NAMESPACE(abstract_params_without_lora=shapes)
  params = {"decoder": {"w": 10}, "heads": {"a": 20, "b": 30}, "value": 40}
  assert Experiment.select_params(e, params) == {
    "decoder": {"w": 10},
    "heads": {"a": 20},
  }


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


@pytest.mark.several_devices
def test_heads_are_repeated_for_the_mesh_that_samples(small):
  """One group of two query heads is split over two devices."""
  e = changed(small, kv_heads=1)
  assert e.sampling_model == e.model
  assert e.sampling_policy is e.policy
  split = sharding.make_mesh(tensor=2, data=1, devices=jax.devices()[:2])
  other = dataclasses.replace(e, sampling_mesh=split)
  assert other.sampling_model.kv_heads == 2
  assert other.sampling_policy is policy.bind(other.sampling_model)
  assert other.sampling_policy is not e.policy
  # No head is repeated on another mesh that divides them.
  one_device = sharding.make_mesh(devices=jax.devices()[1:2])
  assert (
    dataclasses.replace(e, sampling_mesh=one_device).sampling_policy is e.policy
  )


class NumberedDevices:
  """A mesh of devices that have numbers."""

  def __init__(self, devices):
    self.devices = np.array(devices)


def on_meshes(train, sample, **fields):
  """An experiment on devices that have numbers."""
  e = NAMESPACE(
    mesh=NumberedDevices(train),
    sampling_mesh=NumberedDevices(sample),
    **fields,
  )
  e.evaluation_mesh = Experiment.evaluation_mesh.fget(e)
  return e


def test_the_devices_of_training_evaluate():
  """On the mesh that samples, if it has the same devices."""
  e = on_meshes([[1, 2]], [[2], [1]])
  assert e.evaluation_mesh is e.sampling_mesh
  e = on_meshes([[1, 2]], [[3]])
  assert e.evaluation_mesh is e.mesh


@pytest.mark.parametrize("on_sampling_mesh", [False, True])
def test_an_evaluation_reads_what_its_mesh_has(on_sampling_mesh):
  fields = {
    "policy": "policy",
    "sampling_policy": "sampling policy",
    "abstract": NAMESPACE(params={"a": 1}, carried=NAMESPACE(frozen={"b": 2})),
    "abstract_sampler_state": NAMESPACE(
      params={"a": 3}, carried=NAMESPACE(frozen={"b": 4})
    ),
    "sampling_params": lambda params: {"a": params["a"] + 1},
    "abstract_evaluation_params": {"a": NAMESPACE(sharding=jax.devices()[0])},
  }
  # Two devices train; they sample too, on another mesh, or one other does.
  e = on_meshes([1, 2], [[2], [1]] if on_sampling_mesh else [3], **fields)
  functions = Experiment.evaluation_policy.fget(e)
  shapes = Experiment.abstract_evaluation_params.fget(e)
  params = Experiment.evaluation_params(e, {"a": np.float32(5)})
  if on_sampling_mesh:
    assert functions == "sampling policy"
    assert shapes == {"a": 3, "b": 4}
    assert params == {"a": 6}
  else:
    assert functions == "policy"
    assert shapes == {"a": 1, "b": 2}
    assert params == {"a": 5}


@pytest.mark.parametrize(
  ("sampler", "names"),
  [
    (samplers.once(), {"behavior"}),
    (samplers.greedy(), {"behavior", "ref", "critic"}),
  ],
)
def test_a_sampler_gets_the_parameters_that_it_reads(sampler, names):
  state = step.State(
    step=0,
    learners={
      "policy": step.Learner({"a": 1}, "optimizer", "method"),
      "critic": step.Learner({"a": 6}, "optimizer", "method"),
      "prm": step.Learner({"a": 7}, "optimizer", "method"),
    },
    parameter_sets={"behavior": {"a": 2}, "ref": {"a": 3}},
    carried=step.Carried("key", "memory", {"b": 4}, {"m": 5}),
  )
  method = NAMESPACE(sampler=sampler, behavior="behavior")
  e = NAMESPACE(
    method=method,
    methods={"policy": None, "critic": None},
    mesh="mesh",
    sampling_mesh="mesh",
  )
  part = Experiment.sampler_state(e, state)
  assert part == step.State(
    step=0,
    learners={
      name: step.Learner(state.learners[name].params, ())
      for name in ("policy", "critic")
      if name in names | {"policy"}
    },
    parameter_sets={
      name: params
      for name, params in state.parameter_sets.items()
      if name in names
    },
    carried=step.Carried("key", "memory", {"b": 4}, {}),
  )
  # On a mesh of its own it has parameters in another form.
  e.sampling_mesh = "other mesh"
  e.sampling_params = lambda params: {k: -v for k, v in params.items()}
  part = Experiment.sampler_state(e, state)
  assert part.params == {"a": -1}
  assert part.carried.frozen == {"b": -4}
  assert part.parameters == {
    name: {"a": -state.parameters[name]["a"]} for name in {"policy", *names}
  }


def test_checkpoints_have_no_parameters_that_are_not_trained():
  carried = step.Carried("key", "memory", {"b": 4}, {"m": 5})
  state = step.State(0, {"prm": 1}, {"ref": 2}, carried)
  part = Experiment.saved_part(NAMESPACE(), state)
  assert part == state.replace(carried=step.Carried("key", "memory"))


def test_arrays_of_prompts_are_split_over_the_mesh():
  e = NAMESPACE(batch_sharding="split", replicated="copied")
  rollout = worked_example.rollout([[1.0, 2.0], [3.0, 4.0]])
  for rollouts in (rollout, {"policy": rollout, "other": rollout}):
    shardings = Experiment.rollout_shardings(e, rollouts)
    one = shardings["other"] if isinstance(rollouts, dict) else shardings
    assert (one.scores, one.tokens.prompts, one.keys) == ("split",) * 3
    assert one.step == "copied"


@pytest.mark.several_devices
def test_states_of_methods_and_samplers_are_replicated():
  """They have any names; parameters and optimizers follow the rules."""
  mesh = sharding.make_mesh(fsdp=2, devices=jax.devices()[:2])
  params = {"layers": {"mlp": {"up": {"kernel": np.zeros((1, 4, 4))}}}}
  other = {"any": np.zeros((4, 4))}
  state = step.State(
    step=np.int32(0),
    learners={"policy": step.Learner(params, {"mu": params}, other)},
    parameter_sets={"ref": params},
    carried=step.Carried(np.zeros(2, np.uint32), other, params, {"m": params}),
  )
  copied, split = (
    jax.NamedSharding(mesh, spec)
    for spec in (jax.P(), jax.P(None, "fsdp", "tensor"))
  )
  params = {"layers": {"mlp": {"up": {"kernel": split}}}}
  assert _state_shardings(state, mesh) == step.State(
    step=copied,
    learners={"policy": step.Learner(params, {"mu": params}, {"any": copied})},
    parameter_sets={"ref": params},
    carried=step.Carried(copied, {"any": copied}, params, {"m": params}),
  )
