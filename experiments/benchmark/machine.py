"""What this machine can do at most, and what a call must do at least.

Measured: the float32 matmul rate, and the memory bandwidth. A call that needs F
operations and moves B bytes cannot take less than

  bound = max(F / matmul rate, B / bandwidth).

Operations, a multiplication and an addition each counted, of a decoder with n
layers whose projections have W parameters a layer:

  a token through the layers    2 n W + 4 n heads head_dim (tokens it sees)
  logits of a position          2 D V

A prompt is run once, whatever its number of samples. A completion token sees the
prompt, what came before, and itself; the last one is not fed. A backward pass
costs two forward passes. Norms, rotations and softmax are left out.

Bytes: the weights once for each decoding step, and the cached keys and values
that it reads, a prompt's once for its samples; an update reads weights twice,
writes gradients, and reads and writes AdamW's state. Activations are left out:
they could stay in the caches.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import NamedSharding, PartitionSpec

from experiments import devices
from experiments.benchmark import sides
from experiments.benchmark.peers import protocol
from models import sharding
from models.config import ModelConfig
from rl import types

SIZE = 2048  # of the matrices
ELEMENTS = 2**26  # of the array that is moved, 256 MB: larger than any cache
TRIES = 20
FLOAT = 4  # bytes


class Machine(NamedTuple):
  """The most that was measured.

  Attributes:
    flops: float32 matmul, operations per second.
    bandwidth: bytes read and written per second.
  """

  flops: float
  bandwidth: float

  def bound(self, cost: Cost) -> float:
    """Seconds that a call takes at least."""
    return max(cost.flops / self.flops, cost.bytes / self.bandwidth)

  def work(self, cost: Cost, seconds: float) -> dict[str, float]:
    """What a call of so many seconds did, and its shares of the limits.

    The model FLOPs utilisation (Chowdhery et al. 2022) is that of the matmul
    rate measured here.
    """
    return {
      "flops": cost.flops,
      "bytes": cost.bytes,
      "mfu": cost.flops / seconds / self.flops,
      "bandwidth_fraction": cost.bytes / seconds / self.bandwidth,
    }

  def __str__(self) -> str:
    return (
      f"{self.flops / 1e9:,.0f} GFLOP/s, {self.bandwidth / 1e9:,.1f} GB/s "
      "(matmul of float32 at 2048; memory read and written)"
    )


class Cost(NamedTuple):
  """What a call does at least.

  Attributes:
    flops: operations.
    bytes: of memory, read and written.
  """

  flops: float
  bytes: float


def measure(tell: sides.Tell = lambda _: None) -> Machine:
  """The machine's limits, each the best of several, in a process of its own.

  A CPU is tried as one device and as many as it has cores.
  """
  found = []
  for count in splits():
    tell(f"measuring the machine, {count} devices")
    launch = sides.Launch(
      f"machine, {count} devices", __name__, {"devices": count}
    )
    with sides.Side(launch) as side:
      found.append(side.run(0).counts)
  return Machine(
    max(one["flops"] for one in found), max(one["bandwidth"] for one in found)
  )


def splits() -> tuple[int, ...]:
  """Into how many devices, or threads, it is worth trying to go: 1, or all."""
  return tuple(sorted({1, cores()}))


def cores() -> int:
  """Processors that this process may use."""
  if hasattr(os, "sched_getaffinity"):
    return len(os.sched_getaffinity(0))
  return os.cpu_count() or 1


def weights(config: ModelConfig) -> int:
  """W, parameters of one layer's projections; of experts, those in use."""
  qkv = (config.heads + 2 * config.kv_heads) * config.head_dim * config.width
  out = config.heads * config.head_dim * config.width
  mlp = (2 + config.gated_mlp) * config.width * config.mlp_width
  used = config.experts_per_token or 1
  return qkv + out + used * mlp + config.experts * config.width


