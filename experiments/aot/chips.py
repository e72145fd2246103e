"""Machines that are not present: their devices, and the speed of a device.

A device is what JAX calls one: a TPU chip or a GPU, but half a tpu7x chip.
Speeds are the makers' published peaks, for dense bfloat16 products; none was
measured. `Chip.memory` is the limit above which the TPU compiler refuses a
program: for v5e the limit that its error messages state, for other TPUs an
estimate of that limit. The GPU compiler refuses no program, so for GPUs
`Chip.memory` is the part of the memory that a run takes, which is the fraction
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
from rl import UsageError, registry

GIB = 2**30
GB = 1e9


class Chip(NamedTuple):
  """Speed and memory of one device of a kind of chip."""

  flops: float  # bfloat16 operations per second of matrix products
  bandwidth: float  # bytes per second between the device and its memory
  # Bytes per second that the device sends within its slice or node, over all
  # its links together, and to other slices or nodes.
  link_bandwidth: float
  network_bandwidth: float
  memory: float  # bytes that a program may use
  config: str = ""  # libtpu's `chip_config_name`; "" means libtpu's default
  # Compiler options without which the compiler ends the process.
  options: Mapping[str, Any] = MappingProxyType({})


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
_TPU7X_OPTIONS = {
  f"xla_tpu_enable_sparse_core_collective_offload_{kind}": False
  for kind in _NOT_ON_SPARSE_CORES
}
# Of v4, libtpu makes two devices of the two cores by default. The peaks of a
# tpu7x are those of a chip, which is two devices; the figures without "/ 2" are
# those of one. Network bandwidth: four TPU chips share their host's 100 to 400
# Gbit/s, and each GPU has an adapter of 400 Gbit/s.
TPUS: Mapping[str, Chip] = {
  # flops, bandwidth of memory, links and network, memory
  "v4": Chip(275e12, 1228 * GB, 300 * GB, 6.25 * GB, 30.75 * GIB, "megacore"),
  "v5e": Chip(197e12, 819 * GB, 200 * GB, 3.125 * GB, 15.75 * GIB),
  "v5p": Chip(459e12, 2765 * GB, 600 * GB, 6.25 * GB, 95.74 * GIB),
  "v6e": Chip(918e12, 1638 * GB, 400 * GB, 12.5 * GB, 31.25 * GIB),
  "tpu7x": Chip(
    2307e12 / 2,
    7380 * GB / 2,
    300 * GB,
    6.25 * GB,
    94.75 * GIB,
    options=_TPU7X_OPTIONS,
  ),
}
# Memory is the part that a run takes.
_USABLE = runtime.GPU_MEMORY_FRACTION
GPUS: Mapping[str, Chip] = {
  "h100": Chip(989e12, 3352 * GB, 450 * GB, 50 * GB, _USABLE * 84_929_347_584),
  "h200": Chip(989e12, 4800 * GB, 450 * GB, 50 * GB, _USABLE * 150_754_820_096),
}
CHIPS: Mapping[str, Chip] = {**TPUS, **GPUS}
EXAMPLES = (  # topologies that exist, for error messages
  "v5e:4x4",
  "v5e:16x16",
  "v5p:4x4x4",
  "v6e:16x16",
  "tpu7x:4x4x4",
  "h100:8",
)
# Environment variables that stop libtpu from looking for chips on this machine
# and from asking a metadata server about them.
_NO_TPU_HOST = {
  "TPU_SKIP_MDS_QUERY": "1",
  "TPU_WORKER_HOSTNAMES": "localhost",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
# Properties that the GPU compiler otherwise reads from a device. All `GPUS`
# are Hopper chips.
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
  """Returns the speed and memory of a device, and all devices of a topology.

  Args:
    topology: name of a chip, and the number of chips along each axis of the
      grid, such as "v5e:16x16"; for GPUs the number in a node, "h100:8".
    slices: number of TPU slices of this topology, joined by the network of
      their hosts.

  Raises:
    UsageError: if the chip is unknown, no such grid exists, or `slices` is not
      possible; or if the compiler of these chips is not installed.
  """
  name, _, shape = topology.partition(":")
  if name not in CHIPS:
    raise UsageError(registry.describe_unknown("chip", name, CHIPS))
  if slices < 1:
    raise UsageError(f"slices = {slices} must be at least 1")
  if not re.fullmatch(r"\d+(x\d+)*", shape):
    raise UsageError(
      f"topology = {topology!r} must be a chip and its grid, such as "
      + ", ".join(EXAMPLES)
    )
  make_devices = _tpu_devices if name in TPUS else _gpu_devices
  return CHIPS[name], make_devices(name, shape, slices)


def _tpu_devices(name: str, shape: str, slices: int) -> Sequence[jax.Device]:
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
    raise UsageError(
      f"topology = {topology!r}: {reason}; examples of topologies that exist: "
      + ", ".join(EXAMPLES)
    ) from None
  return description.devices


def _gpu_devices(name: str, shape: str, slices: int) -> Sequence[jax.Device]:
  if not shape.isdecimal() or int(shape) not in range(1, 9):
    raise UsageError(
      f"topology = '{name}:{shape}' must name 1 to 8 GPUs of one node, such as "
      f"{name}:8"
    )
  if slices > 1:
    raise UsageError(
      f"slices = {slices} must be 1 for GPUs: the compiler cannot describe "
      "GPUs of several nodes"
    )
  plugin = "jax-cuda12-plugin"
  _check_compiler("jax_plugins.xla_cuda12", plugin, "a GPU", "gpu-aot")
  chip = GPUS[name]
  description = topologies.get_topology_desc(
    name,
    platform="cuda",
    target_config=_HOPPER.format(
      name=name.upper(),
      bandwidth=chip.bandwidth,
      memory=chip.memory / _USABLE,
    ),
    topology=f"1x1x{shape}",
  )
  return description.devices


def _check_compiler(
  module: str, package: str, machine: str, extra: str
) -> None:
  """Checks that the compiler for a machine is installed."""
  try:
    # Imports a module of the compiler's package as a test.
    importlib.import_module(module)
  except ImportError:
    # `extra` is the extra of this project that installs the package.
    raise UsageError(
      f"compiling for {machine} needs {package}: pip install -e '.[{extra}]'"
    ) from None
