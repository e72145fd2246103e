"""The devices of training and of sampling, and axes that are left open."""

import types
import types as python

import jax
import ml_collections
import pytest
from helpers import small_run

from experiments.training import device_mesh
from rl.update_plan import Plan

# 1000 parameters: 2000 bytes in bfloat16, and 16000 bytes to train them.
MODEL = python.SimpleNamespace(
  heads=8, kv_heads=4, mlp_width=12, dtype="bfloat16"
)


@pytest.fixture(autouse=True)
def _parameters(monkeypatch):
  monkeypatch.setattr(
    device_mesh.presets, "parameter_count", lambda model: 1000
  )


def choose(axes, memory=None, prompts=64, devices=16, slices=1):
  """Returns the axes that `choose_axes` completes, on devices of slices."""
  built = [
    python.SimpleNamespace(slice_index=i * slices // devices)
    for i in range(devices)
  ]
  return device_mesh.choose_axes(axes, built, MODEL, prompts, memory)


def fsdp_and_tensor(axes, *args, **settings):
  sizes = choose(axes, *args, **settings)
  return sizes["fsdp"], sizes["tensor"]


@pytest.mark.parametrize(
  ("memory", "fsdp", "tensor"),
  [
    (None, 1, 1),
    # Exactly a third samples; 16000 / 8 bytes are less than half of it.
    (6000, 8, 1),
    # A byte less: two sample, and 8000 / 4 bytes are less than half.
    (5999, 4, 2),
    (8000, 4, 1),  # 16000 / 4 bytes are exactly half
    (32_000, 1, 1),
    (1, 4, 4),  # nothing is enough: the largest sizes
  ],
)
def test_open_axes_are_the_smallest_with_which_the_parameters_fit(
  memory, fsdp, tensor
):
  assert choose({}, memory) == {
    "replica": None,
    "data": -1,
    "fsdp": fsdp,
    "tensor": tensor,
    "context": 1,
  }


def test_devices_of_a_context_split_the_parameters_too():
  """Of 16000 / 2 bytes, a quarter is less than 3000 and a half is more."""
  assert fsdp_and_tensor({"context": 2}, 6000) == (4, 1)


def test_every_device_has_equally_many_prompts():
  # 4 prompts for 16 devices: groups of four devices split the heads.
  assert fsdp_and_tensor({}, prompts=4) == (1, 4)
  # 8 prompts for two slices of 8 devices: 8 groups of two.
  assert fsdp_and_tensor({}, prompts=8, slices=2) == (1, 2)
  assert fsdp_and_tensor({}, prompts=3) == (1, 1)  # no size divides them


def test_requested_sizes_stay():
  assert fsdp_and_tensor({"fsdp": 2}, 6000) == (2, 1)
  assert fsdp_and_tensor({"tensor": 2}, 8000) == (2, 2)
  # 16 devices cannot be cut into threes, which `make_mesh` refuses.
  assert fsdp_and_tensor({"tensor": 3}, 6000) == (1, 3)
  # Without an open number of replicas, no other axis is chosen.
  for axes in ({"data": 8}, {"fsdp": 0}, {"context": 3}):
    expected = {"replica": None, "data": -1, "fsdp": 1, "tensor": 1}
    assert choose(axes, 5999, prompts=4) == expected | {"context": 1} | axes


def test_divisors_ascend():
  assert list(device_mesh.divisors(12)) == [1, 2, 3, 4, 6, 12]
  assert list(device_mesh.divisors(1)) == [1]


def test_the_memory_of_a_device_is_in_whole_mib():
  def memory(stats):
    device = python.SimpleNamespace(memory_stats=lambda: stats)
    return device_mesh.device_memory(device)

  assert memory({"bytes_limit": 3 * 2**20 + 5}) == 3 * 2**20
  assert memory({}) is None
  assert memory(None) is None


@pytest.mark.several_devices
def test_the_last_devices_only_sample(monkeypatch):
  requests = []
  devices = jax.devices()[:8]

  def choose_axes(*args):
    requests.append(args)
    return {"data": -1}

  monkeypatch.setattr(device_mesh, "choose_axes", choose_axes)

  def make(**sampling):
    config = ml_collections.ConfigDict(
      {"mesh": {"data": -1}, "rollout": {"prompts": 8}, "inference": sampling}
    )
    plan = Plan(epochs=3, minibatches=2, microbatches=2)
    return device_mesh.make_meshes(config, MODEL, plan, devices, 7.0)

  mesh, sampling_mesh = make()
  assert sampling_mesh is mesh
  assert list(mesh.devices.flat) == devices
  mesh, sampling_mesh = make(devices=2, tensor=2, fsdp=None)
  assert list(mesh.devices.flat) == devices[:6]
  assert list(sampling_mesh.devices.flat) == devices[6:]
  assert dict(sampling_mesh.shape)["tensor"] == 2
  axes, training_devices, model, prompts, memory = requests[-1]
  assert dict(axes) == {"data": -1}
  assert training_devices == devices[:6]
  # Two minibatches of two microbatches have 2 of 8 prompts each.
  assert (model, prompts, memory) == (MODEL, 2, 7.0)
  mesh, sampling_mesh = make(tensor=4)
  assert list(mesh.devices.flat) == devices
  assert list(sampling_mesh.devices.flat) == devices
  assert dict(sampling_mesh.shape)["tensor"] == 4


@pytest.mark.parametrize(
  ("changes", "processes", "message"),
  [
    ({}, (0,), None),
    ({"sampling": {}}, (0,), None),
    ({"inference__devices": 1}, (0, 0), None),
    ({"inference__devices": 1, "inference__ahead": 1}, (0, 0), None),
    ({"inference__devices": -1}, (0, 0), "some of the 2 devices to .*: 0 to 1"),
    (
      {"inference__devices": 2},
      (0, 0),
      "devices = 2 must leave some",
    ),
    ({"inference__devices": 1}, (0, 1), "across processes"),
    ({"inference__devices": 0}, (0, 1), None),
    (
      {"inference__ahead": 2, "inference__devices": 1},
      (0, 0),
      "must be 0 or 1",
    ),
    (
      {"inference__ahead": 1},
      (0, 0),
      "ahead = 1: on the same devices",
    ),
    ({"steps_per_dispatch": 2}, (0, 0), None),
    (
      {"steps_per_dispatch": 2, "inference__devices": 1},
      (0, 0),
      "steps_per_dispatch = 2: a fused program has one mesh",
    ),
    (
      {"steps_per_dispatch": 2, "inference__tensor": 2},
      (0, 0),
      "steps_per_dispatch = 2: a fused program has one mesh",
    ),
    ({"inference__tensor": 2}, (0, 0), None),
  ],
)
def test_devices_that_sample_are_left_over_by_training(
  changes, processes, message
):
  config = small_run.config(**changes)
  devices = [
    types.SimpleNamespace(process_index=process) for process in processes
  ]
  if message is None:
    device_mesh.check(config, devices)
    return
  with pytest.raises(ValueError, match=message):
    device_mesh.check(config, devices)
