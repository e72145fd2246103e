"""Machines that are not there: their devices, and what a device can do.

Peaks are the makers' published figures, dense and in bfloat16; of links, what a
device sends over all of them in one direction. None was measured. Memory is what
the compiler grants a program: of v5e as it says when it refuses one, of the
others close to it. That a program is too large is the compiler's own verdict.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import jax
from jax.experimental import topologies

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
  """

  flops: float
  bandwidth: float
  links: float
  memory: float


# A v5p or v4 chip is one device of two cores; half a tpu7x chip is a device.
CHIPS: Mapping[str, Chip] = {
  "v4": Chip(275e12, 1228 * GB, 300 * GB, 31.25 * GIB),
  "v5e": Chip(197e12, 819 * GB, 200 * GB, 15.75 * GIB),
  "v5p": Chip(459e12, 2765 * GB, 600 * GB, 95.74 * GIB),
  "v6e": Chip(918e12, 1638 * GB, 448 * GB, 31.25 * GIB),
  "tpu7x": Chip(2307e12 / 2, 7380 * GB / 2, 600 * GB, 94.75 * GIB),
}
EXAMPLES = ("v5e:4x4", "v5e:16x16", "v5p:4x4x4", "v6e:16x16", "tpu7x:4x4x4")
# Else libtpu asks a metadata server that is not there, and looks for chips.
_ALONE = {
  "TPU_SKIP_MDS_QUERY": "1",
  "TPU_WORKER_HOSTNAMES": "localhost",
  "ALLOW_MULTIPLE_LIBTPU_LOAD": "1",
}


def devices(
  topology: str, slices: int = 1
) -> tuple[Chip, Sequence[jax.Device]]:
  """The devices of a topology, for programs to be compiled for.

  Args:
    topology: such as "v5e:16x16": a chip, and how many along each axis.
    slices: so many of it, joined by a network of hosts.

  Returns:
    What one of them can do, and all of them.

  Raises:
    ValueError: no such topology; says what there is.
    ImportError: the compiler of TPUs is not installed.
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
  for variable, value in _ALONE.items():
    os.environ.setdefault(variable, value)
  os.environ.setdefault("TPU_ACCELERATOR_TYPE", f"{name}-8")
  try:
    import libtpu  # noqa: F401
  except ImportError:
    raise ImportError(
      "compiling for a TPU needs libtpu: pip install -e '.[tpu]'"
    ) from None
  try:
    found = topologies.get_topology_desc(
      topology, platform="tpu", num_slices=slices
    )
  except jax.errors.JaxRuntimeError as error:
    reason = str(error).partition(": ")[2] or str(error)
    raise ValueError(
      f"topology = {topology!r}: {reason}; there are for example "
      + ", ".join(EXAMPLES)
    ) from None
  return CHIPS[name], found.devices
