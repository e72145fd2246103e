"""Which tensor of a checkpoint holds which leaf of the parameters.

One table serves reading, writing and the listing of strange names. A leaf that
is stacked over layers, or over layers and experts, is one tensor for each.
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

_ROWS = 16  # of a transpose at a time; measured, eight times faster than all


class Stored(Protocol):
  """A tensor of a file, of which parts are read when it is indexed."""

  def __getitem__(self, index: Index) -> np.ndarray: ...


@dataclasses.dataclass(frozen=True)
class Entry:
  """How the tensors of one name make a leaf.

  Attributes:
    leaf: dotted path of the leaf.
    name: of the tensors, with `{layer}` and `{expert}` to fill in.
    axes: for each axis of a tensor, the axes of one layer's (or expert's) leaf
      that it runs over, the last one fastest.
    shape: of one layer's (or expert's) leaf.
    counts: of layers, or of layers and experts.
    fused: the tensor's axis that holds other leaves too, or None.
    start: where this leaf begins on that axis.
    total: the axis's size.
  """

  leaf: str
  name: str
  axes: tuple[tuple[int, ...], ...]
  shape: tuple[int, ...]
  counts: tuple[int, ...] = ()
  fused: int | None = None
  start: int = 0
  total: int = 0

  @property
  def sizes(self) -> tuple[int, ...]:
    """What this leaf takes of each axis of a tensor."""
    return tuple(
      math.prod(self.shape[axis] for axis in merged) for merged in self.axes
    )

  @property
  def stored_shape(self) -> tuple[int, ...]:
    """Of one tensor, other leaves in it included."""
    sizes = list(self.sizes)
    if self.fused is not None:
      sizes[self.fused] = self.total
    return tuple(sizes)

  def numbers(self) -> Iterator[tuple[int, ...]]:
    """The layer, or layer and expert, of every tensor."""
    return itertools.product(*map(range, self.counts))

  def filled(self, number: tuple[int, ...]) -> str:
    """The name of the tensor of this layer and expert."""
    layer, expert = (*number, 0, 0)[:2]
    return self.name.format(layer=layer, expert=expert)

  def names(self) -> list[str]:
    """Of all tensors."""
    return [self.filled(number) for number in self.numbers()]

  def take(self, tensor: Stored, index: Index, part: np.ndarray) -> None:
    """Reads a part of one layer's leaf from its tensor.

    Args:
      tensor: of the whole `stored_shape`; only what is needed is read.
      index: of the leaf, slices with a start and a stop.
      part: contiguous; filled, in its own dtype.
    """
    read, split, inner = [], [], []
    for axis, (first, *rest) in enumerate(self.axes):
      # The slowest of the merged axes is cut in the file, the others here.
      row = math.prod(self.shape[other] for other in rest)
      offset = self.start if axis == self.fused else 0
      start, stop = index[first].start, index[first].stop
      read.append(slice(offset + start * row, offset + stop * row))
      split += [stop - start, *(self.shape[other] for other in rest)]
      inner += [slice(None), *(index[other] for other in rest)]
    found = tensor[tuple(read)].reshape(split)[tuple(inner)]
    into = self._as_stored(part)
    _copy(found.reshape(into.shape), into)

  def put(self, part: np.ndarray, tensor: np.ndarray) -> None:
    """Writes one layer's leaf where it belongs in its tensor."""
    place: list[Any] = [slice(None)] * tensor.ndim
    if self.fused is not None:
      stop = self.start + self.sizes[self.fused]
      place[self.fused] = slice(self.start, stop)
    _copy(self._as_stored(part), tensor[tuple(place)])

  def _as_stored(self, part: np.ndarray) -> np.ndarray:
    """A contiguous part of a leaf, seen with the axes of its tensor."""
    order = np.argsort([merged[0] for merged in self.axes])
    sizes = [
      math.prod(part.shape[axis] for axis in self.axes[i]) for i in order
    ]
    return part.reshape(sizes).transpose(np.argsort(order))


@functools.cache
def shapes(config: ModelConfig) -> dict[str, jax.ShapeDtypeStruct]:
  """The decoder's leaves by dotted path, without heads and adapters."""
  plain = dataclasses.replace(
    config, value_head=False, extra_heads=(), lora_rank=0
  )
  tree = jax.eval_shape(lambda: transformer.init(plain, jax.random.key(0)))
  leaves = jax.tree_util.tree_leaves_with_path(tree)
  return {sharding.dotted(path): leaf for path, leaf in leaves}


def nested(leaves: dict[str, Any]) -> dict[str, Any]:
  """A tree of leaves by dotted path."""
  tree: dict[str, Any] = {}
  for path, leaf in leaves.items():
    *above, name = path.split(".")
    branch = tree
    for key in above:
      branch = branch.setdefault(key, {})
    branch[name] = leaf
  return tree


