"""Reading a Hugging Face folder: lazily, each host what its shards need."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
import os
import pathlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import safetensors
from jax.sharding import Mesh, SingleDeviceSharding

from models import buckets, sharding, transformer
from models.config import DTYPES, ModelConfig
from models.hf import tensors, translate
from models.hf.tensors import Entry
from rl import choices

Params = transformer.Params
Folder = str | os.PathLike

CONFIG = "config.json"
GENERATION = "generation_config.json"
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
HEADS = "heads.safetensors"  # ours: Hugging Face has no place for them
_STORED = ("F32", "BF16", "F16")
_UNEMBEDDING = "lm_head.weight"
_ROWS = 4096  # of an embedding, compared at a time
_ALIGNMENT = 64  # bytes, XLA's on CPU


def load(
  folder: Folder, dtype: str = "float32", mesh: Mesh | None = None
) -> tuple[ModelConfig, Params]:
  """The decoder of a folder of safetensors, on the devices.

  Tensors are read slice by slice into one buffer per shard, which becomes the
  array, largest leaves first: no second copy of the parameters ever exists.

  Args:
    folder: `config.json` and safetensors, in one file or in shards.
    dtype: of the parameters and activations, whatever is stored; heads are
      float32.
    mesh: where parameters go by the rules of `models.sharding`; None puts them
      on the first local device.

  Returns:
    (config, params). Heads that `save` wrote beside are there too.

  Raises:
    ValueError: no such folder, an architecture or a value that is not
      supported, a corrupt or missing shard, missing or unknown tensors, a
      tensor of another shape, or of a quantised dtype; in one line.
  """
  shape = config(folder, dtype)
  found = _open(folder)
  names = _names(shape, found, folder)
  table = tensors.table(shape)
  _check_tensors(shape, table, names, found, folder)
  if shape.tied_embeddings and _UNEMBEDDING in names:
    first = found[names[tensors.embedding(shape)]]
    _check_tied(first, found[names[_UNEMBEDDING]])
  shapes = tensors.shapes(shape)
  places = _places(shapes, mesh)
  leaves = {}
  # The largest first: what is copied last is small.
  for entry in sorted(table, key=lambda e: -math.prod((*e.counts, *e.shape))):
    stored = lambda name: found[names[name]].open()  # noqa: E731
    leaf = shapes[entry.leaf]
    leaves[entry.leaf] = _array(entry, leaf, places[entry.leaf], stored)
  return shape, tensors.nested(leaves) | _heads(folder, mesh)


def config(folder: Folder, dtype: str = "float32") -> ModelConfig:
  """The decoder's shape alone; no weights are read.

  Raises:
    ValueError: as of `load`, as far as `config.json` says it.
  """
  if dtype not in DTYPES:
    raise ValueError(choices.unknown("dtype", dtype, DTYPES))
  shape = translate.read(read_json(folder, CONFIG), dtype)
  path = local(folder) / HEADS
  if not path.exists():
    return shape
  with _opened(path) as file:
    told = json.loads(file.metadata()["heads"])
  return dataclasses.replace(shape, **told)


def local(folder: Folder) -> pathlib.Path:
  """The path of a model's folder, whose files are mapped into memory.

  Raises:
    ValueError: it lies in a bucket.
  """
  return buckets.local(folder, "model folder")


def check(folder: Folder) -> None:
  """Refuses a folder that `load` would refuse; reads headers, no weights.

  Raises:
    ValueError: as of `load`, but that tied tables may differ.
  """
  shape = config(folder)
  found = _open(folder)
  names = _names(shape, found, folder)
  _check_tensors(shape, tensors.table(shape), names, found, folder)


def check_tokenizer(config: ModelConfig, length: int, folder: Folder) -> None:
  """Refuses a tokenizer with ids that the embedding has no row for.

  Args:
    config: the decoder's shape.
    length: of the tokenizer, `models.tokenizer.size`.
    folder: it came from, for the message.

  Raises:
    ValueError: the tokenizer is larger than the embedding.
  """
  if length > config.vocab_size:
    raise ValueError(
      f"the tokenizer of {folder} has {length} tokens, but the embedding has "
      f"{config.vocab_size} rows; use a tokenizer of at most as many"
    )


def read_json(folder: Folder, name: str) -> dict[str, Any]:
  """A JSON file of a folder.

  Raises:
    ValueError: there is no such folder or file, or it is not a JSON object.
  """
  folder = local(folder)
  if not folder.is_dir():
    raise ValueError(f"{str(folder)!r} is not a folder")
  if not (folder / name).exists():
    raise ValueError(f"{folder} has no {name}; is it a Hugging Face folder?")
  try:
    told = json.loads((folder / name).read_text(encoding="utf-8"))
  except ValueError as error:
    raise ValueError(f"{folder / name} is not JSON: {error}") from None
  if not isinstance(told, dict):
    raise ValueError(f"{folder / name} is not a JSON object")
  return told


class _Tensor(NamedTuple):
  """One tensor of an open file."""

  file: Any
  name: str
  shape: tuple[int, ...]
  dtype: str

  def open(self) -> tensors.Stored:
    """What reads a part of it when it is indexed."""
    return self.file.get_slice(self.name)


def _open(folder: Folder) -> dict[str, _Tensor]:
  """The tensors of a folder by the names in its files; reads headers only."""
  folder = local(folder)
  if (folder / WEIGHTS).exists():
    shards = [WEIGHTS]
  elif (folder / INDEX).exists():
    where = read_json(folder, INDEX).get("weight_map", {})
    shards = sorted(set(where.values()))
    for shard in shards:
      if not (folder / shard).exists():
        raise ValueError(f"shard {shard}, which {INDEX} names, is missing")
  elif pickles := sorted(folder.glob("*.bin")):
    raise ValueError(
      f"{folder} has pickles ({pickles[0].name}) and no {WEIGHTS}; convert "
      "them with save_pretrained of transformers"
    )
  else:
    raise ValueError(f"{folder} has neither {WEIGHTS} nor {INDEX}")
  found = {}
  for shard in shards:
    file = _opened(folder / shard)
    for name in file.keys():  # noqa: SIM118
      part = file.get_slice(name)
      shape = tuple(part.get_shape())
      found[name] = _Tensor(file, name, shape, part.get_dtype())
  return found


def _opened(path: pathlib.Path) -> Any:
  try:
    return safetensors.safe_open(path, framework="numpy")
  except safetensors.SafetensorError as error:
    raise ValueError(f"corrupt shard {path}: {error}") from None


def _names(
  shape: ModelConfig, found: Iterable[str], folder: Folder
) -> dict[str, str]:
  """From the names of the table to those in the files.

  They differ in what they begin with, as it was the base model that was saved,
  or a text decoder within a larger one.
  """
  ours, *others = tensors.prefixes(shape)
  found = set(found)
  first = tensors.embedding(shape)
  heads = {name: name.rpartition("lm_head.")[2] for name in found}
  for prefix in (ours, *others):
    if first.replace(ours, prefix, 1) in found:
      break
  else:
    raise ValueError(f"{folder} has no tensor {first}")
  names = {}
  for name in found:
    if heads[name] != name:
      names["lm_head." + heads[name]] = name
    elif name.startswith(prefix):
      names[ours + name.removeprefix(prefix)] = name
    else:
      names[name] = name
  return names


def _check_tensors(
  shape: ModelConfig,
  table: Iterable[Entry],
  names: dict[str, str],
  found: dict[str, _Tensor],
  folder: Folder,
) -> None:
  """Refuses names, dtypes and shapes that are not the table's."""
  wanted = {name: entry for entry in table for name in entry.names()}
  missing = sorted(wanted.keys() - names.keys())
  ignored = tensors.ignored(shape)
  tied = {_UNEMBEDDING} if shape.tied_embeddings else set()
  unknown = sorted(
    names[name]
    for name in names.keys() - wanted.keys() - tied
    if not ignored.fullmatch(names[name])
  )
  if missing or unknown:
    lists = (("missing", missing), ("unknown", unknown))
    raise ValueError(
      f"{folder}: "
      + "; ".join(_listed(kind, strange) for kind, strange in lists if strange)
    )
  for name, entry in wanted.items():
    tensor = found[names[name]]
    if tensor.dtype not in _STORED:
      raise ValueError(
        f"dtype mismatch: {tensor.name} is stored as {tensor.dtype}; only "
        f"{', '.join(_STORED)} are read"
      )
    if tensor.shape != entry.stored_shape:
      raise ValueError(
        f"{tensor.name} has shape {tensor.shape}, but {CONFIG} asks for "
        f"{entry.stored_shape}"
      )


