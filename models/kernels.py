"""Attention of a stream by kernels that hold no scores in memory.

What they cannot do is refused by `ModelConfig`. Off their machines they do not
run: `tests/models/test_attention.py` runs splash in the Pallas interpreter, and of
cuDNN's call the preparation. How cuDNN itself rounds is unproved without a GPU.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.experimental.pallas.ops.tpu.splash_attention import (
  splash_attention_mask,
)
from jax.sharding import PartitionSpec

from models import sharding

if TYPE_CHECKING:
  from models.causal import Stream

Array = jax.Array
LANES = 128  # of a TPU's vector registers: blocks are multiples
LONGEST = 512  # block of queries or keys


@dataclasses.dataclass(frozen=True)
class Branches(splash_attention_mask.Mask):
  """Who sees whom where the branches of a trunk stand one after the other.

  Rows are the branches' tokens; columns end with the same tokens, and before
  them stand those of the trunk.

  Attributes:
    rows, columns: with what fills up the last block of rows (further branches)
      and the first block of columns (seen by nobody).
    room: rows of a branch.
    trunk: columns of the trunk.
    window: how many positions a token sees; None: all.
  """

  rows: int
  columns: int
  room: int
  trunk: int
  window: int | None

  @property
  def shape(self) -> tuple[int, int]:
    return self.rows, self.columns

  def __getitem__(self, slices: tuple[slice, slice]) -> np.ndarray:
    row, own = (np.arange(part.start, part.stop) for part in slices)
    own -= self.columns - self.rows
    alike = self._alike(row[0], row[-1], own[0], own[-1])
    if alike is not None:
      return np.full((len(row), len(own)), alike)
    row = row[:, None]
    t = row % self.room
    distance = np.where(own < 0, t - own, row - own)
    same = (row // self.room == own // self.room) & (distance >= 0)
    seen = np.where(own < 0, own >= -self.trunk, same)
    return seen if self.window is None else seen & (distance < self.window)

  def _alike(self, row: int, last_row: int, own: int, last: int) -> bool | None:
    """What is true of all pairs of a block, where a glance at its corners tells.

    Of 16 branches of 4,096 tokens that is all but one block in sixty, and
    splash asks for each.
    """
    if own < 0:
      return None
    branches = row // self.room, last_row // self.room
    theirs = own // self.room, last // self.room
    if branches[1] < theirs[0] or theirs[1] < branches[0] or last_row < own:
      return False
    near = self.window is None or last_row - own < self.window
    if len({*branches, *theirs}) == 1 and last <= row and near:
      return True
    return None


def splash(
  stream: Stream, scale: float, softcap: float, interpret: bool = False
) -> Array:
  """Block-sparse attention of a TPU (Pallas' splash attention).

  The S branches of a prompt are one sequence behind one trunk, so that the
  trunk exists once. Blocks that nobody sees are left out; padding is told from
  text by segments. Each device takes its prompts and heads, as the mesh of the
  arrays has them.

  Args:
    stream, scale, softcap: as of `models.causal.attend`; the window is no
      array.
    interpret: on the CPU, slowly.
  """
  queries, own, before, real, window = stream
  P, S, _, N, head_dim = queries.shape
  if N == 0:
    return queries
  trunk = 0 if before is None else real.shape[-1]
  # Short branches share a block; the ends of long ones fall on its end.
  room = N if N <= LANES // 2 else _up(N, LANES)
  rows = _up(S * room, LANES)
  block = math.gcd(rows, LONGEST)
  key_block = min(LONGEST, _up(trunk + rows, LANES))
  columns = _up(trunk + rows, key_block)
  mask = Branches(rows, columns, room, trunk, window)

  def line(x: Array) -> Array:
    """`[P, S, heads, N, d]` to `[P, heads, rows, d]`."""
    x = jnp.pad(x, [(0, 0)] * 3 + [(0, room - N), (0, 0)])
    x = x.swapaxes(1, 2).reshape(P, x.shape[2], S * room, head_dim)
    return jnp.pad(x, [(0, 0)] * 2 + [(0, rows - S * room), (0, 0)])

  def columned(own: Array, before: Array | None) -> Array:
    """All keys, or their values, `[P, kv_heads, columns, d]`."""
    parts = [line(own)] if before is None else [before, line(own)]
    x = jnp.concatenate(parts, axis=-2)
    return jnp.pad(x, [(0, 0)] * 2 + [(columns - x.shape[-2], 0), (0, 0)])

  ids = jnp.ones((P, rows), jnp.int32)
  if before is None:
    ids = jnp.pad(real.astype(jnp.int32), [(0, 0), (0, rows - N)])
    key_ids = jnp.pad(ids, [(0, 0), (columns - rows, 0)])
  else:
    key_ids = jnp.concatenate([real.astype(jnp.int32), ids], axis=-1)
    key_ids = jnp.pad(key_ids, [(0, 0), (columns - trunk - rows, 0)])
  pasts = (None, None) if before is None else before
  keys, values = map(columned, own, pasts)
  blocks = splash_attention.BlockSizes(
    block_q=block,
    block_kv=key_block,
    block_q_dkv=block,
    block_kv_dkv=key_block,
    block_q_dq=block,
    block_kv_dq=key_block,
  )

  def kernel(
    queries: Array, keys: Array, values: Array, ids: Array, key_ids: Array
  ) -> Array:
    heads = [mask] * queries.shape[1]
    attend = splash_attention.make_splash_mha(
      splash_attention.MultiHeadMask(heads),
      block_sizes=blocks,
      head_shards=1,
      q_seq_shards=1,
      attn_logits_soft_cap=softcap or None,
      interpret=interpret,
    )
    segments = splash_attention.SegmentIds(ids, key_ids)
    return jax.vmap(attend)(queries, keys, values, segments)

  scaled = queries * jnp.asarray(scale or head_dim**-0.5, queries.dtype)
  out = _on_mesh(kernel)(line(scaled), keys, values, ids, key_ids)
  out = out[:, :, : S * room].reshape(P, -1, S, room, head_dim)
  out = out.swapaxes(1, 2)[..., :N, :]
  if before is None:  # padding saw padding
    out = jnp.where(real[:, None, None, :, None], out, 0)
  return out


def cudnn(
  stream: Stream, scale: float, softcap: float, implementation: str = "cudnn"
) -> Array:
  """Fused attention of NVIDIA's GPUs, through `jax.nn`.

  It knows no shared trunk: keys of the trunk are copied for each of the S
  branches, `P S (L + T) kv_heads head_dim` numbers each of keys and values, and
  the mask becomes a bias of `P S T (L + T)`, shared by the heads.

  Args:
    stream, scale, softcap: as of `models.causal.attend`; softcap is 0.
    implementation: of `jax.nn.dot_product_attention`.
  """
  del softcap
  queries, own, before, real, window = stream
  P, S, heads, N, head_dim = queries.shape
  if N == 0:
    return queries
  keys, values = own
  at = jnp.arange(N)
  key_at, there = at, jnp.ones((P, N), bool)
  if before is None:
    there = real
  else:
    length = real.shape[-1]

    def behind(past: Array, own: Array) -> Array:
      past = jnp.broadcast_to(past[:, None], (P, S, *past.shape[1:]))
      return jnp.concatenate([past, own], axis=-2)

    keys, values = map(behind, before, own)
    key_at = jnp.concatenate([jnp.arange(-length, 0), at])
    there = jnp.concatenate([real, there], axis=-1)
  distance = at[:, None] - key_at
  seen = distance >= 0
  if window is not None:
    seen &= distance < window
  seen = seen & there[:, None]  # [P, N, U]
  mask = jnp.repeat(seen, S, axis=0)[:, None]

  def even(x: Array, axes: tuple[int, ...]) -> Array:
    """Where there is a bias, cuDNN wants even lengths."""
    pads = [(0, x.shape[i] % 2 if i in axes else 0) for i in range(x.ndim)]
    return jnp.pad(x, pads)

  def line(x: Array) -> Array:
    """`[P, S, heads, N, d]` to `[P S, N, heads, d]`."""
    x = x.reshape(P * S, *x.shape[2:])
    return even(x.swapaxes(1, 2), (1,))

  out = jax.nn.dot_product_attention(
    line(queries),
    line(keys),
    line(values),
    mask=even(mask, (2, 3)),
    scale=scale or head_dim**-0.5,
    implementation=implementation,
  )
  out = out[:, :N].swapaxes(1, 2).reshape(P, S, heads, N, head_dim)
  # A row without a key would get the mean of all values.
  return jnp.where(seen.any(-1)[:, None, None, :, None], out, 0)


def _on_mesh(kernel: Callable[..., Array]) -> Callable[..., Array]:
  """The kernel on each device's prompts and heads: XLA cannot split it."""

  @functools.wraps(kernel)
  def split(queries: Array, *others: Array) -> Array:
    mesh, free = sharding.mesh_of(queries)
    if not free:
      return kernel(queries, *others)
    rows = tuple(name for name in sharding.ROWS if name in free)
    if len(queries) % math.prod(mesh.shape[name] for name in rows):
      rows = ()
    by_head = PartitionSpec(rows, "tensor" if "tensor" in free else None)
    places = (by_head,) * 3 + (PartitionSpec(rows),) * 2
    return jax.shard_map(
      kernel,
      mesh=mesh,
      in_specs=places,
      out_specs=by_head,
      axis_names=set(free),
      check_vma=False,
    )(queries, *others)

  return split


def _up(number: int, multiple: int) -> int:
  """The next multiple."""
  return -(-number // multiple) * multiple