def forward(
  config: ModelConfig, tokens: float, seen: float, positions: float
) -> float:
  """Operations of a forward pass.

  Args:
    config: the decoder's shape.
    tokens: that run through the layers.
    seen: the sum over them of how many tokens each attends to.
    positions: those with logits.
  """
  layers = 2 * config.layers * weights(config) * tokens
  attention = 4 * config.layers * config.heads * config.head_dim * seen
  return layers + attention + 2 * config.width * config.vocab_size * positions


def scored(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> float:
  """Operations that give all completion tokens' logits once.

  Args:
    config: the decoder's shape.
    prompt_length: L of each prompt.
    lengths: `[P, S]` of the completions.
  """
  lengths = np.asarray(lengths, np.float64)
  P, L = len(lengths), prompt_length
  fed = np.maximum(lengths - 1, 0)
  seen = P * L * (L + 1) / 2 + (fed * L + fed * (fed + 1) / 2).sum()
  return forward(config, P * L + fed.sum(), seen, lengths.sum())


def decode_cost(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> Cost:
  """Of sampling completions of these lengths, all rows always occupied.

  Args:
    config: the decoder's shape; 4 bytes a number.
    prompt_length: L of each prompt.
    lengths: `[P, S]` of the completions.
  """
  lengths = np.asarray(lengths, np.float64)
  P, S = lengths.shape
  fed = np.maximum(lengths - 1, 0)
  steps = fed.sum() / (P * S)  # no fewer than if no row ever waits
  matrices = config.layers * weights(config)
  matrices += config.width * config.vocab_size
  pair = 2 * config.layers * config.kv_heads * config.head_dim
  trunk = P * prompt_length * steps
  branch = (fed * (fed + 1) / 2).sum()
  read = matrices * (1 + steps) + pair * (trunk + branch)
  written = pair * (P * prompt_length + fed.sum())
  flops = scored(config, prompt_length, lengths)
  # Of a prompt one position has logits, whatever its number of samples.
  flops -= 2 * config.width * config.vocab_size * P * (S - 1)
  return Cost(flops, FLOAT * (read + written))


def update_cost(
  config: ModelConfig, prompt_length: int, lengths: np.ndarray
) -> Cost:
  """Of one update with AdamW on completions of these lengths, as above."""
  count = config.layers * weights(config)
  count += config.width * config.vocab_size * (2 - config.tied_embeddings)
  passes = 2 + 1  # weights forward and backward, gradients written
  adamw = 4 + 3  # reads gradient, weights and two moments; writes three
  flops = 3 * scored(config, prompt_length, lengths)
  return Cost(flops, FLOAT * count * (passes + adamw))


def _prepare(job: dict) -> protocol.Served:
  devices.split_cpu(job["devices"])
  mesh = sharding.make_mesh(devices=jax.devices()[: job["devices"]])
  rows = sharding.batch_sharding(mesh)
  whole = NamedSharding(mesh, PartitionSpec())

  def call(number: int) -> dict[str, float]:
    del number
    x = jax.device_put(jnp.ones((SIZE, SIZE)), rows)
    y = jax.device_put(jnp.eye(SIZE), whole)
    product = jax.jit(lambda xy: (xy[0] @ xy[1], xy[1]), donate_argnums=0)
    flops = 2 * SIZE**3 / _fastest(product, (x, y))
    array = jax.device_put(jnp.ones((ELEMENTS,)), rows)
    moved = 2 * FLOAT * ELEMENTS
    # In place: fresh pages would be most of what is measured.
    bandwidth = moved / _fastest(jax.jit(jnp.negative, donate_argnums=0), array)
    return {"flops": flops, "bandwidth": bandwidth, "tokens": 1}

  return protocol.Served({}, call, {})


def _fastest(
  step: Callable[[types.PyTree], types.PyTree], state: types.PyTree
) -> float:
  """Seconds of the fastest of several steps, after one that compiles."""
  seconds = []
  for _ in range(1 + TRIES):
    start = time.perf_counter()
    state = jax.block_until_ready(step(state))
    seconds.append(time.perf_counter() - start)
  return min(seconds[1:])


if __name__ == "__main__":
  protocol.serve(_prepare)
