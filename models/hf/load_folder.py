"""Reads a Hugging Face folder: its config, and its weights slice by slice.

Each process reads only the slices that its devices need.
`models.hf.tensor_layout` defines which tensor of the files has which parameter.
"""

from __future__ import annotations

import dataclasses
import functools
import itertools
import json
import math
import os
import pathlib
from collections.abc import Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from flax import traverse_util
from jax.sharding import Mesh, SingleDeviceSharding

from models import sharding, storage_paths, transformer
from models.config import DTYPES, ModelConfig
from models.hf import config_conversion, tensor_layout
from models.hf.tensor_layout import LeafLayout
from rl import UsageError, registry

Params = transformer.Params
Folder = str | os.PathLike

# Names of files.
CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
HEADS = "heads.safetensors"  # value and extra heads; not a Hugging Face file

# Makes a nested dict of a dict whose keys are dotted paths.
_nest = functools.partial(traverse_util.unflatten_dict, sep=".")
_STORED_DTYPES = ("F32", "BF16", "F16")  # dtypes that are read, by file name
_UNEMBEDDING = "lm_head.weight"
_COMPARED_ROWS = 4096  # rows of an embedding that are compared at a time
_ALIGNMENT = 64  # bytes; XLA on CPU uses such aligned buffers without a copy


def load(
  folder: Folder, dtype: str = "float32", mesh: Mesh | None = None
) -> tuple[ModelConfig, Params]:
  """Loads a decoder from a folder with safetensors files.

  Tensors are read slice by slice into one buffer per shard. The buffer becomes
  the array, so that all parameters together are never in memory twice.

  Args:
    folder: folder with a `config.json` and safetensors, in one or several
      files.
    dtype: dtype of the parameters and activations, independent of the stored
      dtype. Heads besides the logits are float32.
    mesh: mesh over which the parameters are split, by the rules of
      `models.sharding`; None means the first local device.

  Returns:
    (config, params). Heads that `save` wrote are included.

  Raises:
    UsageError: the folder does not exist, its architecture or a value in its
      config is not supported, a file is missing or corrupt, or a tensor is
      missing, unknown, quantized or of another shape. The message is one line.
  """
  config, layouts, stored = _open_checked(folder, dtype)
  if config.tied_embeddings and _UNEMBEDDING in stored:
    embedding = stored[tensor_layout.embedding_name(config)]
    _check_tied(embedding, stored[_UNEMBEDDING])
  shapes = tensor_layout.leaf_shapes(config)
  shardings = _leaf_shardings(shapes, mesh)
  leaves = {}

  # Load the largest leaf first: while a leaf is loaded, its buffer is in memory
  # next to the finished arrays, so the last buffers should be small.
  for layout in sorted(
    layouts, key=lambda layout: -math.prod((*layout.counts, *layout.shape))
  ):
    name = layout.leaf
    leaves[name] = _load_leaf(layout, shapes[name], shardings[name], stored)
  return config, _nest(leaves) | _load_heads(folder, mesh)


def load_config(folder: Folder, dtype: str = "float32") -> ModelConfig:
  """Loads the config of a folder's decoder; reads no weights.

  Heads that `save` wrote are included.

  Args:
    folder: a folder as in `load`.
    dtype: dtype of the parameters and activations.

  Raises:
    UsageError: `config.json` is missing, or is not supported.
  """
  registry.check_known("dtype", dtype, DTYPES)
  config = config_conversion.from_hf(read_json(folder, CONFIG), dtype)
  path = require_local(folder) / HEADS
  if not path.exists():
    return config
  with _open_file(path) as file:
    head_fields = json.loads(file.metadata()["heads"])
  return dataclasses.replace(config, **head_fields)


def require_local(folder: Folder) -> pathlib.Path:
  """Returns the path of a model folder, which must be on this machine.

  Raises:
    UsageError: the folder is in a bucket, where files cannot be mapped into
      memory.
  """
  return storage_paths.require_local(folder, "model folder")


def check_folder(folder: Folder) -> None:
  """Checks that `load` can load a folder; reads file headers only.

  Raises:
    UsageError: the folder cannot be loaded, for the reasons of `load`. One
      reason is not checked, because it needs weights: a stored unembedding that
      differs from the embedding to which it is tied.
  """
  _open_checked(folder)


def check_tokenizer(config: ModelConfig, length: int, folder: Folder) -> None:
  """Checks that the embedding has a row for each id of a tokenizer.

  Args:
    config: the decoder's config.
    length: number of ids, see `models.tokenizer.required_vocab_size`.
    folder: folder of the tokenizer, for the error message.

  Raises:
    UsageError: the tokenizer has more ids than the embedding has rows.
  """
  if length > config.vocab_size:
    raise UsageError(
      f"the tokenizer of {folder} has {length} tokens, but the embedding has "
      f"{config.vocab_size} rows; use a tokenizer with at most as many tokens"
    )