def _listed(kind: str, names: list[str]) -> str:
  shown = ", ".join(names[:4]) + (", ..." if len(names) > 4 else "")
  return f"{len(names)} {kind} tensor{'s' * (len(names) > 1)}: {shown}"


def _check_tied(embedding: _Tensor, unembedding: _Tensor) -> None:
  """Refuses an unembedding that is not the embedding."""
  same = embedding.shape == unembedding.shape
  read, other = embedding.open(), unembedding.open()
  count = embedding.shape[0]
  for start in range(0, count if same else 0, _ROWS):
    rows = slice(start, min(start + _ROWS, count))
    same = same and np.array_equal(read[rows], other[rows])
  if not same:
    raise ValueError(
      f"{unembedding.name} differs from {embedding.name}, but {CONFIG} says "
      "tie_word_embeddings = true; remove the one or set the other to false"
    )


def _places(
  shapes: dict[str, jax.ShapeDtypeStruct], mesh: Mesh | None
) -> dict[str, jax.sharding.Sharding]:
  if mesh is None:
    device = SingleDeviceSharding(jax.local_devices()[0])
    return dict.fromkeys(shapes, device)
  placed = sharding.shardings(tensors.nested(shapes), mesh)
  leaves = jax.tree_util.tree_leaves_with_path(placed)
  return {sharding.dotted(path): place for path, place in leaves}


