"""Helpers for several processes that run one program, each on its own devices.

All processes run the same code on the same config. Arrays are global: a process
has the shards that are on its devices. JAX does the communication; this module
adds two functions that a training loop needs:

  decisions from files   process 0 reads the files and broadcasts the decision,
                         because another process may not see a file that was
                         just written
  scores on the host     each process scores the samples on its devices, and
                         every process receives all scores

P prompts, S samples per prompt, T completion tokens.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np
from jax.experimental import multihost_utils

from rl import UsageError

PyTree = Any
# Seconds without a heartbeat after which a process counts as dead.
_HEARTBEAT_TIMEOUT = 30


def connect_processes(
  distributed: bool,
  coordinator: str | None,
  processes: int | None,
  process: int | None,
) -> None:
  """Connects the processes of a run; must be called before JAX computes.

  Does nothing for a run of one process: `distributed` is False, and the other
  arguments are None.

  Args:
    distributed: whether to ask the cluster (TPU slices, Slurm, Kubernetes) for
      the other processes. Ignored if the next three arguments are given.
    coordinator: "HOST:PORT" of process 0, for clusters that JAX cannot ask. It
      needs `processes` and `process`.
    processes: number of processes.
    process: index of this process, from 0.

  Raises:
    UsageError: one of the last three arguments is missing or out of range, or
      the cluster does not know the processes.
  """
  flags = {
    "coordinator": coordinator,
    "processes": processes,
    "process": process,
  }
  missing = [f"--{name}" for name, value in flags.items() if value is None]
  if len(missing) == len(flags):
    if distributed:
      _initialize()
    return
  if missing:
    raise UsageError(
      f"{', '.join(missing)} is missing: each of several processes needs all "
      "of " + ", ".join(f"--{name}" for name in flags)
    )
  host, _, port = coordinator.rpartition(":")
  if not (host and port.isdecimal()):
    nearest = f"{coordinator.strip(':') or 'localhost'}:8476"
    if port.isdecimal():
      nearest = f"localhost:{port}"
    raise UsageError(
      f"--coordinator={coordinator} must be HOST:PORT; nearest: {nearest}"
    )
  if processes < 1:
    raise UsageError(f"--processes={processes} must be at least 1")
  if not 0 <= process < processes:
    raise UsageError(f"--process={process} must be one of 0 to {processes - 1}")
  _initialize(coordinator, processes, process)


def _initialize(*addresses: Any) -> None:
  """Connects to the coordinator, or to the cluster that JAX finds."""
  # `addresses` are the coordinator, the number of processes and the index of
  # this process; or nothing.
  try:
    jax.distributed.initialize(
      *addresses, heartbeat_timeout_seconds=_HEARTBEAT_TIMEOUT
    )
  except ValueError as error:
    if addresses:
      raise UsageError(f"--coordinator={addresses[0]}: {error}") from None
    raise UsageError(
      f"--distributed: {error} and JAX found no cluster; use --coordinator, "
      "--processes and --process"
    ) from None
  if jax.process_count() > 1 and jax.default_backend() == "cpu":
    # A program that XLA loads from a folder may run its collectives in another
    # order in each process; then gloo ends both (seen with JAX 0.10.2).
    jax.config.update("jax_enable_compilation_cache", False)


def broadcast_from_process_0(value: int) -> int:
  """Returns, in every process, the value that process 0 passed, an int32."""
  return int(multihost_utils.broadcast_one_to_all(np.int32(value)))


def is_true_everywhere(value: bool) -> bool:
  """Waits for all processes; returns whether all of them pass True."""
  return bool(np.all(multihost_utils.process_allgather(np.bool_(value))))


def check_same(what: str, text: str) -> None:
  """Checks that all processes were started with the same text.

  Args:
    what: name of the text, such as "--workdir", for the message.
    text: the text of this process.

  Raises:
    UsageError: names the processes whose text differs from process 0's.
  """
  checksum = np.uint32(zlib.crc32(text.encode()))
  checksums = np.ravel(multihost_utils.process_allgather(checksum))
  others = np.flatnonzero(checksums != checksums[0])
  if len(others):
    raise UsageError(
      f"{what} of process {', '.join(map(str, others))} is not that of process "
      f"0; start all processes with the same {what}"
    )


def place(tree: PyTree, sharding: jax.sharding.Sharding | None) -> PyTree:
  """Makes global arrays from host arrays.

  Args:
    tree: host arrays, the same in every process. A process copies only the
      shards of its devices.
    sharding: sharding of all arrays; None puts them on the default device.
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
  """Copies global arrays, with all shards, to the host of every process."""

  def gather(array: Any) -> np.ndarray:
    if isinstance(array, jax.Array) and not array.is_fully_addressable:
      array = multihost_utils.process_allgather(array, tiled=True)
    return np.asarray(array)

  return jax.tree.map(gather, tree)