def read_json(folder: Folder, name: str) -> dict[str, Any]:
  """Reads a JSON file of a model folder.

  Raises:
    UsageError: the folder or the file does not exist, or the file is not a JSON
      object.
  """
  folder = require_local(folder)
  if not folder.is_dir():
    raise UsageError(f"{str(folder)!r} is not a folder")
  if not (folder / name).exists():
    raise UsageError(f"{folder} has no {name}; name a Hugging Face folder")
  try:
    data = json.loads((folder / name).read_text(encoding="utf-8"))
  except ValueError as error:
    raise UsageError(f"{folder / name} is not JSON: {error}") from None
  if not isinstance(data, dict):
    raise UsageError(f"{folder / name} is not a JSON object")
  return data


class _StoredTensor(NamedTuple):
  """A tensor of an open safetensors file."""

  file: Any  # the open file
  name: str  # name in the file
  shape: tuple[int, ...]
  dtype: str  # in safetensors' notation, such as "BF16"

  def open(self) -> tensor_layout.SlicedTensor:
    """Returns an object that reads a slice of the tensor when indexed."""
    return self.file.get_slice(self.name)


def _open_checked(
  folder: Folder, dtype: str = "float32"
) -> tuple[ModelConfig, list[LeafLayout], dict[str, _StoredTensor]]:
  """Opens a folder; checks its config, and the headers of its tensors."""
  config = load_config(folder, dtype)
  stored = _match_names(config, _open_tensors(folder), folder)
  layouts = tensor_layout.layout(config)
  _check_tensors(config, layouts, stored, folder)
  return config, layouts, stored


def _open_tensors(folder: Folder) -> dict[str, _StoredTensor]:
  """Returns all tensors of a folder by name; reads file headers only."""
  folder = require_local(folder)
  if (folder / WEIGHTS).exists():
    files = [WEIGHTS]
  elif (folder / INDEX).exists():
    file_by_tensor = read_json(folder, INDEX).get("weight_map", {})
    files = sorted(set(file_by_tensor.values()))
    for name in files:
      if not (folder / name).exists():
        raise UsageError(f"shard {name}, which {INDEX} names, is missing")
  elif pickles := sorted(folder.glob("*.bin")):
    raise UsageError(
      f"{folder} has pickles ({pickles[0].name}) and no {WEIGHTS}; convert "
      "them with save_pretrained of transformers"
    )
  else:
    raise UsageError(f"{folder} has neither {WEIGHTS} nor {INDEX}")
  stored = {}
  for file_name in files:
    file = _open_file(folder / file_name)
    for name in file.keys():  # noqa: SIM118
      tensor = file.get_slice(name)
      shape = tuple(tensor.get_shape())
      stored[name] = _StoredTensor(file, name, shape, tensor.get_dtype())
  return stored


def _open_file(path: pathlib.Path) -> Any:
  try:
    return safetensors.safe_open(path, framework="numpy")
  except safetensors.SafetensorError as error:
    raise UsageError(f"corrupt shard {path}: {error}") from None


def _match_names(
  config: ModelConfig,
  stored: dict[str, _StoredTensor],  # tensors by their names in the files
  folder: Folder,  # only for error messages
) -> dict[str, _StoredTensor]:
  """Returns the tensors by the names that the layouts expect."""
  expected_prefix, *other_prefixes = tensor_layout.name_prefixes(config)
  # Every model has an embedding, whose name shows the prefix.
  embedding = tensor_layout.embedding_name(config)
  # The names in the files can have another prefix.
  for prefix in (expected_prefix, *other_prefixes):
    if prefix + embedding.removeprefix(expected_prefix) in stored:
      break
  else:
    raise UsageError(f"{folder} has no tensor {embedding}")
  matched = {}
  for name, tensor in stored.items():
    # The unembedding is not part of the base model and has another prefix.
    leaf = name.rpartition("lm_head.")[2]
    if leaf != name:  # the name has "lm_head."
      matched["lm_head." + leaf] = tensor
    elif name.startswith(prefix):
      matched[expected_prefix + name.removeprefix(prefix)] = tensor
    else:
      matched[name] = tensor
  return matched


