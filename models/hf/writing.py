"""Writing a folder that `transformers.AutoModelForCausalLM` loads."""

from __future__ import annotations

import json
import math
import os
import pathlib
import shutil
from collections.abc import Iterator, Sequence
from typing import Any

import jax
import numpy as np
import safetensors.numpy

from models import lora, sharding, transformer
from models import tokenizer as tokenizer_lib
from models.config import ModelConfig
from models.hf import reading, tensors, translate
from models.hf.tensors import Entry

Params = transformer.Params

SHARD_BYTES = 4 * 10**9
_TOKENIZER_FILES = (
  "tokenizer*",
  "vocab.*",
  "merges.txt",
  "added_tokens.json",
  "special_tokens_map.json",
  "chat_template*",
  "additional_chat_templates",
  reading.GENERATION,
)


def save(
  config: ModelConfig,
  params: Params,
  folder: reading.Folder,
  tokenizer: reading.Folder | None = None,
  shard_bytes: int = SHARD_BYTES,
  stops: Sequence[int] = (),
) -> None:
  """Writes a decoder as a Hugging Face folder, whole or not at all.

  Adapters are merged into their kernels. Heads besides the logits, for which
  Hugging Face has no place, go to `heads.safetensors`, where `load` finds them.
  Tensors have the dtype of the parameters.

  Args:
    config: the decoder's shape; `family` says whose form it takes.
    params: its parameters, all on this process's devices.
    folder: to write; it must not exist, or be empty.
    tokenizer: folder whose tokenizer and generation config are copied, and
      whose config names the special tokens.
    shard_bytes: what a file holds at most, unless one tensor is larger.
    stops: tokens that end a completion besides those of the tokenizer's folder,
      such as the end of a turn, which a base model's folder does not name.

  Raises:
    ValueError: the family cannot express the config, a parameter is missing or
      of another shape, the tokenizer is larger than the embedding, or there is
      something in the folder; in one line.
  """
  folder = reading.local(folder)
  special = _special_tokens(config, tokenizer, stops)
  told = translate.write(config, **special)
  _check_complete(config, _leaves(params))
  config, params = lora.merge(config, params)
  if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
    raise ValueError(f"{folder} is there already; give a new folder")
  folder.parent.mkdir(parents=True, exist_ok=True)
  draft = folder.with_name(f".{folder.name}.{os.getpid()}.writing")
  draft.mkdir()
  try:
    told.save_pretrained(draft)
    _write_tensors(config, params, draft, shard_bytes)
    _write_heads(config, params, draft)
    if tokenizer is not None:
      _copy_tokenizer(reading.local(tokenizer), draft)
      _write_stops(draft / reading.GENERATION, special["eos_token_id"])
    draft.rename(folder)
  finally:
    shutil.rmtree(draft, ignore_errors=True)


def has_tokenizer(folder: reading.Folder) -> bool:
  """Whether there is a tokenizer to copy."""
  return any(reading.local(folder).glob("tokenizer*"))


def _special_tokens(
  config: ModelConfig, tokenizer: reading.Folder | None, more: Sequence[int]
) -> dict[str, Any]:
  """The ids of a tokenizer's special tokens, once it was found to fit."""
  if tokenizer is None:
    return {}
  loaded = tokenizer_lib.load(tokenizer)
  reading.check_tokenizer(config, tokenizer_lib.size(loaded), tokenizer)
  stops = dict.fromkeys((*tokenizer_lib.stop_ids(loaded, tokenizer), *more))
  stops = list(stops)
  return {
    "bos_token_id": loaded.bos_token_id,
    "eos_token_id": stops if len(stops) > 1 else stops[0],
    "pad_token_id": loaded.pad_token_id,
  }


