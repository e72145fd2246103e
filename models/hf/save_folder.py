"""Writes a folder that `transformers.AutoModelForCausalLM` can load."""

from __future__ import annotations

import contextlib
import itertools
import json
import math
import os
import pathlib
import shutil
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from models import lora, sharding, transformer
from models import tokenizer as tokenizer_lib
from models.config import ModelConfig
from models.hf import config_conversion, load_folder, tensor_layout
from models.hf.tensor_layout import LeafLayout
from rl import UsageError

Params = transformer.Params

SHARD_BYTES = 4 * 10**9  # largest size of a safetensors file
# Patterns of the files that are copied from the folder of a tokenizer.
_TOKENIZER_FILES = (
  "tokenizer*",
  "vocab.*",
  "merges.txt",
  "added_tokens.json",
  "special_tokens_map.json",
  "chat_template*",
  "additional_chat_templates",
  load_folder.GENERATION,
)


def save(
  config: ModelConfig,
  params: Params,
  folder: load_folder.Folder,
  tokenizer: load_folder.Folder | None = None,
  shard_bytes: int = SHARD_BYTES,
  stops: Sequence[int] = (),
) -> None:
  """Writes a decoder as a Hugging Face folder.

  Adapters are merged into their kernels. Heads besides the logits, which
  Hugging Face does not support, are written to `heads.safetensors`, where
  `load` reads them. Tensors have the dtype of the parameters. The folder
  appears only when it is complete.

  Args:
    config: the decoder's config; its `family` is the architecture written.
    params: the decoder's parameters, all on devices of this process.
    folder: folder to write; it must be empty or not exist.
    tokenizer: folder from which the tokenizer and the generation config are
      copied and the ids of special tokens are read; None means none.
    shard_bytes: largest number of bytes of tensors in a file, unless a single
      tensor is larger.
    stops: ids of further tokens that end a completion, such as the end of a
      turn, which the tokenizer folder of a base model may not list.

  Raises:
    UsageError: the family cannot express the config, a parameter is missing or
      has another shape, the tokenizer has more ids than the embedding has rows,
      or the folder is not empty. The message is one line.
  """
  special = _special_tokens(config, tokenizer, stops)
  hf_config = config_conversion.to_hf(config, **special)
  _check_complete(config, sharding.leaves_by_path(params))
  config, params = lora.merge(config, params)
  leaves = sharding.leaves_by_path(params)
  layouts = tensor_layout.layout(config)
  sizes = {
    name: _tensor_bytes(layout, leaves)
    for layout in _unique_by_name(layouts)
    for name in layout.tensor_names()
  }
  with new_folder(folder) as draft:
    hf_config.save_pretrained(draft)
    write_tensors(draft, _tensors(layouts, leaves), sizes, shard_bytes)
    _write_heads(config, params, draft)
    if tokenizer is not None:
      _copy_tokenizer(load_folder.require_local(tokenizer), draft)
      _write_stops(draft / load_folder.GENERATION, special["eos_token_id"])


@contextlib.contextmanager
def new_folder(folder: load_folder.Folder) -> Iterator[pathlib.Path]:
  """Gives a folder to write to, which is renamed to `folder` at the end.

  After an error nothing is left.

  Args:
    folder: the folder; it must be empty or not exist.

  Raises:
    UsageError: the folder is not empty, or in a bucket.
  """
  folder = load_folder.require_local(folder)
  if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
    raise UsageError(f"{folder} exists already; choose a new folder")
  folder.parent.mkdir(parents=True, exist_ok=True)
  draft = folder.with_name(f".{folder.name}.{os.getpid()}.writing")
  draft.mkdir()
  try:
    yield draft
    draft.rename(folder)
  finally:
    shutil.rmtree(draft, ignore_errors=True)


def has_tokenizer(folder: load_folder.Folder) -> bool:
  """Returns whether a folder has files of a tokenizer."""
  return any(load_folder.require_local(folder).glob("tokenizer*"))


def _special_tokens(
  config: ModelConfig,
  tokenizer: load_folder.Folder | None,
  more_stops: Sequence[int],  # ids of further tokens that end a completion
) -> dict[str, Any]:
  """Returns the ids of special tokens for `config.json`."""
  if tokenizer is None:
    return {}
  loaded = tokenizer_lib.load(tokenizer)
  # The embedding must have a row for each id of the tokenizer.
  load_folder.check_tokenizer(
    config, tokenizer_lib.required_vocab_size(loaded), tokenizer
  )
  stops = (*tokenizer_lib.stop_ids(loaded, tokenizer), *more_stops)
  stops = list(dict.fromkeys(stops))  # without duplicates
  return {
    "bos_token_id": loaded.bos_token_id,
    "eos_token_id": stops if len(stops) > 1 else stops[0],
    "pad_token_id": loaded.pad_token_id,
  }


