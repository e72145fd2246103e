"""The meshes of an experiment, and their axes where a config leaves them open.

What is kept of a parameter while training is 16 bytes (it, its gradient and two
moments, in float32), divided by `fsdp` and `tensor`; while sampling each device
has the whole copy in the activations' type, divided by `tensor` alone. So

  tensor  the smallest that leaves each device as many prompts as any other, and
          the copy no more than a third of its memory
  fsdp    the smallest with which what is kept takes half of it
  data    the rest

and where nothing is enough the most that there is: `experiments.aot` says what
is too large.
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
from rl.minibatches import Plan

_KEPT = 16
_OPEN = {
  "replica": None,
  "data": -1,
  "fsdp": None,
  "tensor": None,
  "context": 1,
}


def meshes(
  config: ml_collections.ConfigDict,
  model: ModelConfig,
  plan: Plan,
  devices: list[jax.Device],
  memory: float | None,
) -> tuple[Mesh, Mesh]:
  """The mesh of the devices that train, and that of those that sample.

  Args:
    config: of the experiment; its `mesh` and `sampler`.
    model: whose parameters are split.
    plan: how a rollout is cut into updates.
    devices: all there are.
    memory: bytes of a device; None is not known, and then enough.

  Returns:
    Two meshes, one and the same unless `config.sampler` says otherwise.

  Raises:
    ValueError: sizes that do not fit the devices, or what cannot be had
      together.
  """
  sampler = dict(config.get("sampler") or {"devices": 0, "ahead": 0})
  own = sampler["devices"]
  if not 0 <= own < len(devices):
    raise ValueError(
      f"sampler.devices = {own} must leave some of the {len(devices)} devices "
      f"to training: 0 to {len(devices) - 1}"
    )
  if own and len({device.process_index for device in devices}) > 1:
    raise ValueError(
      f"sampler.devices = {own}: parameters do not go from some devices to "
      "others across processes; use 0, and sampler.tensor and the like to "
      "sample on another mesh of the same devices"
    )
  if sampler["ahead"] not in (0, 1):
    raise ValueError(f"sampler.ahead = {sampler['ahead']} must be 0 or 1")
  if sampler["ahead"] and not own:
    raise ValueError(
      "sampler.ahead = 1: on the same devices sampling and training take "
      "turns; give the sampler some of its own, sampler.devices"
    )
  training = devices[: len(devices) - own]
  at_once = config.rollout.prompts // (plan.minibatches * plan.microbatches)
  chosen = axes(config.mesh, training, model, at_once, memory)
  mesh = sharding.make_mesh(**chosen, devices=training)
  asked = {
    name: sampler[name]
    for name in sharding.AXES
    if sampler.get(name) is not None
  }
  if not own and not asked:
    return mesh, mesh
  if config.steps_per_dispatch > 1:
    raise ValueError(
      f"steps_per_dispatch = {config.steps_per_dispatch}: one program has one "
      "mesh, and the sampler another; use 1"
    )
  try:
    there = devices[len(devices) - own :] if own else devices
    return mesh, sharding.make_mesh(**asked, devices=there)
  except ValueError as error:
    raise ValueError(f"sampler: {error}") from None


def axes(
  asked: Mapping[str, int | None],
  devices: Sequence[jax.Device],
  model: ModelConfig,
  prompts: int,
  memory: float | None,
) -> dict[str, int | None]:
  """`config.mesh` with what it leaves open, for `sharding.make_mesh`.

  Args:
    asked: sizes; None is open, and 1 unless `data` is -1; an axis that is not
      named is open, and `data` then -1.
    devices: all of the mesh.
    model: whose parameters are split.
    prompts: that are trained on at a time.
    memory: bytes of a device; None is not known, and then enough.

  Returns:
    Sizes; replica may still be None.
  """
  asked = _OPEN | dict(asked)
  found = {
    name: 1 if size is None and name != "replica" else size
    for name, size in asked.items()
  }
  slices = len({getattr(device, "slice_index", 0) for device in devices})
  replica = found["replica"] or slices
  fixed = replica * found["context"]
  given = (n for name, n in found.items() if name != "data" and n is not None)
  if found["data"] != -1 or min(given) < 1 or len(devices) % fixed:
    return found  # as it is; `make_mesh` says what is wrong with it
  left = len(devices) // fixed
  numbers = presets.parameter_count(model) if memory else 0
  if asked["tensor"] is None:
    most = math.gcd(left, model.heads, model.kv_heads, model.mlp_width)
    even = [n for n in divisors(most) if prompts % (replica * left // n) == 0]
    copy = np.dtype(model.dtype).itemsize * numbers
    found["tensor"] = _least(even or [1], copy, memory, 3)
  if asked["fsdp"] is None and left % found["tensor"] == 0:
    kept = _KEPT * numbers / (found["tensor"] * found["context"])
    splits = divisors(left // found["tensor"])
    found["fsdp"] = _least(splits, kept, memory, 2)
  return found


def memory_of(device: jax.Device) -> float | None:
  """Bytes of a device that is there, where it says; what process 0 finds."""
  found = (device.memory_stats() or {}).get("bytes_limit", 0)
  return multihost.agreed(found >> 20) * 2**20 or None


def _least(
  splits: Iterable[int], size: float, memory: float | None, share: int
) -> int:
  """The first that leaves a size no more than a share of memory, or the last."""
  splits = list(splits)
  enough = (n for n in splits if memory is None or size / n <= memory / share)
  return next(enough, splits[-1])


def divisors(count: int) -> Iterator[int]:
  """Of a count, the smallest first."""
  return (n for n in range(1, count + 1) if count % n == 0)
