"""Attention kernels that never store the scores: splash (TPU) and cuDNN (GPU).

`models.attention_forms` calls `splash` and `cudnn`; `ModelConfig` refuses
decoders that these kernels cannot compute.

`tests/models/test_attention.py` runs splash in the Pallas interpreter on CPU
and cuDNN's inputs with JAX's XLA implementation, and lowers both to TPU and
CUDA programs. Neither kernel has run on its hardware in these tests, so the
rounding of cuDNN in particular is untested.

Axes: P prompts, S completions per prompt (1 for the attention of prompts), L
prompt tokens, N query tokens, U keys, head_dim channels of a head.
"""

from __future__ import annotations

import dataclasses
import functools
import math
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.pallas.ops.tpu import splash_attention
from jax.experimental.pallas.ops.tpu.splash_attention import (
  splash_attention_kernel,
  splash_attention_mask,
)
from jax.sharding import PartitionSpec

from models import sharding
from models.attention import AttentionInputs

Array = jax.Array
LANES = 128  # lanes of a TPU vector register; block sizes are multiples of it
MAX_BLOCK = 512  # largest number of queries, or of keys, in a block of splash


@dataclasses.dataclass(frozen=True)
class CompletionsMask(splash_attention_mask.Mask):
  """Mask of the S completions of a prompt, laid out as one sequence.

  Rows (queries) are the completions one after the other, each padded to
  `completion_size` rows. Columns (keys) are, in this order: padding, the
  prompt, and the same tokens as the rows. A token sees the prompt and the
  tokens of its own completion up to itself. For the attention of prompts, the
  prompt takes the place of the only completion, and `prompt_length` is 0.

  Attributes:
    rows: number of rows, a multiple of the block size. Rows after the S
      completions are padding, masked like further completions.
    columns: number of columns, a multiple of the block size. The first
      `columns - prompt_length - rows` are padding that no row sees.
    completion_size: number of rows of one completion.
    prompt_length: number of columns of the prompt.
    window: number of positions that a token sees, including its own; None means
      all.
  """

  rows: int
  columns: int
  completion_size: int
  prompt_length: int
  window: int | None

  @property
  def shape(self) -> tuple[int, int]:
    return self.rows, self.columns

  def __getitem__(self, slices: tuple[slice, slice]) -> np.ndarray:
    """Returns the mask of a block of rows and columns; True means visible."""
    row, column = (np.arange(block.start, block.stop) for block in slices)
    # From here on, column i is the same token as row i, and columns below 0 are
    # the prompt, preceded by the padding.
    column -= self.columns - self.rows
    uniform = self._uniform_value(row[0], row[-1], column[0], column[-1])
    if uniform is not None:
      return np.full((len(row), len(column)), uniform)
    row = row[:, None]
    t = row % self.completion_size  # index of the token in its completion
    # A column of the prompt is in no completion, since it is negative.
    same_completion = (
      row // self.completion_size == column // self.completion_size
    )
    distance = np.where(same_completion, row, t) - column
    in_prompt = column >= -self.prompt_length
    visible = np.where(column < 0, in_prompt, same_completion & (distance >= 0))
    if self.window is None:
      return visible
    return visible & (distance < self.window)

  def _uniform_value(
    self,
    row: int,  # first row of the block
    last_row: int,  # last row of the block
    column: int,  # first column, counted like rows; negative in the prompt
    last_column: int,  # last column, counted like rows
  ) -> bool | None:
    """Returns the value that all pairs of a block have, or None if unclear."""
    # The value is read off the corners of the block. This saves time because
    # most blocks are uniform: 59 of 60 for 16 completions of 4,096 tokens.
    if column < 0:
      return None  # the block has columns of the prompt or of padding
    # Index of the first and last completion among the rows, and the columns.
    row_completions = (
      row // self.completion_size,
      last_row // self.completion_size,
    )
    column_completions = (
      column // self.completion_size,
      last_column // self.completion_size,
    )
    # Rows and columns have no completion in common, or all keys are later than
    # all queries.
    if (
      row_completions[1] < column_completions[0]
      or column_completions[1] < row_completions[0]
      or last_row < column
    ):
      return False
    in_window = self.window is None or last_row - column < self.window
    same_completion = len({*row_completions, *column_completions}) == 1
    if same_completion and last_column <= row and in_window:
      return True
    return None


