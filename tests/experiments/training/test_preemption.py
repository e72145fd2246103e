"""A run that is told to end saves what it did, and goes on from there."""

import importlib.util
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import jax
import pytest
from helpers import small_run

from experiments.evaluation import evaluator
from experiments.logging import json_files
from experiments.training import build, preemption
from experiments.training_run import loop

TESTS = pathlib.Path(__file__).resolve().parents[2]
CHANGES = {"steps": 60, "evaluate_every": 20, "method": "reinforce"}
CLOCKS = ("time/", "perf/")


@pytest.fixture(scope="module")
def file(tmp_path_factory):
  path = tmp_path_factory.mktemp("preempted") / "config.py"
  path.write_text(
    "from helpers import small_run\n\n\n"
    f"def get_config():\n  return small_run.config(**{CHANGES!r})\n"
  )
  return path


def start(file, workdir):
  path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
  words = [f"--config={file}", f"--workdir={workdir}"]
  return subprocess.Popen(
    [sys.executable, "-m", "experiments.run", *words],
    env=small_run.environment() | {"PYTHONPATH": path},
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )


def metrics(workdir):
  return [
    {k: v for k, v in line.items() if not k.startswith(CLOCKS)}
    for line in json_files.read(workdir / "metrics.jsonl")
  ]


@pytest.mark.long
def test_sigterm_saves_and_the_same_command_goes_on(file, tmp_path):
  full = start(file, tmp_path / "whole")
  output, _ = full.communicate(timeout=300)
  assert full.returncode == 0, output
  assert (tmp_path / "whole" / "report.html").exists()
  workdir = tmp_path / "stopped"
  for minimum in (3, 25):
    process = start(file, workdir)
    while len(metrics(workdir)) < minimum and process.poll() is None:
      time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    output, _ = process.communicate(timeout=120)
    assert process.returncode == preemption.STATUS == 143, output
    assert "stopped by SIGTERM after step" in output
    done = max(line["step"] for line in metrics(workdir))
    assert minimum <= done < CHANGES["steps"]
    saved = [int(path.name) for path in (workdir / "checkpoints").iterdir()]
    assert max(saved) == done
  last = start(file, workdir)
  output, _ = last.communicate(timeout=300)
  assert last.returncode == 0, output
  assert f"resumed after step {done} of 60" in output
  assert metrics(workdir) == metrics(tmp_path / "whole")
  for name in ("evaluation", "evaluation_base", "evaluation_000020"):
    one, two = (
      json.loads((tmp_path / run / f"{name}.json").read_text())
      for run in ("whole", "stopped")
    )
    assert one == two


class Told(preemption.Watch):
  """Told to end when it is asked for the nth time."""

  def __init__(self, n):
    super().__init__()
    self.left = n

  def check(self):
    self.left -= 1
    self._has_signal = self.left == 0
    super().check()


@pytest.mark.long
def test_an_evaluation_that_was_cut_short_is_made_again(tmp_path, monkeypatch):
  """Cut after its first batch; of steps and evaluations nothing is missing."""
  changes = {"steps": 3, "evaluate_every": 2, "evaluation__problems": 16}
  make = lambda: small_run.experiment(**changes)  # noqa: E731
  loop.run(make(), tmp_path / "whole")
  # Two batches before the first step, one step, another, a batch.
  with monkeypatch.context() as patched:
    patched.setattr(preemption, "Watch", lambda: Told(5))
    with pytest.raises(preemption.Preempted):
      loop.run(make(), tmp_path / "cut")
  assert not (tmp_path / "cut" / "evaluation_000002.json").exists()
  assert [line["step"] for line in metrics(tmp_path / "cut")] == [1, 2]
  loop.run(make(), tmp_path / "cut")
  result, expected = (metrics(tmp_path / name) for name in ("cut", "whole"))
  assert result == expected
  assert sum("evaluation/reward" in " ".join(line) for line in result) == 1


@pytest.mark.long
def test_before_the_first_step_there_is_nothing_to_save(tmp_path, monkeypatch):
  with monkeypatch.context() as patched:
    patched.setattr(preemption, "Watch", lambda: Told(1))
    with pytest.raises(preemption.Preempted):
      loop.run(small_run.experiment(steps=2), tmp_path)
  assert not list((tmp_path / "checkpoints").iterdir())
  loop.run(small_run.experiment(steps=2), tmp_path)
  assert (tmp_path / "evaluation_base.json").exists()


def test_the_signal_is_as_before_once_the_watch_is_over():
  before = signal.getsignal(signal.SIGTERM)
  with preemption.Watch() as watch:
    watch.check()
    os.kill(os.getpid(), signal.SIGTERM)
    with pytest.raises(preemption.Preempted):
      watch.check()
  assert signal.getsignal(signal.SIGTERM) is before


def test_several_processes_ask_jax_from_the_first_check_on(monkeypatch):
  """JAX counts from 1: it tells of a signal at check n + 1 after check n."""
  spec = importlib.util.find_spec(preemption.__name__)
  new = importlib.util.module_from_spec(spec)  # with a count of its own
  spec.loader.exec_module(new)
  requested = []
  monkeypatch.setattr(jax, "process_count", lambda: 2)
  monkeypatch.setattr(
    new.multihost_utils,
    "reached_preemption_sync_point",
    lambda number: requested.append(number) or number == 3,
  )
  before = signal.getsignal(signal.SIGTERM)
  with new.Watch() as watch:
    assert signal.getsignal(signal.SIGTERM) is before  # which JAX handles
    watch.check()
    watch.check()
    with pytest.raises(new.Preempted):
      watch.check()
  assert requested == [1, 2, 3]
  # A shell shows a process that SIGTERM ended as 128 and its number.
  assert new.STATUS == 143


def test_an_evaluation_asks_between_batches():
  e = build.build(small_run.config())
  requested = []
  evaluator.evaluate(
    e.task,
    e.policy,
    e.init().params,
    problems=12,
    samples=1,
    batch=8,
    key=e.init().carried.key,
    sharding=e.batch_sharding,
    between_batches=lambda: requested.append(1),
  )
  assert len(requested) == 2