def score_on_hosts(
  score: Callable[..., PyTree],
  problems: PyTree,
  samples: Sequence[jax.Array],
  sharding: jax.sharding.Sharding | None,
) -> PyTree:
  """Scores samples on the hosts, each of them those of its devices.

  If several processes have the same prompts on their devices, each of them
  scores an equal part. Then every process receives all scores.

  Args:
    score: score function of a task, `(problems, completions, lengths, finished)
      -> Judged`.
    problems: host arrays `[P, ...]`, the same in every process.
    samples: global arrays: completions `[P, S, T]`, lengths and finished
      `[P, S]`.
    sharding: sharding of the prompt axis; None if one device has all prompts.

  Returns:
    Host arrays `[P, ...]`, the same in every process.
  """
  if sharding is not None:
    samples = jax.device_put(tuple(samples), sharding)
  prompts_by_process = _divide_prompts(samples[0])
  indices = prompts_by_process[jax.process_index()]
  local_samples = (_local_prompts(array, indices) for array in samples)
  local_problems = jax.tree.map(
    lambda array: np.asarray(array)[indices], problems
  )
  judged = jax.tree.map(np.asarray, score(local_problems, *local_samples))
  return jax.tree.map(
    lambda scores: _merge(scores, prompts_by_process),
    # [processes, prompts of a process, ...]
    multihost_utils.process_allgather(judged),
  )


def _divide_prompts(array: jax.Array) -> list[np.ndarray]:
  """Returns the positions in P that each process scores, equally many each."""
  # `array` is a global array `[P, ...]`, sharded by prompts.
  # (start, stop) of a shard -> processes whose devices have a copy of it.
  processes_by_shard: dict[tuple[int, int], set[int]] = {}
  for device, index in array.sharding.devices_indices_map(array.shape).items():
    start, stop, _ = index[0].indices(array.shape[0])
    processes = processes_by_shard.setdefault((start, stop), set())
    processes.add(device.process_index)
  prompts: list[list[int]] = [[] for _ in range(jax.process_count())]
  for (start, stop), processes in sorted(processes_by_shard.items()):
    num_prompts = -(-(stop - start) // len(processes))  # rounded up
    for i, process in enumerate(sorted(processes)):
      # If the shard cannot be divided evenly, the last parts overlap.
      first = min(start + i * num_prompts, stop - num_prompts)
      prompts[process] += range(first, first + num_prompts)
  return [np.array(indices, int) for indices in prompts]


def _local_prompts(array: jax.Array, indices: np.ndarray) -> np.ndarray:
  """Copies the entries of some prompts from the devices of this process."""
  entries: dict[int, np.ndarray] = {}  # by position in P
  for shard in array.addressable_shards:
    start = shard.index[0].start or 0
    if start not in entries:
      data = np.asarray(shard.data)
      entries.update((start + i, entry) for i, entry in enumerate(data))
  # `indices` are positions in P that are on these devices.
  return np.stack([entries[index] for index in indices])


def _merge(
  scores: np.ndarray, prompts_by_process: Sequence[np.ndarray]
) -> np.ndarray:
  """Merges `[processes, prompts of a process, ...]` into `[P, ...]`."""
  num_prompts = 1 + max(indices.max() for indices in prompts_by_process)
  merged = np.empty((num_prompts, *scores.shape[2:]), scores.dtype)
  pairs = list(zip(scores, prompts_by_process, strict=True))
  # A prompt that two processes scored gets the result of the first process.
  for process_scores, indices in reversed(pairs):
    merged[indices] = process_scores
  return merged
