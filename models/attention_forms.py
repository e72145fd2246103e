"""The forms (algorithms) in which attention of whole sequences is computed.

`ModelConfig.attention` names the form. All forms compute the same function:

- "plain": all query-key pairs at once, with a mask.
- "blocked": queries in blocks, each with the keys up to the block's end only.
- "splash": Pallas kernel for TPUs, in `models.attention_kernels`.
- "cudnn": cuDNN kernel for NVIDIA GPUs, in `models.attention_kernels`.

Axes: P prompts, S completions per prompt (1 for the attention of prompts), L
prompt tokens, N query tokens, U keys, head_dim channels of a head.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping

import jax
import jax.numpy as jnp
from jax.sharding import PartitionSpec

from models import attention, sharding
from models.attention import AttentionInputs, KeySet

Array = jax.Array
# Number of blocks that N queries are cut into in the form "blocked". With four
# blocks, 5/8 of all query-key pairs are computed; on CPU, eight were slower.
NUM_BLOCKS = 4
MIN_BLOCK = 64  # queries per block; smaller blocks save next to nothing


def attend(
  inputs: AttentionInputs, form: str, scale: float, softcap: float
) -> Array:
  """Computes softmax attention in one of the forms.

  Args:
    inputs: queries, keys, values and masks.
    form: one of `models.config.ATTENTIONS`.
    scale: factor of the scores; 0 means `head_dim ** -0.5`.
    softcap: c of the cap `c * tanh(score / c)` on scores; 0 means no cap.

  Returns:
    `[P, S, heads, N, head_dim]`. The output of a query that sees no real token
    (padding on the left of a prompt) is exactly 0 and has zero gradient.
  """
  return FORMS[form](inputs, scale, softcap)


def attend_all_pairs(
  inputs: AttentionInputs, scale: float, softcap: float
) -> Array:
  """Form "plain": scores of all query-key pairs at once, with a mask."""
  num_queries = inputs.queries.shape[-2]
  return _attend_block(inputs, scale, softcap, start=0, stop=num_queries)


def attend_in_blocks(
  inputs: AttentionInputs, scale: float, softcap: float
) -> Array:
  """Form "blocked": blocks of queries, each with the keys that it can see.

  Scores of a query and a key in a later block are never computed. If the window
  is a Python int, scores of keys before the window of the block's first query
  are not computed either. If the mesh axis "context" splits the tokens over
  devices, each device computes a contiguous part of the queries over all keys.
  """
  num_parts = sharding.num_shards(inputs.queries, "context")
  if num_parts > 1:
    return _attend_sharded(inputs, scale, softcap, num_parts)
  num_queries = inputs.queries.shape[-2]
  block_size = max(MIN_BLOCK, math.ceil(num_queries / NUM_BLOCKS))
  blocks = []
  # max(..., 1): a sequence without tokens still has one block, of size 0.
  for start in range(0, max(num_queries, 1), block_size):
    stop = min(start + block_size, num_queries)
    blocks.append(_attend_block(inputs, scale, softcap, start, stop))
  return jnp.concatenate(blocks, axis=-2)


def attend_in_kernel(
  inputs: AttentionInputs, scale: float, softcap: float, *, kernel: str
) -> Array:
  """Forms "splash" and "cudnn": a function of `models.attention_kernels`."""
  # Imported here, because importing Pallas takes longer than this package, and
  # only accelerators run the kernels.
  from models import attention_kernels

  return getattr(attention_kernels, kernel)(inputs, scale, softcap)


# `(inputs, scale, softcap) -> outputs` by the name of the form.
FORMS: Mapping[str, Callable[[AttentionInputs, float, float], Array]] = {
  "plain": attend_all_pairs,
  "blocked": attend_in_blocks,
  "splash": functools.partial(attend_in_kernel, kernel="splash"),
  "cudnn": functools.partial(attend_in_kernel, kernel="cudnn"),
}


def _attend_block(
  inputs: AttentionInputs, scale: float, softcap: float, start: int, stop: int
) -> Array:
  """Computes queries start to stop - 1 over the keys that any of them sees."""
  queries = jax.lax.slice_in_dim(inputs.queries, start, stop, axis=-2)
  window, prompt_length = inputs.window, inputs.prompt_mask.shape[-1]
  # The size of a traced window is not known here, so no key is skipped.
  reach = window if isinstance(window, int) else prompt_length + stop
  # The first visible key of the prompt, and of the N tokens. Query `start` sees
  # `reach` positions up to its own; the N tokens follow the prompt. If it is
  # not of the first completion, fewer positions lie between it and the prompt.
  is_single = inputs.starts is None
  first_keys = (
    max(0, prompt_length + start - reach + 1) if is_single else 0,
    max(0, start - reach + 1),
  )
  indices = jnp.arange(start, stop)
  return _attend_queries(
    inputs, queries, indices, scale, softcap, first_keys, stop
  )


def _attend_sharded(
  inputs: AttentionInputs, scale: float, softcap: float, num_parts: int
) -> Array:
  """Attention with queries split over the mesh axis "context"."""
  num_queries = inputs.queries.shape[-2]
  part_size = -(-num_queries // num_parts)  # queries per device, rounded up
  block_size = min(MIN_BLOCK, part_size)
  num_blocks = -(-part_size // block_size)

  def attend_part(
    queries: Array, first: Array, inputs: AttentionInputs
  ) -> Array:
    """Computes one device's queries; `first` `[1]` is the first's index."""
    queries = _pad_queries(queries, num_blocks * block_size)
    shape = *queries.shape[:3], num_blocks, block_size, queries.shape[-1]
    # [num_blocks, P, S, heads, block_size, head_dim], to loop over axis 0.
    queries = jnp.moveaxis(queries.reshape(shape), 3, 0)

    @jax.checkpoint
    def attend_block(start: Array, queries: Array) -> Array:
      indices = start + jnp.arange(block_size)
      return _attend_queries(
        inputs, queries, indices, scale, softcap, (0, 0), num_queries
      )

    # The scores of a long sequence do not fit into a device's memory. Therefore
    # the device loops over small blocks of its queries, and the backward pass
    # computes their scores again.
    starts = first + block_size * jnp.arange(num_blocks)
    out = jax.lax.map(lambda block: attend_block(*block), (starts, queries))
    out = jnp.moveaxis(out, 0, 3)
    out = out.reshape(*out.shape[:3], num_blocks * block_size, -1)
    return out[..., :part_size, :]

  mesh, _ = sharding.mesh_and_auto_axes(inputs.queries)
  query_spec = PartitionSpec(None, None, None, "context")
  out = jax.shard_map(
    attend_part,
    mesh=mesh,
    in_specs=(query_spec, PartitionSpec("context"), PartitionSpec()),
    out_specs=query_spec,
    axis_names={"context"},
    check_vma=False,
  )(
    _pad_queries(inputs.queries, num_parts * part_size),
    part_size * jnp.arange(num_parts),
    inputs._replace(queries=None),  # keys, values and masks, on all devices
  )
  return out[..., :num_queries, :]


def _pad_queries(queries: Array, length: int) -> Array:
  """Pads axis -2, the query tokens, with zeros at its end to `length`."""
  widths = [(0, 0)] * (queries.ndim - 2)
  widths += [(0, length - queries.shape[-2]), (0, 0)]
  return jnp.pad(queries, widths)


def _attend_queries(
  inputs: AttentionInputs,  # keys, values and masks; its queries are not read
  queries: Array,  # the n queries, [P, S, heads, n, head_dim]
  indices: Array,  # index of each query among the N tokens, [n]
  scale: float,  # factor of the scores; 0 means head_dim ** -0.5
  softcap: float,  # c of the cap c * tanh(score / c); 0 means no cap
  # Index of the first key that is read, in the prompt and among the N tokens.
  # No query sees an earlier key.
  first_keys: tuple[int, int],
  stop: int,  # index among the N tokens after the last key that is read
) -> Array:
  """Attention of n of the N queries, `[P, S, heads, n, head_dim]`."""
  window, prompt_length = inputs.window, inputs.prompt_mask.shape[-1]
  query_index = indices[:, None]  # [n, 1]

  # Index of the first token of each query's completion, [P or 1, S or 1, n, 1].
  starts = jnp.zeros((1, 1, 1), jnp.int32)
  if inputs.starts is not None:
    starts = jnp.take(inputs.starts, indices, axis=-1, mode="clip")
  first_index = starts[..., None]

  def slice_keys(
    keys_values: tuple[Array, Array], first: int, end: int
  ) -> tuple[Array, Array]:
    """Slices keys, transposed as `KeySet` stores them, and values."""
    keys, values = keys_values
    return (
      jax.lax.slice_in_dim(keys, first, end, axis=-2).mT,
      jax.lax.slice_in_dim(values, first, end, axis=-2),
    )

  key_sets = []
  first_prompt_key, first_key = first_keys
  if inputs.prompt_keys_values is not None and first_prompt_key < prompt_length:
    # [P, 1, 1, U]
    visible = inputs.prompt_mask[:, None, None, first_prompt_key:]
    if window is not None:
      # The prompt's last token is one position before a completion's first.
      key_index = jnp.arange(first_prompt_key - prompt_length, 0)
      visible = visible & (query_index - first_index - key_index < window)
    prompt_keys_values = slice_keys(
      inputs.prompt_keys_values, first_prompt_key, prompt_length
    )
    key_sets.append(KeySet(*prompt_keys_values, visible))
  key_index = jnp.arange(first_key, stop)
  visible = (first_index <= key_index) & (key_index <= query_index)
  if window is not None:
    visible &= query_index - key_index < window
  if inputs.prompt_keys_values is None:
    # The N tokens are the prompt, so its padding is masked here.
    visible = visible & inputs.prompt_mask[:, None, None, first_key:stop]
  keys_values = slice_keys(inputs.keys_values, first_key, stop)
  key_sets.append(KeySet(*keys_values, visible))
  return attention.attend(queries, key_sets, scale, softcap)
