"""Defines which Hugging Face tensor has which parameter, and in which layout.

Reading, writing and checking of tensor names all use the table
`layout(config)`. A *leaf* is a parameter in the decoder's nested dict, a
*tensor* an array in a safetensors file. A leaf that is stacked over layers, or
over layers and experts, is stored as one tensor per layer, or per layer and
expert. The axes of a tensor may be merged and transposed relative to the leaf,
and several leaves may share a tensor (are *fused*), as in a query-key-value
projection.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import math
import re
from collections.abc import Iterator, Sequence
from typing import Any, Protocol

import jax
import numpy as np

from models import sharding, transformer
from models.config import ModelConfig

Index = tuple[slice, ...]

# Number of rows of an array that `_copy` copies at a time, so that they stay in
# the CPU's cache. For a transpose this was eight times faster than all rows at
# once.
_COPY_ROWS = 16


class SlicedTensor(Protocol):
  """A tensor in a file; indexing it reads that part."""

  def __getitem__(self, index: Index) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class LeafLayout:
  """The layout of one leaf in tensors.

  A *part* is the leaf of one layer, or of one layer and expert. For example, a
  part of `layers.attention.query.kernel` `[layers, D, heads, head_dim]` is
  `[D, heads, head_dim]`. Its tensor is `[heads * head_dim, D]`, so `axes` is
  `((1, 2), (0,))`.

  Attributes:
    leaf: dotted path of the leaf.
    name: name of the tensors, with placeholders `{layer}` and `{expert}`.
    axes: one tuple per axis of a tensor: the axes of a part that are merged
      into it, the slowest first (in C order).
    shape: shape of a part.
    counts: (layers,) or (layers, experts); () if the leaf is not stacked.
    fused_axis: the axis of the tensor along which several leaves are
      concatenated; None if the tensor has this leaf only.
    start: index on `fused_axis` at which this leaf starts.
    total: size of the tensor on `fused_axis`.
  """

  leaf: str
  name: str
  axes: tuple[tuple[int, ...], ...]
  shape: tuple[int, ...]
  counts: tuple[int, ...] = ()
  fused_axis: int | None = None
  start: int = 0
  total: int = 0

  @property
  def sizes(self) -> tuple[int, ...]:
    """The size that a part takes on each axis of its tensor."""
    return tuple(
      math.prod(self.shape[axis] for axis in merged) for merged in self.axes
    )

  @property
  def stored_shape(self) -> tuple[int, ...]:
    """The shape of a tensor, including other leaves that share it."""
    sizes = list(self.sizes)
    if self.fused_axis is not None:
      sizes[self.fused_axis] = self.total
    return tuple(sizes)

  def indices(self) -> Iterator[tuple[int, ...]]:
    """The index (layer,) or (layer, expert) of each part; () if not stacked."""
    return itertools.product(*map(range, self.counts))

  def tensor_name(self, index: tuple[int, ...]) -> str:
    """The name of the tensor of a layer, or of a layer and expert."""
    layer, expert = (*index, 0, 0)[:2]
    return self.name.format(layer=layer, expert=expert)

  def tensor_names(self) -> list[str]:
    """The names of all tensors of this leaf."""
    return [self.tensor_name(index) for index in self.indices()]

  def read(self, tensor: SlicedTensor, index: Index, out: np.ndarray) -> None:
    """Reads a slice of a part from its tensor.

    Args:
      tensor: tensor of the shape `stored_shape`, of which only the necessary
        slices are read.
      index: a slice with start and stop for each axis of the part.
      out: contiguous array for the result; numbers are cast to its dtype.
    """
    file_index, split_shape, memory_index = [], [], []
    for axis, (slowest, *faster) in enumerate(self.axes):
      # Of the merged axes, the slowest is sliced in the file, the faster ones
      # in memory.
      stride = math.prod(self.shape[part_axis] for part_axis in faster)
      offset = self.start if axis == self.fused_axis else 0
      start, stop = index[slowest].start, index[slowest].stop
      file_index.append(slice(offset + start * stride, offset + stop * stride))
      split_shape += [stop - start, *(self.shape[i] for i in faster)]
      memory_index += [slice(None), *(index[i] for i in faster)]
    block = tensor[tuple(file_index)].reshape(split_shape)
    block = block[tuple(memory_index)]
    stored_out = self._to_tensor_axes(out)
    _copy(block.reshape(stored_out.shape), stored_out)

  def write(self, part: np.ndarray, tensor: np.ndarray) -> None:
    """Writes a part to its place in its tensor.

    Args:
      part: array of the shape `shape`.
      tensor: array of the shape `stored_shape`, which is modified.
    """
    index: list[Any] = [slice(None)] * tensor.ndim
    if self.fused_axis is not None:
      stop = self.start + self.sizes[self.fused_axis]
      index[self.fused_axis] = slice(self.start, stop)
    _copy(self._to_tensor_axes(part), tensor[tuple(index)])

  def _to_tensor_axes(self, part: np.ndarray) -> np.ndarray:
    """Returns a view of a part, or of a slice of it, with its tensor's axes."""
    # Merge axes in the order of the part, then transpose to that of the tensor.
    order = np.argsort([merged[0] for merged in self.axes])
    sizes = [
      math.prod(part.shape[axis] for axis in self.axes[i]) for i in order
    ]
    # The part is contiguous, so that merging its axes makes no copy.
    return part.reshape(sizes).transpose(np.argsort(order))


