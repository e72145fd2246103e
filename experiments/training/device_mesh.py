"""Chooses the meshes of an experiment, and the sizes of their open axes.

In training, each parameter takes 16 bytes (the parameter, its gradient and two
moments, in float32), which the axes `fsdp`, `tensor` and `context` split over
devices. For sampling, each device also has a copy of the parameters in the
dtype of the activations, which only `tensor` splits. `inference.tensor` gives
the sampler a mesh of its own, on which `tensor` may be larger than the number
of key and value heads. Axes of `config.mesh` that are open get these sizes:

  tensor  the smallest size for which every device has equally many prompts and
          the copy takes at most a third of a device's memory
  fsdp    the smallest size for which training takes at most half of the memory
  data    the remaining devices

If no size is large enough, the largest possible size is used; the command
`experiments.aot` reports parts that exceed the memory.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence

import jax
import ml_collections
import numpy as np
from jax.sharding import Mesh

from experiments.training import multihost
from models import presets, sharding
from models.config import ModelConfig
from rl import UsageError
from rl.update_plan import Plan

_TRAINING_BYTES = 16  # per parameter
_TENSOR_SHARE = 3  # the sampling copy takes at most 1/3 of the memory
_FSDP_SHARE = 2  # training takes at most 1/2 of the memory
# Values of axes that `config.mesh` does not have. None is open, and -1 takes
# the remaining devices.
_OPEN_AXES = {
  "replica": None,
  "data": -1,
  "fsdp": None,
  "tensor": None,
  "context": 1,
}


def check(
  config: ml_collections.ConfigDict, devices: Sequence[jax.Device]
) -> None:
  """Checks what the config asks of the devices, before a mesh is made."""
  sampler = config.get("inference") or {}
  count, ahead = sampler.get("devices", 0), sampler.get("ahead", 0)
  if not 0 <= count < len(devices):
    raise UsageError(
      f"inference.devices = {count} must leave some of the {len(devices)} "
      f"devices to training: 0 to {len(devices) - 1}"
    )
  if count and len({device.process_index for device in devices}) > 1:
    raise UsageError(
      f"inference.devices = {count}: parameters cannot be sent to devices of "
      "their own across processes; use 0, and inference.tensor and the like to "
      "sample on another mesh of the same devices"
    )
  if ahead not in (0, 1):
    raise UsageError(f"inference.ahead = {ahead} must be 0 or 1")
  if ahead and not count:
    raise UsageError(
      "inference.ahead = 1: on the same devices sampling and training take "
      "turns; give the sampler devices of its own with inference.devices"
    )
  has_axes = any(sampler.get(name) is not None for name in sharding.AXES)
  if (count or has_axes) and config.steps_per_dispatch > 1:
    raise UsageError(
      f"steps_per_dispatch = {config.steps_per_dispatch}: a fused program has "
      "one mesh, and the sampler has another; use 1"
    )


def make_meshes(
  config: ml_collections.ConfigDict,
  model: ModelConfig,
  plan: Plan,
  devices: list[jax.Device],
  memory: float | None,
) -> tuple[Mesh, Mesh]:
  """Makes the training mesh and the sampling mesh.

  Args:
    config: config of the experiment, with `mesh` and `sampling`.
    model: shape of the decoder, whose parameters are split.
    plan: how a rollout is divided into updates.
    devices: all devices. The last `inference.devices` of them only sample.
    memory: bytes of one device; None if unknown, which counts as enough.

  Returns:
    The training mesh and the sampling mesh: the same object if
    `config.inference` sets neither devices nor axes.

  Raises:
    UsageError: the sizes do not fit the devices.
  """
  sampler = dict(config.get("inference") or {})
  sampler_devices = sampler.get("devices", 0)
  training_devices = devices[: len(devices) - sampler_devices]
  prompts = config.rollout.prompts // (plan.minibatches * plan.microbatches)
  axes = choose_axes(config.mesh, training_devices, model, prompts, memory)
  mesh = sharding.make_mesh(**axes, devices=training_devices)
  sampler_axes = {
    name: sampler[name]
    for name in sharding.AXES
    if sampler.get(name) is not None
  }
  if not sampler_devices and not sampler_axes:
    return mesh, mesh
  if sampler_devices:
    devices = devices[len(devices) - sampler_devices :]
  try:
    return mesh, sharding.make_mesh(**sampler_axes, devices=devices)
  except UsageError as error:
    raise UsageError(f"inference: {error}") from None


def choose_axes(
  axes: Mapping[str, int | None],
  devices: Sequence[jax.Device],
  model: ModelConfig,
  prompts: int,
  memory: float | None,
) -> dict[str, int | None]:
  """Completes the axes of `config.mesh`, for `sharding.make_mesh`.

  Args:
    axes: sizes by name. An axis that is missing has its value in `_OPEN_AXES`;
      an axis that is None is open. Open axes are chosen only if `data` is -1,
      and are 1 otherwise.
    devices: all devices of the mesh.
    model: shape of the decoder, whose parameters are split.
    prompts: prompts of one microbatch.
    memory: bytes of one device; None if unknown, which counts as enough.

  Returns:
    The size of every axis; `replica` may still be None.
  """
  axes = _OPEN_AXES | dict(axes)
  sizes = {
    name: 1 if size is None and name != "replica" else size
    for name, size in axes.items()
  }
  slices = len({getattr(device, "slice_index", None) for device in devices})
  replica = sizes["replica"] or slices
  fixed = replica * sizes["context"]
  fixed_sizes = [
    size for name, size in sizes.items() if name != "data" and size is not None
  ]
  if sizes["data"] != -1 or min(fixed_sizes) < 1 or len(devices) % fixed:
    return sizes  # no axis is open, or `make_mesh` refuses the sizes
  free_devices = len(devices) // fixed
  num_params = presets.parameter_count(model) if memory else 0
  if axes["tensor"] is None:
    largest = math.gcd(
      free_devices, model.heads, model.kv_heads, model.mlp_width
    )
    # Sizes with which every device has equally many prompts.
    candidates = [
      size
      for size in divisors(largest)
      if prompts % (replica * free_devices // size) == 0
    ]
    copy_bytes = np.dtype(model.dtype).itemsize * num_params
    sizes["tensor"] = _smallest_split(
      candidates or [1], copy_bytes, memory, _TENSOR_SHARE
    )
  if axes["fsdp"] is None and free_devices % sizes["tensor"] == 0:
    training_bytes = (
      _TRAINING_BYTES * num_params / (sizes["tensor"] * sizes["context"])
    )
    candidates = divisors(free_devices // sizes["tensor"])
    sizes["fsdp"] = _smallest_split(
      candidates, training_bytes, memory, _FSDP_SHARE
    )
  return sizes


def device_memory(device: jax.Device) -> float | None:
  """Returns the memory of a device of process 0, in bytes; None if unknown."""
  num_bytes = (device.memory_stats() or {}).get("bytes_limit") or 0
  # In MiB, because the value must fit into an int32.
  return multihost.broadcast_from_process_0(num_bytes >> 20) * 2**20 or None


def _smallest_split(
  candidates: Iterable[int], num_bytes: float, memory: float | None, share: int
) -> int:
  """Returns the first number of parts that is large enough, or the last one."""
  candidates = list(candidates)  # numbers of parts, ascending
  # One part may take at most `memory / share` bytes. If the memory of a device
  # is not known, the first candidate is accepted.
  sufficient = (
    num_parts
    for num_parts in candidates
    if memory is None or num_bytes / num_parts <= memory / share
  )
  return next(sufficient, candidates[-1])


def divisors(count: int) -> Iterator[int]:
  """Yields the divisors of a count in ascending order."""
  return (n for n in range(1, count + 1) if count % n == 0)
