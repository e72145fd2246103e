"""Which files a folder gets, and where they come from."""

import json
import stat

import numpy as np
import pytest
import safetensors.numpy

from models.hf import save_folder

GB = 10**9


def write(folder, sizes) -> None:
  """Writes tensors of one number, which count as many bytes as `sizes` says."""
  (folder / "config.json").write_text("{}")
  tensors = ((name, np.full(1, i)) for i, name in enumerate(sizes))
  save_folder.write_tensors(folder, tensors, sizes)


def test_a_file_has_at_most_4_gigabytes(tmp_path):
  """Two halves fill a file, and another byte starts the next one."""
  write(tmp_path, {"a": 2 * GB, "b": 2 * GB, "c": 1, "d": 1})
  files = sorted(path.name for path in tmp_path.glob("*.safetensors"))
  assert files == [
    "model-00001-of-00002.safetensors",
    "model-00002-of-00002.safetensors",
  ]
  first, second = (safetensors.numpy.load_file(tmp_path / x) for x in files)
  assert {name: int(x[0]) for name, x in first.items()} == {"a": 0, "b": 1}
  assert {name: int(x[0]) for name, x in second.items()} == {"c": 2, "d": 3}
  text = (tmp_path / "model.safetensors.index.json").read_text()
  index = json.loads(text)
  assert index["metadata"] == {"total_size": 4 * GB + 2}
  assert index["weight_map"] == {
    **dict.fromkeys("ab", files[0]),
    **dict.fromkeys("cd", files[1]),
  }
  assert text.startswith('{\n  "metadata": {\n    "total_size"')


def test_a_tensor_larger_than_a_file_has_a_file_of_its_own(tmp_path):
  write(tmp_path, {"a": 9 * GB, "b": 1, "c": 9 * GB})
  files = sorted(tmp_path.glob("*.safetensors"))
  contents = [sorted(safetensors.numpy.load_file(path)) for path in files]
  assert contents == [["a"], ["b"], ["c"]]


def test_one_file_has_no_index_and_the_mode_of_the_config(tmp_path):
  (tmp_path / "config.json").write_text("{}")
  (tmp_path / "config.json").chmod(0o640)
  tensors = iter([("a", np.ones(2)), ("b", np.ones(3))])
  save_folder.write_tensors(tmp_path, tensors, {"a": 8, "b": 12})
  names = sorted(path.name for path in tmp_path.iterdir())
  assert names == ["config.json", "model.safetensors"]
  for path in tmp_path.iterdir():
    assert stat.S_IMODE(path.stat().st_mode) == 0o640


def test_a_new_folder_may_be_empty_and_its_parents_absent(tmp_path):
  for folder in (tmp_path / "a" / "b" / "c", tmp_path / "empty"):
    if folder.name == "empty":
      folder.mkdir()
    with save_folder.new_folder(folder) as draft:
      (draft / "file").touch()
      assert draft.parent == folder.parent
    assert [path.name for path in folder.iterdir()] == ["file"]
    assert [path.name for path in folder.parent.glob(".*")] == []
  with (
    pytest.raises(ValueError, match="empty exists already"),
    save_folder.new_folder(tmp_path / "empty"),
  ):
    pass


def test_files_and_folders_of_a_tokenizer_are_copied(tmp_path):
  source, folder = tmp_path / "source", tmp_path / "out"
  templates = source / "additional_chat_templates"
  templates.mkdir(parents=True)
  folder.mkdir()
  (templates / "tools.jinja").write_text("template")
  for name in ("tokenizer.json", "merges.txt", "model.safetensors"):
    (source / name).write_text(name)
  assert save_folder.has_tokenizer(source)
  assert not save_folder.has_tokenizer(folder)
  save_folder._copy_tokenizer(source, folder)
  copied = {
    str(path.relative_to(folder)): path.read_text()
    for path in folder.rglob("*")
    if path.is_file()
  }
  assert copied == {
    "tokenizer.json": "tokenizer.json",
    "merges.txt": "merges.txt",
    "additional_chat_templates/tools.jinja": "template",
  }


def test_stops_are_written_into_a_generation_config(tmp_path):
  path = tmp_path / "generation_config.json"
  save_folder._write_stops(path, 3)
  assert not path.exists()
  path.write_text('{"eos_token_id": 1, "top_k": 5}')
  save_folder._write_stops(path, 3)
  assert path.read_text() == '{\n  "eos_token_id": 3,\n  "top_k": 5\n}\n'