def splash(
  inputs: AttentionInputs,
  scale: float,
  softcap: float,
  interpret: bool = False,
) -> Array:
  """Computes block-sparse attention with Pallas' splash attention, for TPUs.

  The S completions of a prompt are laid out as one sequence after the prompt
  (`CompletionsMask`), so the prompt's keys are stored once. Fully masked blocks
  are skipped, and so are blocks of queries that `inputs.lengths` leaves out.
  Padding of prompts is masked with segment ids: 1 for real tokens, 0 for
  padding. On a mesh, each device computes its prompts and heads.

  Args:
    inputs: queries, keys, values and masks. The window must be an int or None,
      not a traced array.
    scale: factor of the scores; 0 means `head_dim ** -0.5`.
    softcap: c of the cap `c * tanh(score / c)` on scores; 0 means no cap.
    interpret: whether to run in the Pallas interpreter, slowly, on any device.

  Returns:
    `[P, S, heads, N, head_dim]`.
  """
  queries, keys_values, prompt_keys_values, prompt_mask, window = inputs[:5]
  lengths = inputs.lengths
  P, S, _, N, head_dim = queries.shape
  if N == 0:
    return queries
  is_prompt = prompt_keys_values is None
  prompt_length = 0 if is_prompt else prompt_mask.shape[-1]
  mask, block, key_block = _layout(S, N, prompt_length, window)
  rows, columns, completion_size = mask.rows, mask.columns, mask.completion_size

  def to_rows(x: Array) -> Array:
    """`[P, S, heads, N, head_dim]` to `[P, heads, rows, head_dim]`."""
    x = jnp.pad(x, [(0, 0)] * 3 + [(0, completion_size - N), (0, 0)])
    x = x.swapaxes(1, 2).reshape(P, x.shape[2], S * completion_size, head_dim)
    widths = [(0, 0)] * 2 + [(0, rows - S * completion_size), (0, 0)]
    return jnp.pad(x, widths)

  def to_columns(x: Array, prompt: Array | None) -> Array:
    """Keys or values of all columns, `[P, kv_heads, columns, head_dim]`."""
    parts = [to_rows(x)] if prompt is None else [prompt, to_rows(x)]
    x = jnp.concatenate(parts, axis=-2)
    return jnp.pad(x, [(0, 0)] * 2 + [(columns - x.shape[-2], 0), (0, 0)])

  # Segment ids of rows [P, rows] and columns [P, columns]. Padding at the end
  # of a completion has id 1 like real tokens: the causal mask hides it.
  row_ids = jnp.ones((P, rows), jnp.int32)
  if is_prompt:
    row_ids = jnp.pad(prompt_mask.astype(jnp.int32), [(0, 0), (0, rows - N)])
    column_ids = jnp.pad(row_ids, [(0, 0), (columns - rows, 0)])
  else:
    column_ids = jnp.concatenate(
      [prompt_mask.astype(jnp.int32), row_ids], axis=-1
    )
    column_ids = jnp.pad(
      column_ids, [(0, 0), (columns - prompt_length - rows, 0)]
    )
  blocks = None  # all blocks of queries are computed
  if lengths is not None:
    # Those with a row whose output is read, [P, rows / block].
    is_read = jnp.arange(completion_size) < lengths[..., None]
    is_read = is_read.reshape(P, S * completion_size)
    is_read = jnp.pad(is_read, [(0, 0), (0, rows - S * completion_size)])
    blocks = is_read.reshape(P, -1, block).any(-1)
  prompts = (None, None) if is_prompt else prompt_keys_values
  keys, values = map(to_columns, keys_values, prompts)
  block_sizes = splash_attention.BlockSizes(
    block_q=block,
    block_kv=key_block,
    block_q_dkv=block,
    block_kv_dkv=key_block,
    block_q_dq=block,
    block_kv_dq=key_block,
  )

  def kernel(
    queries: Array,
    keys: Array,
    values: Array,
    row_ids: Array,
    column_ids: Array,
    blocks: Array | None,
  ) -> Array:
    """Attention of one device's prompts and heads."""
    heads = [mask] * queries.shape[1]
    attend = splash_attention.make_splash_mha(
      splash_attention.MultiHeadMask(heads),
      block_sizes=block_sizes,
      head_shards=1,
      q_seq_shards=1,
      attn_logits_soft_cap=softcap or None,
      interpret=interpret,
    )
    segments = splash_attention.SegmentIds(row_ids, column_ids)

    def attend_prompt(blocks: Array | None, *arrays: Any) -> Array:
      kernel = attend if blocks is None else _only_blocks(attend, blocks)
      return kernel(*arrays)

    return jax.vmap(attend_prompt)(blocks, queries, keys, values, segments)

  # The kernel does not scale scores, so scale the queries.
  scaled = queries * jnp.asarray(scale or head_dim**-0.5, queries.dtype)
  out = _shard_kernel(kernel)(
    to_rows(scaled), keys, values, row_ids, column_ids, blocks
  )
  out = out[:, :, : S * completion_size]
  out = out.reshape(P, -1, S, completion_size, head_dim)
  out = out.swapaxes(1, 2)[..., :N, :]
  if lengths is not None:
    # The kernel divides by 0 in blocks that are left out.
    is_read = jnp.arange(N) < lengths[..., None]
    out = jnp.where(is_read[:, :, None, :, None], out, 0)
  if is_prompt:
    # Queries of padding attended to the other padding, which has id 0, too.
    out = jnp.where(prompt_mask[:, None, None, :, None], out, 0)
  return out


