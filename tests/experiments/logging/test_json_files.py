"""Files are replaced atomically, and nothing else is replaced."""

import json
import os
import threading
from types import SimpleNamespace

import numpy as np
import pytest

from experiments.logging import json_files


def test_a_link_stays_and_its_file_is_replaced(tmp_path):
  (tmp_path / "there").mkdir()
  target, link = tmp_path / "there" / "a.json", tmp_path / "link.json"
  target.write_text("old")
  link.symlink_to(target)
  json_files.replace(link, "new")
  assert link.is_symlink()
  assert target.read_text() == "new"
  # A link to a file that does not exist yet creates it.
  (tmp_path / "empty").symlink_to(tmp_path / "there" / "b.json")
  json_files.replace(tmp_path / "empty", b"first")
  assert (tmp_path / "there" / "b.json").read_text() == "first"
  assert (tmp_path / "empty").is_symlink()
  assert not list(tmp_path.rglob("*.partial"))


def test_a_pipe_is_written_to(tmp_path):
  pipe = tmp_path / "pipe"
  os.mkfifo(pipe)
  texts = []
  reader = threading.Thread(target=lambda: texts.append(pipe.read_text()))
  reader.start()
  json_files.replace(pipe, "a line\n")
  reader.join(10)
  assert texts == ["a line\n"]
  assert pipe.is_fifo()


def test_a_device_stays_a_device():
  json_files.replace("/dev/null", "nothing")
  assert not os.path.isfile("/dev/null")
  assert os.path.exists("/dev/null")


def test_a_folder_is_refused_and_leaves_nothing(tmp_path):
  folder = tmp_path / "folder"
  folder.mkdir()
  with pytest.raises(OSError, match="folder"):
    json_files.replace(folder, "text")
  assert folder.is_dir()
  assert [path.name for path in tmp_path.iterdir()] == ["folder"]


def test_two_writers_of_a_file_have_a_file_each(tmp_path):
  """Whoever ends last wins, and no reader sees a mixture."""
  path = tmp_path / "a.json"
  texts = [letter * 200_000 for letter in "abcd"]
  json_files.replace(path, texts[0])

  def write(text):
    for _ in range(20):
      json_files.replace(path, text)

  writers = [threading.Thread(target=write, args=(text,)) for text in texts]
  for writer in writers:
    writer.start()
  while any(writer.is_alive() for writer in writers):
    assert path.read_text() in texts
  for writer in writers:
    writer.join()
  assert [file.name for file in tmp_path.iterdir()] == ["a.json"]


def test_permissions_are_those_of_any_new_file(tmp_path):
  json_files.replace(tmp_path / "a", "x")
  (tmp_path / "b").write_text("x")
  modes = {(tmp_path / name).stat().st_mode for name in "ab"}
  assert len(modes) == 1


def test_what_json_cannot_represent_becomes_lists_and_words():
  record = {
    "array": np.array([[1.5, np.nan], [np.inf, -np.inf]]),
    "tuple": (np.float32(0.5), -1.0, 0.0),
    "nested": {"count": np.int32(3)},
  }
  converted = {
    "array": [[1.5, "NaN"], ["Infinity", "-Infinity"]],
    "tuple": [0.5, -1.0, 0.0],
    "nested": {"count": 3},
  }
  assert json_files.to_strict_json(record) == converted
  assert json.loads(json_files.dump(record)) == converted


def test_folders_are_created_and_incomplete_lines_are_skipped(tmp_path):
  path = tmp_path / "new" / "folder" / "a.jsonl"
  assert json_files.read(path) == []
  json_files.write(path, [{"a": 1}, {"a": 2}])
  with path.open("a") as file:
    file.write('{"a": ')
  assert json_files.read(path) == [{"a": 1}, {"a": 2}]


def test_a_file_in_a_bucket_is_uploaded_every_30_seconds(tmp_path, monkeypatch):
  """A flush uploads it earlier if it has a new line."""
  clock = SimpleNamespace(now=100.0)
  clock.monotonic = lambda: clock.now
  monkeypatch.setattr(json_files, "time", clock)
  uploads, replace = [], json_files.replace

  def upload(path, content):
    uploads.append(clock.now)
    replace(path, content)

  monkeypatch.setattr(json_files, "replace", upload)
  path = tmp_path / "a.jsonl"
  file = json_files.BucketFile(path, [{"a": 0}])
  for clock.now in (129.75, 130.0, 159.75):
    file.add({"a": clock.now})
  assert uploads == [100, 130]
  assert [x["a"] for x in json_files.read(path)] == [0, 129.75, 130]
  file.flush()
  file.flush()
  file.close()
  assert uploads == [100, 130, 159.75]
  assert len(json_files.read(path)) == 4
