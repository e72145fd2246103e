"""Several processes that run one program, each on devices of its own.

All run the same code on the same config, and arrays are global: a process holds
what lies on its devices. JAX does the work; here is what a training loop needs
besides. What is read from files process 0 decides for all, since another may
not see yet what one has written. Scores that are found on hosts are found where
the samples live, and shared.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

PyTree = Any
_MISSED = 30  # seconds without a sign of life, after which a process is dead


def join(
  distributed: bool,
  coordinator: str | None,
  processes: int | None,
  process: int | None,
) -> None:
  """Meets the other processes; before JAX computes anything.

  Args:
    distributed: ask the machine who they are (TPU slices, Slurm, Kubernetes).
    coordinator: "HOST:PORT" of process 0, where the machine does not know; then
      the others are needed too.
    processes: how many there are.
    process: which of them this is, from 0.

  Raises:
    ValueError: some but not all of the last three are given, or one of them is
      out of range; or the machine does not say who the others are.
  """
  given = {
    "coordinator": coordinator,
    "processes": processes,
    "process": process,
  }
  missing = [f"--{name}" for name, value in given.items() if value is None]
  if len(missing) == len(given):
    if distributed:
      _initialize()
    return
  if missing:
    raise ValueError(
      f"{', '.join(missing)} is missing: of several processes each says all of "
      + ", ".join(f"--{name}" for name in given)
    )
  host, _, port = coordinator.rpartition(":")
  if not (host and port.isdecimal()):
    nearest = f"{coordinator.strip(':') or 'localhost'}:8476"
    if port.isdecimal():
      nearest = f"localhost:{port}"
    raise ValueError(
      f"--coordinator={coordinator} must be HOST:PORT; nearest: {nearest}"
    )
  if processes < 1:
    raise ValueError(f"--processes={processes} must be at least 1")
  if not 0 <= process < processes:
    raise ValueError(f"--process={process} must be one of 0 to {processes - 1}")
  _initialize(coordinator, processes, process)


def _initialize(*who: Any) -> None:
  try:
    jax.distributed.initialize(*who, heartbeat_timeout_seconds=_MISSED)
  except ValueError as error:
    if who:
      raise ValueError(f"--coordinator={who[0]}: {error}") from None
    raise ValueError(
      f"--distributed: {error} where no cluster was found; say --coordinator, "
      "--processes and --process"
    ) from None


def agreed(value: int) -> int:
  """What process 0 says, the same everywhere."""
  return int(multihost_utils.broadcast_one_to_all(np.int32(value)))


def all_agree(found: bool) -> bool:
  """Whether every process found it so."""
  return bool(np.all(multihost_utils.process_allgather(np.bool_(found))))


def check_same(what: str, text: str) -> None:
  """Refuses to go on where processes were started differently.

  Args:
    what: of which all must have the same, for the message.
    text: this process's.

  Raises:
    ValueError: names the processes whose text is not that of process 0.
  """
  own = np.uint32(zlib.crc32(text.encode()))
  found = np.ravel(multihost_utils.process_allgather(own))
  others = np.flatnonzero(found != found[0])
  if len(others):
    raise ValueError(
      f"{what} of process {', '.join(map(str, others))} is not that of process "
      "0; start all with the same"
    )


def place(tree: PyTree, sharding: jax.sharding.Sharding | None) -> PyTree:
  """Host arrays, the same in every process, as global ones.

  Args:
    tree: of arrays; of each a process copies only what its devices hold.
    sharding: of all of them; None is the default device.
  """
  if sharding is None:
    return jax.device_put(tree)

  def put(array: Any) -> jax.Array:
    array = np.asarray(array)
    array = array.astype(jax.dtypes.canonicalize_dtype(array.dtype))
    return jax.make_array_from_callback(
      array.shape, sharding, lambda index: array[index]
    )

  return jax.tree.map(put, tree)


def fetch(tree: PyTree) -> PyTree:
  """Whole arrays, on the host of every process."""

  def whole(array: Any) -> np.ndarray:
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
      array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)

  return jax.tree.map(whole, tree)


def judge(
  score: Callable[..., PyTree],
  problems: PyTree,
  samples: Sequence[jax.Array],
  sharding: jax.sharding.Sharding | None,
) -> PyTree:
  """A host's score of global samples, found where they live.

  Each process judges prompts that its devices hold; where several hold the same
  they share them. Then all know all.

  Args:
    score: of a task, `(problems, completions, lengths, finished) -> Judged`.
    problems: host arrays `[P, ...]`, the same in every process.
    samples: completions `[P, S, T]`, lengths and finished `[P, S]`.
    sharding: of the prompts' axis; None: all lies on one device.

  Returns:
    Host arrays `[P, ...]`, the same in every process.
  """
  if sharding is not None:
    samples = jax.device_put(tuple(samples), sharding)
  shares = _shares(samples[0])
  rows = shares[jax.process_index()]
  own = (_rows(array, rows) for array in samples)
  chosen = jax.tree.map(lambda leaf: np.asarray(leaf)[rows], problems)
  judged = jax.tree.map(np.asarray, score(chosen, *own))
  return jax.tree.map(lambda parts: _joined(parts, shares), _gathered(judged))


def _gathered(tree: PyTree) -> PyTree:
  """Each process's arrays, stacked."""
  return multihost_utils.process_allgather(tree)


def _shares(array: jax.Array) -> list[np.ndarray]:
  """The rows of a global array that each process answers for, as many each."""
  holders: dict[tuple[int, int], set[int]] = {}
  for device, index in array.sharding.devices_indices_map(array.shape).items():
    start, stop, _ = index[0].indices(array.shape[0])
    holders.setdefault((start, stop), set()).add(device.process_index)
  shares: list[list[int]] = [[] for _ in range(jax.process_count())]
  for (start, stop), processes in sorted(holders.items()):
    size = -(-(stop - start) // len(processes))
    for i, process in enumerate(sorted(processes)):
      first = min(start + i * size, stop - size)
      shares[process] += range(first, first + size)
  return [np.array(rows, int) for rows in shares]


def _rows(array: jax.Array, rows: np.ndarray) -> np.ndarray:
  """Rows of a global array that lie on this process's devices."""
  found: dict[int, np.ndarray] = {}
  for shard in array.addressable_shards:
    start = shard.index[0].start or 0
    if start not in found:
      block = np.asarray(shard.data)
      found.update((start + i, row) for i, row in enumerate(block))
  return np.stack([found[row] for row in rows])


def _joined(parts: np.ndarray, shares: Sequence[np.ndarray]) -> np.ndarray:
  """`[processes, rows, ...]` as `[P, ...]`; of two answers the first holds."""
  count = 1 + max(rows.max() for rows in shares)
  whole = np.empty((count, *parts.shape[2:]), parts.dtype)
  for part, rows in reversed(list(zip(parts, shares, strict=True))):
    whole[rows] = part
  return whole