def _layout(
  samples: int,  # S, number of completions
  length: int,  # N, number of tokens of a completion
  prompt_length: int,
  window: int | None,  # positions that a token sees, with its own
) -> tuple[CompletionsMask, int, int]:
  """Lays out the completions of a prompt as one sequence of blocks."""
  # Several short completions share a block; a long one is padded to the end of
  # its last block.
  completion_size = length if length <= LANES // 2 else _round_up(length, LANES)
  rows = _round_up(samples * completion_size, LANES)
  block = math.gcd(rows, MAX_BLOCK)
  key_block = min(MAX_BLOCK, _round_up(prompt_length + rows, LANES))
  columns = _round_up(prompt_length + rows, key_block)
  mask = CompletionsMask(rows, columns, completion_size, prompt_length, window)
  # `block` and `key_block` are the numbers of queries and of keys in a block.
  return mask, block, key_block


def _only_blocks(
  kernel: splash_attention_kernel.SplashAttentionKernel, blocks: Array
) -> splash_attention_kernel.SplashAttentionKernel:
  """Returns a kernel that computes some blocks of queries, not the others."""

  def leave_out(info: Any, query_blocks: Array) -> Any:
    mask = jnp.asarray(info.block_mask)
    # In `block_mask` `[heads, i, j]`, 0 stands for a pair of a block of queries
    # and a block of keys that is not computed.
    mask = jnp.where(blocks[query_blocks], mask, jnp.zeros_like(mask))
    return info._replace(block_mask=mask)

  # i is a block of queries in the forward pass and in the gradient of queries.
  # In the gradient of keys and values, `data_next` names the block of queries.
  # `blocks` is True for the blocks of queries that are computed.
  rows = jnp.arange(len(blocks))[:, None]
  data_next = jnp.asarray(kernel.dkv_mask_info.data_next, jnp.int32)
  return splash_attention_kernel.SplashAttentionKernel(
    leave_out(kernel.fwd_mask_info, rows),
    leave_out(kernel.dq_mask_info, rows),
    leave_out(kernel.dkv_mask_info, data_next),
    **kernel.kwargs,
  )