def write_tensors(
  folder: pathlib.Path,
  tensors: Iterator[tuple[str, np.ndarray]],
  sizes: Mapping[str, int],
  shard_bytes: int = SHARD_BYTES,
) -> None:
  """Writes safetensors files, and their index if there are several.

  Args:
    folder: an existing folder with a `config.json`.
    tensors: yields (name, tensor), in the order of `sizes`.
    sizes: the bytes of each tensor.
    shard_bytes: largest number of bytes of tensors in a file, unless a single
      tensor is larger. Files are filled one after the other.
  """
  shards: list[list[str]] = [[]]
  for name, size in sizes.items():
    if shards[-1] and sum(map(sizes.get, shards[-1])) + size > shard_bytes:
      shards.append([])
    shards[-1].append(name)
  file_by_tensor = {}
  for number, names in enumerate(shards, 1):
    file = load_folder.WEIGHTS
    if len(shards) > 1:
      file = f"model-{number:05}-of-{len(shards):05}.safetensors"
    shard = dict(itertools.islice(tensors, len(names)))
    _save_file(shard, folder / file, {"format": "pt"})
    file_by_tensor |= dict.fromkeys(names, file)
  if len(shards) > 1:
    metadata = {"total_size": sum(sizes.values())}
    index = {"metadata": metadata, "weight_map": file_by_tensor}
    (folder / load_folder.INDEX).write_text(json.dumps(index, indent=2) + "\n")


def _check_complete(config: ModelConfig, leaves: dict[str, jax.Array]) -> None:
  """Checks that all parameters exist, and not only adapters, for example."""
  for name, expected in tensor_layout.leaf_shapes(config).items():
    shape = leaves[name].shape if name in leaves else "absent"
    if shape != expected.shape:
      raise UsageError(
        f"parameter {name} is {shape}, but the config needs {expected.shape}"
      )


def _unique_by_name(layouts: list[LeafLayout]) -> list[LeafLayout]:
  """Returns one layout for each tensor name; fused leaves share a name."""
  return list({layout.name: layout for layout in layouts}.values())


def _tensor_bytes(layout: LeafLayout, leaves: dict[str, jax.Array]) -> int:
  """Returns the bytes of one tensor, including other leaves that share it."""
  itemsize = leaves[layout.leaf].dtype.itemsize
  return math.prod(layout.stored_shape) * itemsize


def _tensors(
  layouts: list[LeafLayout], leaves: dict[str, jax.Array]
) -> Iterator[tuple[str, np.ndarray]]:
  """Yields (name, tensor) of all tensors."""
  for unique in _unique_by_name(layouts):
    fused = [layout for layout in layouts if layout.name == unique.name]
    # Only the leaves of one tensor name are on the host at a time.
    arrays = [jax.device_get(leaves[layout.leaf]) for layout in fused]
    for index in unique.indices():
      tensor = np.empty(unique.stored_shape, arrays[0].dtype)
      for layout, array in zip(fused, arrays, strict=True):
        layout.write(array[index], tensor)
      yield unique.tensor_name(index), tensor


def _write_heads(
  config: ModelConfig, params: Params, folder: pathlib.Path
) -> None:
  """Writes the heads besides the logits, if any exist, with their config."""
  heads = {"value": params["value"]} if config.value_head else {}
  if config.extra_heads:
    extra = {name: params["heads"][name] for name, _ in config.extra_heads}
    heads["heads"] = extra
  leaves = jax.tree.map(np.asarray, sharding.leaves_by_path(heads))
  if not leaves:
    return
  fields = {"value_head": config.value_head, "extra_heads": config.extra_heads}
  metadata = {"heads": json.dumps(fields)}
  _save_file(leaves, folder / load_folder.HEADS, metadata)


def _save_file(
  tensors: dict[str, np.ndarray], path: pathlib.Path, metadata: dict[str, str]
) -> None:
  """Writes one safetensors file."""
  # safetensors writes the memory of an array, so it must be in C order.
  tensors = {name: np.asarray(x, order="C") for name, x in tensors.items()}
  safetensors.numpy.save_file(tensors, path, metadata=metadata)
  # safetensors creates files with mode 0600; use the mode of config.json.
  shutil.copymode(path.parent / load_folder.CONFIG, path)


def _copy_tokenizer(source: pathlib.Path, folder: pathlib.Path) -> None:
  """Copies the files of a tokenizer, and the generation config."""
  for pattern in _TOKENIZER_FILES:
    for path in sorted(source.glob(pattern)):
      if path.is_dir():
        shutil.copytree(path, folder / path.name)
      else:
        shutil.copy(path, folder / path.name)


def _write_stops(path: pathlib.Path, stops: int | list[int]) -> None:
  """Sets `eos_token_id` in the generation config, if the folder has one."""
  if not path.exists():
    return
  data = json.loads(path.read_text(encoding="utf-8"))
  path.write_text(json.dumps({**data, "eos_token_id": stops}, indent=2) + "\n")