def _write_tensors(
  config: ModelConfig, params: Params, folder: pathlib.Path, most: int
) -> None:
  """Safetensors files of at most so many bytes, and their index."""
  leaves = _leaves(params)
  table = tensors.table(config)
  shards = _planned(table, leaves, most)
  name = "model-{:05}-of-{:05}.safetensors"
  made = _tensors(table, leaves)
  where = {}
  for number, names in enumerate(shards, 1):
    file = reading.WEIGHTS
    if len(shards) > 1:
      file = name.format(number, len(shards))
    shard = {wanted: next(made)[1] for wanted in names}
    _save_file(shard, folder / file, {"format": "pt"})
    where |= dict.fromkeys(names, file)
  if len(shards) > 1:
    total = sum(math.prod(e.counts) * _bytes(e, leaves) for e in _each(table))
    index = {"metadata": {"total_size": total}, "weight_map": where}
    (folder / reading.INDEX).write_text(json.dumps(index, indent=2) + "\n")


def _leaves(params: Params) -> dict[str, jax.Array]:
  """The parameters by dotted path."""
  return {
    sharding.dotted(path): leaf
    for path, leaf in jax.tree_util.tree_leaves_with_path(params)
  }


def _check_complete(config: ModelConfig, leaves: dict[str, jax.Array]) -> None:
  """Refuses parameters that are not the config's: adapters without a base."""
  for name, wanted in tensors.shapes(config).items():
    found = leaves[name].shape if name in leaves else "absent"
    if found != wanted.shape:
      raise ValueError(
        f"parameter {name} is {found}, but the config asks for {wanted.shape}"
      )


def _each(table: list[Entry]) -> list[Entry]:
  """One entry for each name."""
  return list({entry.name: entry for entry in table}.values())


def _bytes(entry: Entry, leaves: dict[str, jax.Array]) -> int:
  size = leaves[entry.leaf].dtype.itemsize
  return math.prod(entry.stored_shape) * size


def _planned(
  table: list[Entry], leaves: dict[str, jax.Array], most: int
) -> list[list[str]]:
  """The names that each file holds."""
  shards: list[list[str]] = [[]]
  filled = 0
  for entry in _each(table):
    size = _bytes(entry, leaves)
    for name in entry.names():
      if shards[-1] and filled + size > most:
        shards.append([])
        filled = 0
      shards[-1].append(name)
      filled += size
  return shards


def _tensors(
  table: list[Entry], leaves: dict[str, jax.Array]
) -> Iterator[tuple[str, np.ndarray]]:
  """Every tensor in the order of the plan, leaf by leaf from the devices."""
  for entry in _each(table):
    sharing = [other for other in table if other.name == entry.name]
    parts = [jax.device_get(leaves[other.leaf]) for other in sharing]
    for number in entry.numbers():
      tensor = np.empty(entry.stored_shape, parts[0].dtype)
      for other, part in zip(sharing, parts, strict=True):
        other.put(part[number], tensor)
      yield entry.filled(number), tensor


def _write_heads(
  config: ModelConfig, params: Params, folder: pathlib.Path
) -> None:
  heads = {"value": params["value"]} if config.value_head else {}
  if config.extra_heads:
    named = {name: params["heads"][name] for name, _ in config.extra_heads}
    heads["heads"] = named
  leaves = {name: np.asarray(leaf) for name, leaf in _leaves(heads).items()}
  if not leaves:
    return
  told = {"value_head": config.value_head, "extra_heads": config.extra_heads}
  metadata = {"heads": json.dumps(told)}
  _save_file(leaves, folder / reading.HEADS, metadata)


def _save_file(
  leaves: dict[str, np.ndarray], path: pathlib.Path, metadata: dict[str, str]
) -> None:
  leaves = {name: np.asarray(leaf, order="C") for name, leaf in leaves.items()}
  safetensors.numpy.save_file(leaves, path, metadata=metadata)
  shutil.copymode(path.parent / reading.CONFIG, path)  # the umask's, not 0600


def _copy_tokenizer(source: pathlib.Path, folder: pathlib.Path) -> None:
  for pattern in _TOKENIZER_FILES:
    for path in sorted(source.glob(pattern)):
      if path.is_dir():
        shutil.copytree(path, folder / path.name)
      else:
        shutil.copy(path, folder / path.name)


def _write_stops(path: pathlib.Path, stops: int | list[int]) -> None:
  """What ends a completion, where the folder has a generation config."""
  if not path.exists():
    return
  told = json.loads(path.read_text(encoding="utf-8"))
  path.write_text(json.dumps({**told, "eos_token_id": stops}, indent=2) + "\n")