def _check_tensors(
  config: ModelConfig,
  layouts: Iterable[LeafLayout],  # layouts of all leaves
  stored: dict[str, _StoredTensor],  # tensors by expected name
  folder: Folder,
) -> None:
  """Checks the names, dtypes and shapes of the stored tensors."""
  expected = {
    name: layout for layout in layouts for name in layout.tensor_names()
  }
  missing = sorted(expected.keys() - stored.keys())
  ignored = tensor_layout.ignored_names(config)
  # A tied unembedding may be stored; `_check_tied` compares it.
  tied = {_UNEMBEDDING} if config.tied_embeddings else set()
  unknown = sorted(
    stored[name].name
    for name in stored.keys() - expected.keys() - tied
    if not ignored.fullmatch(stored[name].name)
  )
  if missing or unknown:
    lists = (("missing", missing), ("unknown", unknown))
    raise UsageError(
      f"{folder}: "
      + "; ".join(
        _format_names(kind, listed) for kind, listed in lists if listed
      )
    )
  for name, layout in expected.items():
    tensor = stored[name]
    if tensor.dtype not in _STORED_DTYPES:
      raise UsageError(
        f"dtype mismatch: {tensor.name} is stored as {tensor.dtype}; only "
        f"{', '.join(_STORED_DTYPES)} are read"
      )
    if tensor.shape != layout.stored_shape:
      raise UsageError(
        f"{tensor.name} has shape {tensor.shape}, but {CONFIG} needs shape "
        f"{layout.stored_shape}"
      )


def _format_names(kind: str, names: list[str]) -> str:
  """Returns text such as "2 missing tensors: a, b", with at most four names."""
  listed = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
  return f"{len(names)} {kind} tensor{'s' * (len(names) > 1)}: {listed}"


def _check_tied(embedding: _StoredTensor, unembedding: _StoredTensor) -> None:
  """Checks that a stored unembedding equals the embedding it is tied to."""
  equal = embedding.shape == unembedding.shape
  embedding_rows, unembedding_rows = embedding.open(), unembedding.open()
  num_rows = embedding.shape[0]
  for start in range(0, num_rows, _COMPARED_ROWS):
    rows = slice(start, min(start + _COMPARED_ROWS, num_rows))
    equal = equal and np.array_equal(
      embedding_rows[rows], unembedding_rows[rows]
    )
  if not equal:
    raise UsageError(
      f"{unembedding.name} differs from {embedding.name}, but {CONFIG} has "
      f"tie_word_embeddings = true; set it to false, or remove the tensor "
      f"{unembedding.name}"
    )


def _leaf_shardings(
  shapes: dict[str, jax.ShapeDtypeStruct], mesh: Mesh | None
) -> dict[str, jax.sharding.Sharding]:
  """Returns the sharding of each leaf by its dotted path."""
  if mesh is None:
    device = SingleDeviceSharding(jax.local_devices()[0])
    return dict.fromkeys(shapes, device)
  return sharding.leaves_by_path(sharding.shardings(_nest(shapes), mesh))


def _load_leaf(
  layout: LeafLayout,
  leaf: jax.ShapeDtypeStruct,
  leaf_sharding: jax.sharding.Sharding,
  stored: dict[str, _StoredTensor],  # tensors by name in `tensor_layout`
) -> jax.Array:
  """Loads one leaf, shard by shard."""
  # The shards that have been read, by the (start, stop) of each axis.
  buffers: dict[tuple[tuple[int, int], ...], np.ndarray] = {}

  def load_shard(index: tuple[slice, ...]) -> np.ndarray:
    bounds = tuple(
      axis_slice.indices(size)[:2]
      for axis_slice, size in zip(index, leaf.shape, strict=True)
    )
    if bounds not in buffers:  # several devices may have copies of a shard
      buffers[bounds] = read_shard(bounds)
    return buffers[bounds]

  def read_shard(bounds: tuple[tuple[int, int], ...]) -> np.ndarray:
    sizes = [stop - start for start, stop in bounds]
    buffer = _empty_aligned(sizes, jnp.dtype(leaf.dtype))
    num_stacked = len(layout.counts)
    inner = tuple(slice(*bound) for bound in bounds[num_stacked:])
    # Each layer, or layer and expert, of the shard.
    for stacked in itertools.product(
      *(range(*bound) for bound in bounds[:num_stacked])
    ):
      tensor = stored[layout.tensor_name(stacked)].open()
      buffer_index = tuple(
        i - start for i, (start, _) in zip(stacked, bounds, strict=False)
      )
      layout.read(tensor, inner, buffer[buffer_index])
    return buffer

  array = jax.make_array_from_callback(leaf.shape, leaf_sharding, load_shard)
  return jax.block_until_ready(array)


def _empty_aligned(shape: list[int], dtype: np.dtype) -> np.ndarray:
  """Returns an uninitialized array that XLA on CPU can use without a copy."""
  num_bytes = math.prod(shape) * dtype.itemsize
  memory = np.empty(num_bytes + _ALIGNMENT, np.uint8)
  start = -memory.ctypes.data % _ALIGNMENT
  return memory[start : start + num_bytes].view(dtype).reshape(shape)


def _load_heads(folder: Folder, mesh: Mesh | None) -> Params:
  """Loads the heads that `save` wrote; returns {} if there is no file."""
  path = require_local(folder) / HEADS
  if not path.exists():
    return {}
  with _open_file(path) as file:
    leaves = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
  shardings = _leaf_shardings(leaves, mesh)
  placed = {n: jax.device_put(leaf, shardings[n]) for n, leaf in leaves.items()}
  return _nest(placed)