def table(config: ModelConfig) -> list[Entry]:
  """The entries of a decoder in the layout of its family."""
  templates = _GPT2 if config.family == "gpt2" else _llama(config)
  entries = []
  for path, leaf in shapes(config).items():
    stack = 0 if not path.startswith("layers.") else 1
    if re.match(r"layers\.experts\.(gate|up|down)", path):
      stack = 2
    shape, counts = leaf.shape[stack:], leaf.shape[:stack]
    name = templates[path]
    axes = _axes(path, len(shape), transposed=config.family != "gpt2")
    entries.append(Entry(path, name, axes, shape, counts))
  return _fused(entries)


def ignored(config: ModelConfig) -> re.Pattern[str]:
  """Names of tensors that hold nothing that is learned."""
  names = [r"(.*\.)?rotary_emb\.inv_freq"]
  if config.family == "gpt2":
    names.append(r"(.*\.)?attn\.(bias|masked_bias)")
  if config.family == "gemma3_text":  # of Gemma 3 with images
    names.append(r"(model\.)?(vision_tower|multi_modal_projector)\..*")
  return re.compile("|".join(names))


def embedding(config: ModelConfig) -> str:
  """The tensor that every checkpoint has."""
  return next(e.name for e in table(config) if e.leaf == "embed.table")


def prefixes(config: ModelConfig) -> tuple[str, ...]:
  """What names may begin with; the first is what is written."""
  if config.family == "gpt2":
    return ("transformer.", "")
  if config.family == "gemma3_text":
    return ("model.", "", "language_model.model.", "model.language_model.")
  return ("model.", "")


def _copy(source: np.ndarray, into: np.ndarray) -> None:
  """`into[:] = source` a few rows at a time: a transpose stays in the cache."""
  for start in range(0, len(source), _ROWS):
    rows = slice(start, start + _ROWS)
    into[rows] = source[rows]


def _axes(
  path: str, rank: int, transposed: bool
) -> tuple[tuple[int, ...], ...]:
  """How the axes of a tensor run over those of a leaf.

  Torch's linear layers keep `[outputs, inputs]`, GPT-2's the other way round.
  """
  every = tuple(range(rank))
  if not path.endswith(".kernel"):
    table = path.endswith(".table")
    return tuple((axis,) for axis in every) if table else (every,)
  inputs = 2 if path == "layers.attention.output.kernel" else 1
  pair = (every[:inputs], every[inputs:])
  return pair[::-1] if transposed or path == "unembed.kernel" else pair


def _fused(entries: Sequence[Entry]) -> list[Entry]:
  """Places the leaves of a shared tensor one after the other."""
  found = []
  for entry in entries:
    sharing = [other for other in entries if other.name == entry.name]
    if len(sharing) == 1:
      found.append(entry)
      continue
    # The axis of the outputs, the leaf's last axis.
    last = len(entry.shape) - 1
    axis = next(i for i, merged in enumerate(entry.axes) if last in merged)
    sharing.sort(key=lambda other: _ORDER.index(other.leaf.split(".")[2]))
    sizes = [other.sizes[axis] for other in sharing]
    start = sum(sizes[: sharing.index(entry)])
    found.append(
      dataclasses.replace(entry, fused=axis, start=start, total=sum(sizes))
    )
  return found


_ORDER = ("query", "key", "value", "gate", "up")  # in fused tensors

_GPT2 = {
  "embed.table": "transformer.wte.weight",
  "positions.table": "transformer.wpe.weight",
  "unembed.kernel": "lm_head.weight",
  "final_norm.scale": "transformer.ln_f.weight",
  "final_norm.bias": "transformer.ln_f.bias",
  **{
    f"layers.{ours}.{mine}": f"transformer.h.{{layer}}.{theirs}.{other}"
    for ours, theirs, leaves in (
      ("attention_norm", "ln_1", ("scale", "bias")),
      ("mlp_norm", "ln_2", ("scale", "bias")),
      ("attention.query", "attn.c_attn", ("kernel", "bias")),
      ("attention.key", "attn.c_attn", ("kernel", "bias")),
      ("attention.value", "attn.c_attn", ("kernel", "bias")),
      ("attention.output", "attn.c_proj", ("kernel", "bias")),
      ("mlp.up", "mlp.c_fc", ("kernel", "bias")),
      ("mlp.down", "mlp.c_proj", ("kernel", "bias")),
    )
    for mine, other in zip(leaves, ("weight", "bias"), strict=True)
  },
}


def _llama(config: ModelConfig) -> dict[str, str]:
  """Llama's names, and those that its successors changed."""
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
  found = {
    "embed.table": "model.embed_tokens.weight",
    "unembed.kernel": "lm_head.weight",
    "final_norm.scale": "model.norm.weight",
  }
  for ours, theirs in modules.items():
    for mine, other in _LEAVES.items():
      found[f"layers.{ours}.{mine}"] = (
        f"model.layers.{{layer}}.{theirs}.{other}"
      )
  return found


_LEAVES = {"kernel": "weight", "scale": "weight", "bias": "bias"}