@functools.cache
def leaf_shapes(config: ModelConfig) -> dict[str, jax.ShapeDtypeStruct]:
  """Returns shapes and dtypes of leaves by dotted path.

  The value and extra heads, and adapters, are not included.
  """
  base_config = dataclasses.replace(
    config, value_head=False, extra_heads=(), lora_rank=0
  )
  tree = jax.eval_shape(
    lambda: transformer.init(base_config, jax.random.key(0))
  )
  return sharding.leaves_by_path(tree)


def layout(config: ModelConfig) -> list[LeafLayout]:
  """Returns the layouts of all leaves of a decoder in files of its family."""
  names = _GPT2 if config.family == "gpt2" else _llama_names(config)
  layouts = []
  for path, leaf in leaf_shapes(config).items():
    num_stacked = 0 if not path.startswith("layers.") else 1
    if re.match(r"layers\.experts\.(gate|up|down)", path):
      num_stacked = 2
    shape, counts = leaf.shape[num_stacked:], leaf.shape[:num_stacked]
    axes = _tensor_axes(path, len(shape), transposed=config.family != "gpt2")
    layouts.append(LeafLayout(path, names[path], axes, shape, counts))
  return _place_fused(layouts)


def ignored_names(config: ModelConfig) -> re.Pattern[str]:
  """Returns a pattern of names of tensors that are no parameters."""
  names = [r"(.*\.)?rotary_emb\.inv_freq"]
  if config.family == "gpt2":
    names.append(r"(.*\.)?attn\.(bias|masked_bias)")  # causal masks
  if config.family == "gemma3_text":  # Gemma 3 with images
    names.append(r"(model\.)?(vision_tower|multi_modal_projector)\..*")
  return re.compile("|".join(names))


def embedding_name(config: ModelConfig) -> str:
  """Returns the name of the embedding's tensor, which every checkpoint has."""
  return next(
    leaf_layout.name
    for leaf_layout in layout(config)
    if leaf_layout.leaf == "embed.table"
  )


def name_prefixes(config: ModelConfig) -> tuple[str, ...]:
  """Returns the prefixes that tensor names of the family may have.

  The first prefix is the one in the names of `layout`. The others occur if the
  model was saved without its language-model head, or as part of a model that
  reads images.
  """
  if config.family == "gpt2":
    return ("transformer.", "")
  if config.family == "gemma3_text":
    return ("model.", "", "language_model.model.", "model.language_model.")
  return ("model.", "")


def _copy(source: np.ndarray, out: np.ndarray) -> None:
  """`out[:] = source`, `_COPY_ROWS` rows at a time."""
  for start in range(0, len(source), _COPY_ROWS):
    rows = slice(start, start + _COPY_ROWS)
    out[rows] = source[rows]


def _tensor_axes(
  path: str,  # dotted path of the leaf
  rank: int,  # number of axes of a part
  # Whether kernels are stored as [outputs, inputs], as in torch; GPT-2 stores
  # [inputs, outputs].
  transposed: bool,
) -> tuple[tuple[int, ...], ...]:
  """Returns `LeafLayout.axes` of a leaf."""
  all_axes = tuple(range(rank))
  if path.endswith(".table"):
    return tuple((axis,) for axis in all_axes)
  if not path.endswith(".kernel"):
    return (all_axes,)  # biases and scales are stored with one axis
  num_input_axes = 2 if path == "layers.attention.output.kernel" else 1
  merged = (all_axes[:num_input_axes], all_axes[num_input_axes:])
  # GPT-2's lm_head is a torch linear layer, unlike its other kernels.
  return merged[::-1] if transposed or path == "unembed.kernel" else merged