def cudnn(
  inputs: AttentionInputs,
  scale: float,
  softcap: float,
  implementation: str = "cudnn",
) -> Array:
  """Computes attention with cuDNN, through `jax.nn.dot_product_attention`.

  cuDNN cannot share a prompt between completions: the prompt's keys and values
  are copied S times (`P * S * (L + N) * kv_heads * head_dim` numbers each), and
  the mask becomes a bias of `P * S * N * (L + N)` numbers, shared by all heads.

  Args:
    inputs: queries, keys, values and masks.
    scale: factor of the scores; 0 means `head_dim ** -0.5`.
    softcap: not used; it is 0, which `ModelConfig` checks.
    implementation: the argument of `jax.nn.dot_product_attention`; tests use
      "xla".

  Returns:
    `[P, S, heads, N, head_dim]`.
  """
  del softcap
  queries, keys_values, prompt_keys_values, prompt_mask, window = inputs[:5]
  P, S, heads, N, head_dim = queries.shape
  if N == 0:
    return queries
  keys, values = keys_values
  query_index = jnp.arange(N)
  # Index [U] and padding mask [P, U] of the keys, where U is N for prompts and
  # L + N for completions.
  key_index, key_mask = query_index, jnp.ones((P, N), bool)
  if prompt_keys_values is None:
    key_mask = prompt_mask
  else:
    prompt_length = prompt_mask.shape[-1]

    def prepend(prompt: Array, x: Array) -> Array:
      """Copies the prompt in front of each of its completions."""
      prompt = jnp.broadcast_to(prompt[:, None], (P, S, *prompt.shape[1:]))
      return jnp.concatenate([prompt, x], axis=-2)

    keys, values = map(prepend, prompt_keys_values, keys_values)
    # The prompt's last token has index -1.
    key_index = jnp.concatenate([jnp.arange(-prompt_length, 0), query_index])
    key_mask = jnp.concatenate([prompt_mask, key_mask], axis=-1)
  distance = query_index[:, None] - key_index
  visible = distance >= 0
  if inputs.starts is not None:
    first = inputs.starts[..., None]  # [P, S, N, 1]
    in_prompt = key_index < 0
    visible = visible & (in_prompt | (key_index >= first))
    # Positions between a query and a key of the prompt.
    distance = distance - jnp.where(in_prompt, first, 0)
  if window is not None:
    visible &= distance < window
  if visible.ndim == 2:
    visible = visible[None, None]
  visible = visible & key_mask[:, None, None]  # [P, S or 1, N, U]
  visible = jnp.broadcast_to(visible, (P, S, *visible.shape[2:]))
  mask = visible.reshape(P * S, 1, *visible.shape[2:])

  def pad_to_even(x: Array, axes: tuple[int, ...]) -> Array:
    """Pads axes to an even length, which cuDNN requires with a bias."""
    widths = [(0, x.shape[i] % 2 if i in axes else 0) for i in range(x.ndim)]
    return jnp.pad(x, widths)

  def merge_batch(x: Array) -> Array:
    """`[P, S, heads, N, head_dim]` to `[P * S, N, heads, head_dim]`."""
    x = x.reshape(P * S, *x.shape[2:])
    return pad_to_even(x.swapaxes(1, 2), (1,))

  out = jax.nn.dot_product_attention(
    merge_batch(queries),
    merge_batch(keys),
    merge_batch(values),
    mask=pad_to_even(mask, (2, 3)),
    scale=scale or head_dim**-0.5,
    implementation=implementation,
  )
  out = out[:, :N].swapaxes(1, 2).reshape(P, S, heads, N, head_dim)
  # Without this, a query without a visible key returns the mean of all values.
  return jnp.where(visible.any(-1)[:, :, None, :, None], out, 0)


def _shard_kernel(kernel: Callable[..., Array]) -> Callable[..., Array]:
  """Returns a kernel that runs on each device's prompts and heads."""

  @functools.wraps(kernel)
  def sharded(queries: Array, *arrays: Array) -> Array:
    mesh, auto_axes = sharding.mesh_and_auto_axes(queries)
    if not auto_axes:  # there is no mesh
      return kernel(queries, *arrays)
    prompt_axes = tuple(
      name for name in sharding.PROMPT_AXES if name in auto_axes
    )
    if len(queries) % math.prod(mesh.shape[name] for name in prompt_axes):
      # The number of devices does not divide P: each computes all prompts.
      prompt_axes = ()
    head_axis = "tensor" if "tensor" in auto_axes else None
    head_spec = PartitionSpec(prompt_axes, head_axis)
    # Queries, keys and values begin with prompts and heads. The segment ids of
    # rows and of columns, and the blocks that are computed, begin with prompts.
    in_specs = (head_spec,) * 3 + (PartitionSpec(prompt_axes),) * 3
    # XLA cannot partition a kernel by itself.
    return jax.shard_map(
      kernel,
      mesh=mesh,
      in_specs=in_specs,
      out_specs=head_spec,
      axis_names=set(auto_axes),
      check_vma=False,
    )(queries, *arrays)

  return sharded


def _round_up(number: int, multiple: int) -> int:
  """The smallest multiple of `multiple` that is at least `number`."""
  return -(-number // multiple) * multiple
