"""Machines that are not there: their devices, and what a device can do.

Peaks are the makers' published figures, dense and in bfloat16; of links, what a
device sends over all of them in one direction. None was measured. Memory is what
the compiler grants a program: of v5e as it says when it refuses one, of other
TPUs close to it. That a program is too large for a TPU is the compiler's own
verdict; GPUs' compiler has none, and memory is the part of the device's that a run
takes, `experiments.cli.devices.GPU_SHARE`.
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
from rl import choices

GIB = 2**30
GB = 1e9


class Chip(NamedTuple):
  """A device.

  Attributes:
    flops: bfloat16 matmul, operations per second.
    bandwidth: of its memory, bytes per second.
    links: bytes per second that it sends to its neighbours.
    memory: bytes that a program may use.
    outward: bytes per second that it sends to another slice or node.
    config: as which libtpu sets it up; "": as it does unasked.
    options: of its compiler, without which it ends.
  """

  flops: float
  bandwidth: float
  links: float
  memory: float
  outward: float
  config: str = ""
  options: Mapping[str, Any] = MappingProxyType({})


def _taken(memory: int) -> float:
  """Of a GPU's memory."""
  return runtime.GPU_SHARE * memory


# A chip whose two cores are two devices: libtpu 0.0.42 stops the process at a
# failed check where it gives the sparse cores their collectives.
_KEPT_OFF_SPARSE_CORES = (
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
  for kind in _KEPT_OFF_SPARSE_CORES
}
# A v5p or v4 chip is one device of two cores; half a tpu7x chip is a device.
# Outward is a host's network shared by its chips: 100 to 400 Gbit/s of four TPU
# chips, and of a GPU an adapter of its own, 400 Gbit/s.
TPUS: Mapping[str, Chip] = {
  # Unasked, its two cores would be two devices.
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
  "h100": Chip(989e12, 3352 * GB, 450 * GB, _taken(84_929_347_584), 50 * GB),
  "h200": Chip(989e12, 4800 * GB, 450 * GB, _taken(150_754_820_096), 50 * GB),
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
# Else libtpu asks a metadata server that is not there, and looks for chips.
_ALONE = {
  "TPU_SKIP_MDS_QUERY": "1",
  "TPU_WORKER_HOSTNAMES": "localhost",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}
# What the GPUs' compiler asks a device that is there: both have Hopper's chip.
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
  """The devices of a topology, for programs to be compiled for.

  Args:
    topology: such as "v5e:16x16": a chip, and how many along each axis; of
      GPUs "h100:8", so many in a node.
    slices: so many of it, joined by a network of hosts; of TPUs.

  Returns:
    What one of them can do, and all of them.

  Raises:
    ValueError: no such topology; says what there is.
    ImportError: the compiler of these chips is not installed.
  """
  name, _, shape = topology.partition(":")
  if name not in CHIPS:
    raise ValueError(choices.unknown("chip", name, CHIPS))
  if slices < 1:
    raise ValueError(f"slices = {slices} must be at least 1")
  if not re.fullmatch(r"\d+(x\d+)*", shape):
    raise ValueError(
      f"topology = {topology!r} must be a chip and its grid, such as "
      + ", ".join(EXAMPLES)
    )
  find = _tpus if name in TPUS else _gpus
  return CHIPS[name], find(name, shape, slices)


def _tpus(name: str, shape: str, slices: int) -> Sequence[jax.Device]:
  for variable, value in _ALONE.items():
    os.environ.setdefault(variable, value)
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", f"{name}-8")
  _need("libtpu", "libtpu", "a TPU", "tpu")
  topology = f"{name}:{shape}"
  config = TPUS[name].config
  asked = {"chip_config_name": config} if config else {}
  try:
    found = topologies.get_topology_desc(
      topology, platform="tpu", num_slices=slices, **asked
    )
  except jax.errors.JaxRuntimeError as error:
    reason = str(error).partition(": ")[2] or str(error)
    raise ValueError(
      f"topology = {topology!r}: {reason}; there are for example "
      + ", ".join(EXAMPLES)
    ) from None
  return found.devices


def _gpus(name: str, shape: str, slices: int) -> Sequence[jax.Device]:
  if not shape.isdecimal() or int(shape) not in range(1, 9):
    raise ValueError(
      f"topology = '{name}:{shape}': a node has 1 to 8 GPUs, {name}:8"
    )
  if slices > 1:
    raise ValueError(
      f"slices = {slices}: GPUs that are not there do not say which node they "
      "are of; use 1"
    )
  plugin = "jax-cuda12-plugin"
  _need("jax_plugins.xla_cuda12", plugin, "a GPU", "gpu-aot")
  chip = GPUS[name]
  described = chip._asdict() | {"memory": chip.memory / runtime.GPU_SHARE}
  found = topologies.get_topology_desc(
    name,
    platform="cuda",
    target_config=_HOPPER.format(name=name.upper(), **described),
    topology=f"1x1x{shape}",
  )
  return found.devices


def _need(module: str, package: str, what: str, extra: str) -> None:
  try:
    importlib.import_module(module)
  except ImportError:
    raise ImportError(
      f"compiling for {what} needs {package}: pip install -e '.[{extra}]'"
    ) from None
