"""Machines that are not present: their devices, and the figures of a device.

Peaks are the makers' published figures, dense and in bfloat16; the figure of
the links is what a device sends over all of them in one direction. None was
measured. Memory is what the compiler grants a program: for v5e the figure in
its refusals, for other TPUs a figure close to that. The TPU compiler refuses a
program that is too large. The GPU compiler does not; there the memory is the
share of the device that a run takes,
`experiments.cli.devices.GPU_MEMORY_FRACTION`.
"""

from __future__ import annotations

import importlib
import os
import re
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import jax
from jax.experimental import topologies

from experiments.cli import devices as runtime
from rl import registry

GIB = 2**30
GB = 1e9


class Chip(NamedTuple):
  """The figures of a device.

  Attributes:
    flops: operations per second of bfloat16 matrix products.
    bandwidth: bytes per second between the device and its memory.
    links: bytes per second that the device sends to its neighbours.
    memory: bytes that a program may use.
    outward: bytes per second that the device sends to another slice or node.
    config: libtpu's `chip_config_name`; "" means libtpu's default.
    options: compiler options without which the compiler ends the process.
  """

  flops: float
  bandwidth: float
  links: float
  memory: float
  outward: float
  config: str = ""
  options: Mapping[str, Any] = MappingProxyType({})


def _usable_gpu_memory(memory: int) -> float:
  """Returns the bytes of a GPU's memory that a run takes."""
  return runtime.GPU_MEMORY_FRACTION * memory


