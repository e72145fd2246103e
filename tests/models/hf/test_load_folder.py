"""Parts of reading a folder, on arrays in place of files."""

import types

import jax
import numpy as np
import pytest

from models.config import ModelConfig
from models.hf import load_folder

CONFIG = ModelConfig(
  vocab_size=40,
  width=8,
  layers=2,
  heads=2,
  kv_heads=2,
  head_dim=4,
  mlp_width=12,
)


def stored(name: str, array: np.ndarray) -> load_folder._StoredTensor:
  """A tensor whose file is an array; rows beyond its end are an error."""

  class Slices:
    def __getitem__(self, rows):
      assert 0 <= rows.start < rows.stop <= len(array)
      return array[rows]

  file = types.SimpleNamespace(get_slice=lambda _: Slices())
  return load_folder._StoredTensor(file, name, array.shape, "F32")


@pytest.mark.parametrize("row", [0, 1, 4095, 4096, 4999, None])
def test_every_row_of_a_tied_unembedding_is_compared(row):
  table = np.zeros((5000, 2))
  other = table.copy()
  if row is None:
    load_folder._check_tied(stored("embed", table), stored("head", other))
    return
  other[row, 1] = 1
  with pytest.raises(ValueError, match="head differs from embed, but"):
    load_folder._check_tied(stored("embed", table), stored("head", other))


def test_a_tied_unembedding_has_the_same_shape():
  table = np.zeros((3, 2))
  with pytest.raises(ValueError, match="head differs from embed"):
    load_folder._check_tied(
      stored("embed", table), stored("head", np.zeros((3, 1)))
    )


def test_at_most_four_names_are_listed():
  names = ["a", "b", "c", "d"]
  assert load_folder._format_names("missing", names) == (
    "4 missing tensors: a, b, c, d"
  )
  assert load_folder._format_names("unknown", [*names, "e"]) == (
    "5 unknown tensors: a, b, c, d, ..."
  )
  assert load_folder._format_names("unknown", ["a"]) == "1 unknown tensor: a"


def test_buffers_are_aligned_to_64_bytes():
  for size in (1, 3, 16, 100, 1000, 10_000):
    buffer = load_folder._empty_aligned([size, 2], np.dtype(np.float16))
    assert buffer.shape == (size, 2)
    assert buffer.dtype == np.float16
    assert buffer.ctypes.data % 64 == 0


def test_a_tokenizer_may_have_as_many_ids_as_rows():
  load_folder.check_tokenizer(CONFIG, 40, "folder")
  with pytest.raises(ValueError, match=r"folder has 41 tokens, .* 40 rows"):
    load_folder.check_tokenizer(CONFIG, 41, "folder")


def test_arrays_go_to_the_first_device_without_a_mesh():
  shardings = load_folder._leaf_shardings({"a": None, "b": None}, None)
  assert set(shardings) == {"a", "b"}
  for sharding in shardings.values():
    assert sharding.device_set == {jax.local_devices()[0]}


def test_the_largest_parameters_are_loaded_first(monkeypatch):
  """While one is loaded, its buffer is in memory beside the others."""
  sizes = []

  def record(layout, leaf, sharding, open_tensor):
    sizes.append(leaf.size)
    return np.zeros(())

  replaced = {
    "load_config": CONFIG,
    "_open_tensors": {},
    "_match_names": {},
    "_check_tensors": None,
    "_load_heads": {},
  }
  for name, result in replaced.items():
    monkeypatch.setattr(load_folder, name, lambda *_, result=result: result)
  monkeypatch.setattr(load_folder, "_load_leaf", record)
  load_folder.load("folder")
  assert sizes == sorted(sizes, reverse=True)
  assert sizes[0] == 40 * 8