def _place_fused(layouts: Sequence[LeafLayout]) -> list[LeafLayout]:
  """Sets `fused_axis`, `start` and `total` of leaves that share a tensor."""
  placed = []
  for leaf_layout in layouts:
    fused = [other for other in layouts if other.name == leaf_layout.name]
    if len(fused) == 1:
      placed.append(leaf_layout)
      continue
    # Leaves are concatenated along the axis of outputs, the last of a part.
    last = len(leaf_layout.shape) - 1
    axis = next(
      i for i, merged in enumerate(leaf_layout.axes) if last in merged
    )
    fused.sort(key=lambda other: _FUSED_ORDER.index(other.leaf.split(".")[2]))
    sizes = [other.sizes[axis] for other in fused]
    start = sum(sizes[: fused.index(leaf_layout)])
    placed.append(
      dataclasses.replace(
        leaf_layout, fused_axis=axis, start=start, total=sum(sizes)
      )
    )
  return placed


# The order in which the leaves of these modules are fused in a tensor.
_FUSED_ORDER = ("query", "key", "value", "gate", "up")

# Tensor names of GPT-2 by dotted path of the leaf.
_GPT2 = {
  "embed.table": "transformer.wte.weight",
  "positions.table": "transformer.wpe.weight",
  "unembed.kernel": "lm_head.weight",
  "final_norm.scale": "transformer.ln_f.weight",
  "final_norm.bias": "transformer.ln_f.bias",
  **{
    f"layers.{module}.{leaf}": f"transformer.h.{{layer}}.{hf_module}.{hf_leaf}"
    for module, hf_module, leaves in (
      ("attention_norm", "ln_1", ("scale", "bias")),
      ("mlp_norm", "ln_2", ("scale", "bias")),
      ("attention.query", "attn.c_attn", ("kernel", "bias")),
      ("attention.key", "attn.c_attn", ("kernel", "bias")),
      ("attention.value", "attn.c_attn", ("kernel", "bias")),
      ("attention.output", "attn.c_proj", ("kernel", "bias")),
      ("mlp.up", "mlp.c_fc", ("kernel", "bias")),
      ("mlp.down", "mlp.c_proj", ("kernel", "bias")),
    )
    for leaf, hf_leaf in zip(leaves, ("weight", "bias"), strict=True)
  },
}


def _llama_names(config: ModelConfig) -> dict[str, str]:
  """Returns tensor names by leaf, of Llama and families that resemble it."""
  modules = {
    "attention.query": "self_attn.q_proj",
    "attention.key": "self_attn.k_proj",
    "attention.value": "self_attn.v_proj",
    "attention.output": "self_attn.o_proj",
    "attention.query_norm": "self_attn.q_norm",
    "attention.key_norm": "self_attn.k_norm",
    "mlp.gate": "mlp.gate_proj",
    "mlp.up": "mlp.up_proj",
    "mlp.down": "mlp.down_proj",
    "experts.router": "mlp.gate",
    "experts.gate": "mlp.experts.{expert}.gate_proj",
    "experts.up": "mlp.experts.{expert}.up_proj",
    "experts.down": "mlp.experts.{expert}.down_proj",
    "attention_norm": "input_layernorm",
    "mlp_norm": "post_attention_layernorm",
  }
  if config.norm_place != "pre":
    # In these families post_attention_layernorm normalizes the output of
    # attention; in Llama it is the norm before the MLP.
    modules |= {
      "attention_post_norm": "post_attention_layernorm",
      "mlp_norm": "pre_feedforward_layernorm",
      "mlp_post_norm": "post_feedforward_layernorm",
    }
  if config.family == "mixtral":
    modules |= {
      "experts.router": "block_sparse_moe.gate",
      "experts.gate": "block_sparse_moe.experts.{expert}.w1",
      "experts.up": "block_sparse_moe.experts.{expert}.w3",
      "experts.down": "block_sparse_moe.experts.{expert}.w2",
    }
  if config.family == "phi3":
    for name in ("query", "key", "value"):
      modules[f"attention.{name}"] = "self_attn.qkv_proj"
    for name in ("gate", "up"):
      modules[f"mlp.{name}"] = "mlp.gate_up_proj"
  names = {
    "embed.table": "model.embed_tokens.weight",
    "unembed.kernel": "lm_head.weight",
    "final_norm.scale": "model.norm.weight",
  }
  for module, hf_module in modules.items():
    for leaf, hf_leaf in _HF_LEAVES.items():
      names[f"layers.{module}.{leaf}"] = (
        f"model.layers.{{layer}}.{hf_module}.{hf_leaf}"
      )
  return names


# Hugging Face's names of the leaves of a module, which has a kernel or a scale,
# but not both.
_HF_LEAVES = {"kernel": "weight", "scale": "weight", "bias": "bias"}