# Collectives that must not run on the sparse cores of a tpu7x: libtpu 0.0.42
# stops the process at a failed check when it assigns them.
_NOT_ON_SPARSE_CORES = (
  "all_reduce",
  "all_gather",
  "reduce_scatter",
  "dense_all_to_all",
  "2d_all_gather",
  "3d_all_gather",
  "nd_reduce_scatter",
  "ragged_all_to_all",
)
_TPU7X = {
  f"xla_tpu_enable_sparse_core_collective_offload_{kind}": False
  for kind in _NOT_ON_SPARSE_CORES
}
# A v5p or v4 chip is one device of two cores; half a tpu7x chip is a device.
# `outward` is a chip's share of its host's network: four TPU chips share 100 to
# 400 Gbit/s, and each GPU has an adapter of 400 Gbit/s.
TPUS: Mapping[str, Chip] = {
  # By default, libtpu makes two devices of its two cores.
  "v4": Chip(275e12, 1228 * GB, 300 * GB, 30.75 * GIB, 6.25 * GB, "megacore"),
  "v5e": Chip(197e12, 819 * GB, 200 * GB, 15.75 * GIB, 3.125 * GB),
  "v5p": Chip(459e12, 2765 * GB, 600 * GB, 95.74 * GIB, 6.25 * GB),
  "v6e": Chip(918e12, 1638 * GB, 400 * GB, 31.25 * GIB, 12.5 * GB),
  "tpu7x": Chip(
    *(2307e12 / 2, 7380 * GB / 2, 300 * GB, 94.75 * GIB, 6.25 * GB),
    options=_TPU7X,
  ),
}
GPUS: Mapping[str, Chip] = {
  "h100": Chip(
    989e12, 3352 * GB, 450 * GB, _usable_gpu_memory(84_929_347_584), 50 * GB
  ),
  "h200": Chip(
    989e12, 4800 * GB, 450 * GB, _usable_gpu_memory(150_754_820_096), 50 * GB
  ),
}
CHIPS: Mapping[str, Chip] = {**TPUS, **GPUS}
EXAMPLES = (
  "v5e:4x4",
  "v5e:16x16",
  "v5p:4x4x4",
  "v6e:16x16",
  "tpu7x:4x4x4",
  "h100:8",
)
# Without these variables, libtpu asks a metadata server and looks for chips.
_NO_TPU_HOST = {
  "TPU_SKIP_MDS_QUERY": "1",
  "TPU_WORKER_HOSTNAMES": "localhost",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
# What the GPU compiler otherwise reads from a device. Both GPUs have Hopper
# chips.
_HOPPER = """\
gpu_device_info {{
  threads_per_block_limit: 1024
  threads_per_warp: 32
  shared_memory_per_block: 49152
  shared_memory_per_core: 233472
  shared_memory_per_block_optin: 232448
  threads_per_core_limit: 2048
  core_count: 132
  fpus_per_core: 128
  block_dim_limit_x: 2147483647
  block_dim_limit_y: 65535
  block_dim_limit_z: 65535
  memory_bandwidth: {bandwidth:.0f}
  l2_cache_size: 52428800
  clock_rate_ghz: 1.98
  device_memory_size: {memory:.0f}
  cuda_compute_capability {{ major: 9 }}
  registers_per_core_limit: 65536
  registers_per_block_limit: 65536
}}
platform_name: "CUDA"
dnn_version_info {{ major: 9 minor: 8 }}
runtime_version {{ major: 12 minor: 8 }}
device_description_str: "NVIDIA {name}"
"""


def devices(
  topology: str, slices: int = 1
) -> tuple[Chip, Sequence[jax.Device]]:
  """Returns the devices of a topology, as targets of compilation.

  Args:
    topology: name of a chip and its number along each axis of the grid, such as
      "v5e:16x16"; for GPUs the number in a node, "h100:8".
    slices: number of TPU slices of this topology, joined by their hosts'
      network.

  Returns:
    The figures of one device, and all devices.

  Raises:
    ValueError: if there is no such topology; the message has examples.
    ImportError: if the compiler of these chips is not installed.
  """
  name, _, shape = topology.partition(":")
  if name not in CHIPS:
    raise ValueError(registry.describe_unknown("chip", name, CHIPS))
  if slices < 1:
    raise ValueError(f"slices = {slices} must be at least 1")
  if not re.fullmatch(r"\d+(x\d+)*", shape):
    raise ValueError(
      f"topology = {topology!r} must be a chip and its grid, such as "
      + ", ".join(EXAMPLES)
    )
  describe = _tpus if name in TPUS else _gpus
  return CHIPS[name], describe(name, shape, slices)


def _tpus(name: str, shape: str, slices: int) -> Sequence[jax.Device]:
  for variable, value in _NO_TPU_HOST.items():
    os.environ.setdefault(variable, value)
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", f"{name}-8")
  _check_compiler("libtpu", "libtpu", "a TPU", "tpu")
  topology = f"{name}:{shape}"
  config = TPUS[name].config
  arguments = {"chip_config_name": config} if config else {}
  try:
    description = topologies.get_topology_desc(
      topology, platform="tpu", num_slices=slices, **arguments
    )
  except jax.errors.JaxRuntimeError as error:
    reason = str(error).partition(": ")[2] or str(error)
    raise ValueError(
      f"topology = {topology!r}: {reason}; examples that exist: "
      + ", ".join(EXAMPLES)
    ) from None
  return description.devices


def _gpus(name: str, shape: str, slices: int) -> Sequence[jax.Device]:
  if not shape.isdecimal() or int(shape) not in range(1, 9):
    raise ValueError(
      f"topology = '{name}:{shape}': a node has 1 to 8 GPUs, {name}:8"
    )
  if slices > 1:
    raise ValueError(
      f"slices = {slices}: GPUs that are not present do not say which node "
      "they belong to; use 1"
    )
  plugin = "jax-cuda12-plugin"
  _check_compiler("jax_plugins.xla_cuda12", plugin, "a GPU", "gpu-aot")
  chip = GPUS[name]
  figures = chip._asdict() | {
    "memory": chip.memory / runtime.GPU_MEMORY_FRACTION
  }
  description = topologies.get_topology_desc(
    name,
    platform="cuda",
    target_config=_HOPPER.format(name=name.upper(), **figures),
    topology=f"1x1x{shape}",
  )
  return description.devices


def _check_compiler(module: str, package: str, what: str, extra: str) -> None:
  """Checks that the module of a compiler can be imported."""
  try:
    importlib.import_module(module)
  except ImportError:
    raise ImportError(
      f"compiling for {what} needs {package}: pip install -e '.[{extra}]'"
    ) from None
