"""Two runs never train in one workdir; a dead run's lock is taken over."""

import errno
import json
import os
import pathlib
import subprocess
import sys
import threading

import fake_bucket
import jax
import pytest
from etils.epath import backend

from experiments import hosts, lock, mistakes, run
from experiments.configs import smoke

SMOKE = f"--config={smoke.__file__}"


def make(workdir, watch=0.3):
  """Returns a lock that beats and watches fast enough for a test."""
  return lock.Lock(workdir, beat_seconds=0.02, watch_seconds=watch)


def leave(workdir, **changes):
  """Writes the lock file of this process, with other values for some keys."""
  record = {**lock._this_process(), "since": "noon", "token": "t", "beat": 3}
  path = pathlib.Path(workdir) / lock.LOCK_FILE
  path.write_text(json.dumps({**record, **changes}))
  return path


@pytest.fixture
def other():
  """The id of another live process."""
  words = [sys.executable, "-c", "input()"]
  with subprocess.Popen(words, stdin=subprocess.PIPE) as process:
    yield process.pid
    process.communicate(b"\n")


@pytest.fixture
def ended():
  """The id of a process that ended and was not waited for: a zombie."""
  process = subprocess.Popen([sys.executable, "-c", ""])
  os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
  yield process.pid
  process.wait()


def test_a_second_run_is_refused_in_one_line(tmp_path, other, capsys):
  """The command starts nothing, and the line names the first run."""
  path = leave(tmp_path, pid=other, started=lock._start_time(other))
  before = path.read_text()
  words = ["run", SMOKE, f"--workdir={tmp_path}"]
  assert run.main(words) == mistakes.USAGE
  out, error = capsys.readouterr()
  assert not out
  assert error.count("\n") == 1
  host = lock._this_process()["host"]
  assert f"{tmp_path} is in use by process {other} on {host}" in error
  assert "since noon" in error
  assert str(path) in error  # the file to delete if the message is wrong
  assert [file.name for file in tmp_path.iterdir()] == [lock.LOCK_FILE]
  assert path.read_text() == before


def test_a_held_lock_is_refused_and_a_released_one_is_free(tmp_path):
  first = make(tmp_path)
  first.take()
  with pytest.raises(mistakes.Mistake, match=f"process {os.getpid()} on "):
    make(tmp_path).take()
  first.release()
  assert not list(tmp_path.iterdir())
  second = make(tmp_path)
  second.take()
  second.release()


@pytest.mark.parametrize(
  "changes",
  [
    {"started": 1},  # the process id was given to another process since
    {"pid": 2**22 + 7},  # larger than any process id
    {"boot": "another"},  # the machine was started anew since
  ],
)
def test_the_lock_of_a_dead_run_is_taken_over(tmp_path, changes, capsys):
  leave(tmp_path, **changes)
  taken = make(tmp_path)
  taken.take()
  assert "takes over from process" in capsys.readouterr().out
  taken.release()
  assert not list(tmp_path.iterdir())


def test_a_zombie_is_dead(tmp_path, ended, capsys):
  leave(tmp_path, pid=ended)
  taken = make(tmp_path)
  taken.take()
  assert "takes over" in capsys.readouterr().out
  taken.release()


@pytest.mark.parametrize("key", ["host", "namespace"])
def test_a_machine_that_cannot_be_seen_is_watched(tmp_path, key, capsys):
  leave(tmp_path, **{key: "elsewhere"})
  taken = make(tmp_path)
  taken.take()
  said = capsys.readouterr().out
  assert "watching for 0 s whether that run goes on" in said
  assert "takes over" in said
  taken.release()


@pytest.mark.parametrize("host", ["elsewhere", None])
def test_a_live_run_on_another_machine_is_refused(tmp_path, host, monkeypatch):
  first = make(tmp_path)
  monkeypatch.setattr(
    lock, "_this_process", lambda: {"host": host or "a", "pid": 5}
  )
  first.take()
  monkeypatch.undo()
  with pytest.raises(mistakes.Mistake, match="is in use by process 5 on "):
    make(tmp_path, watch=20).take()
  first.release()


@pytest.mark.parametrize("text", ["", "[]", '{"host": "a'])
def test_a_damaged_lock_is_taken_over(tmp_path, text):
  (tmp_path / lock.LOCK_FILE).write_text(text)
  taken = make(tmp_path)
  taken.take()
  assert taken._is_own(taken._read())
  taken.release()
  assert not list(tmp_path.iterdir())


def test_of_two_that_take_over_at_once_one_is_refused(tmp_path):
  leave(tmp_path, started=1)
  locks, refused = [make(tmp_path), make(tmp_path)], []

  def take(one):
    try:
      one.take()
    except mistakes.Mistake as error:
      refused.append(error)

  threads = [threading.Thread(target=take, args=(one,)) for one in locks]
  for thread in threads:
    thread.start()
  for thread in threads:
    thread.join()
  assert len(refused) == 1
  for one in locks:
    one.release()
  assert not list(tmp_path.iterdir())


def test_a_run_that_was_taken_over_does_not_remove_the_new_lock(tmp_path):
  first = lock.Lock(tmp_path)  # beats too seldom to write within the test
  first.take()
  path = leave(tmp_path, host="elsewhere")
  first.release()
  assert json.loads(path.read_text())["host"] == "elsewhere"


def test_an_error_releases_the_lock(tmp_path):
  def fail():
    with lock.hold(tmp_path):
      assert (tmp_path / lock.LOCK_FILE).exists()
      raise KeyError

  with pytest.raises(KeyError):
    fail()
  assert not list(tmp_path.iterdir())


def test_a_full_disk_leaves_no_lock_behind(tmp_path, monkeypatch):
  """An empty file would delay the next start, which would watch it."""

  def refuse(record):
    raise OSError(errno.ENOSPC, "No space left on device")

  monkeypatch.setattr(lock.json, "dumps", refuse)
  with pytest.raises(OSError, match="No space left"):
    make(tmp_path).take()
  assert not list(tmp_path.iterdir())


def test_a_lock_lives_in_a_bucket(monkeypatch):
  bucket = fake_bucket.Bucket()
  monkeypatch.setattr(backend.fsspec_backend, "fs", lambda path: bucket)
  first = make("gs://bucket/run")
  first.take()
  with pytest.raises(mistakes.Mistake, match="is in use by process"):
    make("gs://bucket/run").take()
  first.release()
  assert not bucket.objects


def test_other_processes_of_a_run_wait_for_process_0(tmp_path, monkeypatch):
  """Process 1 takes no lock, and is refused where process 0 was."""
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(hosts, "agreed", lambda value: 0)
  with lock.hold(tmp_path):
    assert not list(tmp_path.iterdir())
  monkeypatch.setattr(hosts, "agreed", lambda value: 1)
  with (
    pytest.raises(mistakes.Mistake, match="is in use by another run"),
    lock.hold(tmp_path),
  ):
    pass
