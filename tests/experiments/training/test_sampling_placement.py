"""The policy as sampling and evaluation read it, on their meshes."""

import dataclasses
import re
import types

import jax
import numpy as np
import pytest
from helpers import small_run

from experiments.training import placement, sampling_placement
from models import policy, sharding
from rl import step
from rl.minibatches import Plan
from rl.sampling import samplers

NAMESPACE = types.SimpleNamespace


@pytest.mark.several_devices
def test_heads_are_repeated_for_the_mesh_that_samples():
  """One group of two query heads is split over two devices."""
  e = small_run.experiment(model__kv_heads=1)
  assert sampling_placement.sampling_model(e) == e.model
  assert sampling_placement.sampling_policy(e) is e.policy
  split = sharding.make_mesh(tensor=2, data=1, devices=jax.devices()[:2])
  other = dataclasses.replace(e, sampling_mesh=split)
  model = sampling_placement.sampling_model(other)
  assert model.kv_heads == 2
  assert sampling_placement.sampling_policy(other) is policy.bind(model)
  assert sampling_placement.sampling_policy(other) is not e.policy
  # No head is repeated on another mesh that divides them.
  one_device = sharding.make_mesh(devices=jax.devices()[1:2])
  other = dataclasses.replace(e, sampling_mesh=one_device)
  assert sampling_placement.sampling_policy(other) is e.policy


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
  assert sampling_placement.evaluation_mesh(e) is e.sampling_mesh
  e = on_meshes([[1, 2]], [[3]])
  assert sampling_placement.evaluation_mesh(e) is e.mesh


@pytest.mark.parametrize("on_sampling_mesh", [False, True])
def test_an_evaluation_reads_what_its_mesh_has(on_sampling_mesh, monkeypatch):
  def state(a, b):
    return NAMESPACE(params={"a": a}, carried=NAMESPACE(frozen={"b": b}))

  def fake(module, name, function):
    monkeypatch.setattr(module, name, function)

  fake(placement, "abstract_state", lambda e: state(1, 2))
  fake(sampling_placement, "abstract_sampler_state", lambda e: state(3, 4))
  fake(sampling_placement, "sampling_policy", lambda e: "sampling policy")
  fake(
    sampling_placement,
    "sampling_params",
    lambda e, params: {"a": params["a"] + 1},
  )
  # Two devices train; they sample too, on another mesh, or one other does.
  e = on_meshes(
    [1, 2], [[2], [1]] if on_sampling_mesh else [3], policy="policy"
  )
  functions = sampling_placement.evaluation_policy(e)
  shapes = sampling_placement.abstract_evaluation_params(e)
  fake(
    sampling_placement,
    "abstract_evaluation_params",
    lambda e: {"a": NAMESPACE(sharding=jax.devices()[0])},
  )
  params = sampling_placement.evaluation_params(e, {"a": np.float32(5)})
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
  part = sampling_placement.sampler_state(e, state)
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
  monkeypatch.setattr(
    sampling_placement,
    "sampling_params",
    lambda e, params: {k: -v for k, v in params.items()},
  )
  part = sampling_placement.sampler_state(e, state)
  assert part.params == {"a": -1}
  assert part.carried.frozen == {"b": -4}
  assert part.parameters == {
    name: {"a": -state.parameters[name]["a"]} for name in {"policy", *names}
  }


def mesh(data=1, tensor=1, context=1):
  sizes = {"replica": 1, "data": data, "fsdp": 1}
  return NAMESPACE(shape={**sizes, "tensor": tensor, "context": context})


def divided(
  train, sample=None, evaluate=None, plan=(1, 1), kind="rl", batch=8, **rollout
):
  """The parts of an experiment that meshes divide; 8 prompts of 8 samples."""
  rollout = NAMESPACE(**{"prompts": 8, "samples": 8, **rollout})
  return NAMESPACE(
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
    (divided(mesh(), mesh(tensor=3)), "sampling.tensor = 3 cannot split"),
  ],
)
def test_meshes_divide_what_they_split(parts, message, monkeypatch):
  monkeypatch.setattr(
    sampling_placement, "evaluation_mesh", lambda e: e.evaluation_mesh
  )
  if message is None:
    sampling_placement.check(parts)
    return
  with pytest.raises(ValueError, match=re.escape(message)):
    sampling_placement.check(parts)