def _array(
  entry: Entry,
  leaf: jax.ShapeDtypeStruct,
  place: jax.sharding.Sharding,
  stored: Callable[[str], tensors.Stored],
) -> jax.Array:
  """One leaf, of whose tensors each shard reads what it needs, once."""
  made: dict[tuple[tuple[int, int], ...], np.ndarray] = {}

  def part(index: tuple[slice, ...]) -> np.ndarray:
    bounds = tuple(
      cut.indices(size)[:2] for cut, size in zip(index, leaf.shape, strict=True)
    )
    if bounds not in made:  # another device holds a copy
      made[bounds] = read(bounds)
    return made[bounds]

  def read(bounds: tuple[tuple[int, int], ...]) -> np.ndarray:
    sizes = [stop - start for start, stop in bounds]
    buffer = _empty(sizes, jnp.dtype(leaf.dtype))
    stack = len(entry.counts)
    inner = tuple(slice(*bound) for bound in bounds[stack:])
    for number in itertools.product(*(range(*b) for b in bounds[:stack])):
      tensor = stored(entry.filled(number))
      at = tuple(
        n - start for n, (start, _) in zip(number, bounds, strict=False)
      )
      entry.take(tensor, inner, buffer[at])
    return buffer

  array = jax.make_array_from_callback(leaf.shape, place, part)
  return jax.block_until_ready(array)


def _empty(shape: list[int], dtype: np.dtype) -> np.ndarray:
  """Host memory so aligned that on CPU it becomes the array without a copy."""
  size = math.prod(shape) * dtype.itemsize
  memory = np.empty(size + _ALIGNMENT, np.uint8)
  start = -memory.ctypes.data % _ALIGNMENT
  return memory[start : start + size].view(dtype).reshape(shape)


def _heads(folder: Folder, mesh: Mesh | None) -> Params:
  """The heads that `save` wrote beside the decoder; none is no file."""
  path = local(folder) / HEADS
  if not path.exists():
    return {}
  with _opened(path) as file:
    leaves = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
  places = _places(leaves, mesh)
  return tensors.nested(
    {name: jax.device_put(leaf, places[name]) for name, leaf in leaves.items()}
  )
