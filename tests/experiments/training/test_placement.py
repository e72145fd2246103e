"""The state of an experiment on its meshes, and what is read from it."""

import dataclasses
import re
import types

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.training import (
  checkpointing,
  initial_state,
  placement,
  prng_keys,
)
from experiments.training.experiment import KINDS, Experiment
from models import lora, policy, sharding, transformer
from rl import parameter_sets, training_state
from rl.sampling import samplers
from rl.update_plan import Plan

NAMESPACE = types.SimpleNamespace


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
  state = placement.init_state(small)
  params_key, run_key = keys_of(small)
  np.testing.assert_array_equal(
    *map(jax.random.key_data, (state.carried.key, run_key))
  )
  init = jax.jit(lambda key: transformer.init(small.model, key))
  assert_equal(state.params, init(params_key))
  assert state.carried.frozen == {}


def test_copies_of_a_lag_are_saved_and_the_sampler_has_the_oldest(tmp_path):
  e = small_run.experiment()
  method = dataclasses.replace(
    e.method,
    parameter_sets=(("past", parameter_sets.lag(2)),),
    behavior="past",
  )
  e = dataclasses.replace(e, methods={"policy": method})
  state = placement.init_state(e)
  copies = state.parameter_sets["past"]
  oldest = jax.tree.map(lambda x: x + 1, copies[0])
  value = (oldest, copies[1])
  state = state.replace(parameter_sets={"past": value})
  shardings = placement.state_shardings(e)
  assert shardings.parameter_sets["past"] == (shardings.params,) * 2
  assert_equal(placement.sampler_state(e, state).parameters["past"], oldest)
  with checkpointing.Checkpoints(tmp_path) as checkpoints:
    checkpoints.save(0, state.saved_part(), {})
    checkpoints.wait()
    restored, _ = checkpoints.restore(placement.abstract_state(e))
  assert_equal(restored.parameter_sets["past"], value)


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
  state = placement.init_state(e, params)
  assert_equal(state.params["heads"]["a"], params["heads"]["a"])
  assert_equal(state.params["heads"]["b"], expected["b"])


def test_adapters_that_a_folder_lacks_are_initialised(small):
  e = changed(small, lora_rank=2)
  assert initial_state.model_without_lora(e) == small.model
  init = jax.jit(lambda key: lora.init(e.model, key))
  shapes = jax.eval_shape(
    lambda key: transformer.init(small.model, key), jax.random.key(0)
  )
  params = jax.tree.map(lambda x: np.full(x.shape, 0.5, x.dtype), shapes)
  state = placement.init_state(e, params)
  assert_equal(state.params, init(keys_of(e)[0]))
  assert_equal(state.carried.frozen, params)


def test_checkpoints_have_no_parameters_that_are_not_trained():
  carried = training_state.Carried("key", "memory", {"b": 4}, {"m": 5})
  state = training_state.State(0, {"prm": 1}, {"ref": 2}, carried)
  part = state.saved_part()
  assert part == state.replace(carried=training_state.Carried("key", "memory"))


@pytest.mark.several_devices
def test_states_of_methods_and_samplers_are_replicated():
  """They have any names; parameters and optimizers follow the rules."""
  mesh = sharding.make_mesh(fsdp=2, devices=jax.devices()[:2])
  params = {"layers": {"mlp": {"up": {"kernel": np.zeros((1, 4, 4))}}}}
  other = {"any": np.zeros((4, 4))}
  state = training_state.State(
    step=np.int32(0),
    learners={"policy": training_state.Learner(params, {"mu": params}, other)},
    parameter_sets={"ref": params},
    carried=training_state.Carried(
      np.zeros(2, np.uint32), other, params, {"m": params}
    ),
  )
  copied, split = (
    jax.NamedSharding(mesh, spec)
    for spec in (jax.P(), jax.P(None, "fsdp", "tensor"))
  )
  params = {"layers": {"mlp": {"up": {"kernel": split}}}}
  assert placement._shardings_on(state, mesh) == training_state.State(
    step=copied,
    learners={
      "policy": training_state.Learner(params, {"mu": params}, {"any": copied})
    },
    parameter_sets={"ref": params},
    carried=training_state.Carried(
      copied, {"any": copied}, params, {"m": params}
    ),
  )


class NumberedDevices:
  """A mesh of devices that have numbers."""

  def __init__(self, devices):
    self.devices = np.array(devices)


def on_meshes(train, sample, **fields):
  """An experiment on devices that have numbers."""
  return NAMESPACE(
    mesh=NumberedDevices(train),
    sampling_mesh=NumberedDevices(sample),
    **fields,
  )


def test_the_devices_of_training_evaluate():
  """On the mesh that samples, if it has the same devices."""
  e = on_meshes([[1, 2]], [[2], [1]])
  assert placement.evaluation_mesh(e) is e.sampling_mesh
  e = on_meshes([[1, 2]], [[3]])
  assert placement.evaluation_mesh(e) is e.mesh


