"""Two runs never train in one workdir; a dead run leaves no lock behind."""

import errno
import os
import pathlib
import signal
import subprocess
import sys

import jax
import pytest

from experiments import run
from experiments.cli import errors
from experiments.configs import smoke
from experiments.training import multihost, workdir_lock

SMOKE = f"--config={smoke.__file__}"
HOLD = (
  "import sys; from experiments.training import workdir_lock\n"
  "with workdir_lock.lock_workdir(sys.argv[1]):"
  " print('held', flush=True); input()"
)


@pytest.fixture
def holder(tmp_path):
  """Another process, which holds `tmp_path`."""
  words = [sys.executable, "-c", HOLD, str(tmp_path)]
  pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
  root = pathlib.Path(workdir_lock.__file__).parents[2]
  with subprocess.Popen(words, cwd=root, text=True, **pipes) as process:
    assert process.stdout.readline() == "held\n"
    yield process
    process.kill()


def test_a_second_run_is_refused_in_one_line(tmp_path, holder, capsys):
  """The command starts nothing, and the line names the first run."""
  words = ["run", SMOKE, f"--workdir={tmp_path}"]
  assert run.main(words) == errors.USAGE
  out, error = capsys.readouterr()
  assert "steps of" not in out  # a run that starts says how many
  assert error.count("\n") == 1
  host = os.uname().nodename
  assert f"{tmp_path} is in use by process {holder.pid} on {host}" in error
  assert "since 2" in error  # the year
  assert [file.name for file in tmp_path.iterdir()] == [workdir_lock.LOCK_FILE]


@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_run_leaves_its_workdir_free(tmp_path, holder, end):
  holder.send_signal(end)
  holder.wait()
  with workdir_lock.lock_workdir(tmp_path):
    text = (tmp_path / workdir_lock.LOCK_FILE).read_text()
    assert f'"pid": {os.getpid()}' in text


def test_a_released_workdir_is_free(tmp_path):
  with (
    workdir_lock.lock_workdir(tmp_path),
    pytest.raises(errors.UsageError, match=f"process {os.getpid()} on "),
    workdir_lock.lock_workdir(tmp_path),
  ):
    pass
  with pytest.raises(KeyError), workdir_lock.lock_workdir(tmp_path):
    raise KeyError  # an error releases it too
  with workdir_lock.lock_workdir(tmp_path):
    pass


def test_a_process_that_the_run_starts_does_not_hold_its_workdir(tmp_path):
  with workdir_lock.lock_workdir(tmp_path):
    process = subprocess.Popen([sys.executable, "-c", "input()"], stdin=-1)
  with workdir_lock.lock_workdir(tmp_path):
    process.communicate(b"\n")


@pytest.mark.parametrize("text", ["", "[]", '{"host": "a'])
def test_a_damaged_file_does_not_matter(tmp_path, text):
  file = tmp_path / workdir_lock.LOCK_FILE
  file.write_text(text)
  with (
    workdir_lock.lock_workdir(tmp_path),
    pytest.raises(errors.UsageError, match=f"process {os.getpid()} on "),
    workdir_lock.lock_workdir(tmp_path),
  ):
    pass
  assert file.read_text() == ""  # the released lock names no run


def test_a_file_system_without_locks_is_no_obstacle(
  tmp_path, monkeypatch, capsys
):
  def refuse(file, how):
    raise OSError(errno.ENOTSUP, "Operation not supported")

  monkeypatch.setattr(workdir_lock.fcntl, "flock", refuse)
  with workdir_lock.lock_workdir(tmp_path):
    assert "start no second run in this" in capsys.readouterr().out


def test_a_bucket_has_no_lock():
  with workdir_lock.lock_workdir("gs://bucket/run"):
    pass


def test_other_processes_of_a_run_wait_for_process_0(tmp_path, monkeypatch):
  """Process 1 takes no lock, and is refused where process 0 was."""
  monkeypatch.setattr(jax, "process_index", lambda: 1)
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(multihost, "broadcast_from_process_0", lambda value: 0)
  with workdir_lock.lock_workdir(tmp_path):
    assert not list(tmp_path.iterdir())
  monkeypatch.setattr(multihost, "broadcast_from_process_0", lambda value: 1)
  with (
    pytest.raises(errors.UsageError, match="is in use by another run"),
    workdir_lock.lock_workdir(tmp_path),
  ):
    pass
