"""Files are replaced atomically, and nothing else is replaced."""

import os
import threading

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