@pytest.mark.parametrize("on_sampling_mesh", [False, True])
def test_an_evaluation_reads_what_its_mesh_has(on_sampling_mesh, monkeypatch):
  def state(a, b):
    return NAMESPACE(params={"a": a}, carried=NAMESPACE(frozen={"b": b}))

  def fake(module, name, function):
    monkeypatch.setattr(module, name, function)

  fake(placement, "abstract_state", lambda e: state(1, 2))
  fake(placement, "abstract_sampler_state", lambda e: state(3, 4))
  fake(
    placement,
    "sampling_params",
    lambda e, params: {"a": params["a"] + 1},
  )
  # Two devices train; they sample too, on another mesh, or one other does.
  e = on_meshes(
    [1, 2],
    [[2], [1]] if on_sampling_mesh else [3],
    policy="policy",
    sampling_policy="sampling policy",
  )
  functions = placement.evaluation_policy(e)
  shapes = placement.abstract_evaluation_params(e)
  fake(
    placement,
    "abstract_evaluation_params",
    lambda e: {"a": NAMESPACE(sharding=jax.devices()[0])},
  )
  params = placement.evaluation_params(e, {"a": np.float32(5)})
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
def test_a_sampler_gets_the_parameters_that_it_reads(
  sampler, names, monkeypatch
):
  state = training_state.State(
    step=0,
    learners={
      "policy": training_state.Learner({"a": 1}, "optimizer", "method"),
      "critic": training_state.Learner({"a": 6}, "optimizer", "method"),
      "prm": training_state.Learner({"a": 7}, "optimizer", "method"),
    },
    parameter_sets={"behavior": {"a": 2}, "ref": {"a": 3}},
    carried=training_state.Carried("key", "memory", {"b": 4}, {"m": 5}),
  )
  method = NAMESPACE(sampler=sampler, behavior="behavior")
  e = NAMESPACE(
    method=method,
    methods={"policy": None, "critic": None},
    mesh="mesh",
    sampling_mesh="mesh",
  )
  part = placement.sampler_state(e, state)
  assert part == training_state.State(
    step=0,
    learners={
      name: training_state.Learner(state.learners[name].params, ())
      for name in ("policy", "critic")
      if name in names | {"policy"}
    },
    parameter_sets={
      name: params
      for name, params in state.parameter_sets.items()
      if name in names
    },
    carried=training_state.Carried("key", "memory", {"b": 4}, {}),
  )
  # On a mesh of its own it has parameters in another form.
  e.sampling_mesh = "other mesh"
  monkeypatch.setattr(
    placement,
    "sampling_params",
    lambda e, params: {k: -v for k, v in params.items()},
  )
  part = placement.sampler_state(e, state)
  assert part.params == {"a": -1}
  assert part.carried.frozen == {"b": -4}
  assert part.parameters == {
    name: {"a": -state.parameters[name]["a"]} for name in {"policy", *names}
  }


def mesh(data=1, tensor=1, context=1):
  sizes = {"replica": 1, "data": data, "fsdp": 1}
  return NAMESPACE(shape={**sizes, "tensor": tensor, "context": context})


class Parts(NAMESPACE):
  """Some parts of an experiment."""

  head_repeats = Experiment.head_repeats


def divided(
  train, sample=None, evaluate=None, plan=(1, 1), kind="rl", batch=8, **rollout
):
  """The parts of an experiment that meshes divide; 8 prompts of 8 samples."""
  rollout = NAMESPACE(**{"prompts": 8, "samples": 8, **rollout})
  return Parts(
    config=NAMESPACE(rollout=rollout, evaluation=NAMESPACE(batch=batch)),
    plan=Plan(minibatches=plan[0], microbatches=plan[1]),
    is_rl=kind == "rl",
    mesh=train,
    sampling_mesh=sample or train,
    evaluation_mesh=evaluate or train,
    model=NAMESPACE(heads=4, kv_heads=2),
  )


@pytest.mark.parametrize(
  ("parts", "message"),
  [
    (divided(mesh()), None),
    (divided(mesh(), prompts=0), r"rollout.prompts = 0 (nearest: 1)"),
    (divided(mesh(), prompts=1, batch=1), None),
    (divided(mesh(data=2), plan=(2, 2)), None),
    (
      divided(mesh(data=4), plan=(2, 2)),
      "rollout.prompts / (plan.minibatches * plan.microbatches) = 2 "
      "(nearest: 4): not divisible by the mesh's",
    ),
    (divided(mesh(data=4), batch=9), "evaluation.batch = 9 (nearest: 8)"),
    # The largest of the two nearest numbers of samples, and at least one part.
    (divided(mesh(context=3)), "rollout.samples = 8 is not divisible by"),
    (divided(mesh(context=3)), "nearest: 9"),
    (divided(mesh(context=3), samples=1), "nearest: 3"),
    (divided(mesh(context=3), kind="supervised"), None),
    # Evaluations use the mesh that samples, if they have the same devices.
    (divided(mesh(), mesh(data=3)), "rollout.prompts = 8 (nearest: 9): not di"),
    (divided(mesh(), mesh(data=2), batch=9), None),
    (
      divided(mesh(), *[mesh(data=2)] * 2, batch=9),
      "evaluation.batch = 9 (nearest: 8): not divisible by the sampler's",
    ),
    (divided(mesh(data=2), mesh(), mesh(), batch=9), None),
    (divided(mesh(), mesh(tensor=4)), None),
    (divided(mesh(), mesh(tensor=3)), "inference.tensor = 3 cannot split"),
  ],
)
def test_meshes_divide_what_they_split(parts, message, monkeypatch):
  monkeypatch.setattr(placement, "evaluation_mesh", lambda e: e.evaluation_mesh)
  if message is None:
    placement.check(parts)
    return
  with pytest.raises(ValueError, match=re.escape(message)):
    placement.check(parts)
