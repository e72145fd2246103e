"""Tests of the fault study: it reports differences and injects its faults."""

import json
import random
import shutil

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run

from experiments.cli import errors
from experiments.evaluation import summary
from experiments.studies.faults import __main__ as command
from experiments.studies.faults import disks, runs, soak, verifier
from experiments.studies.faults.outcome import Outcome
from experiments.training import checkpointing, placement
from experiments.training_run import loop
from models import checkpoint_reader

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
  workdir = tmp_path_factory.mktemp("finished") / "run"
  loop.run(
    small_run.experiment(steps=4, rollouts_every=2, checkpoint_every=2), workdir
  )
  return workdir


@pytest.fixture
def copy(finished, tmp_path):
  return shutil.copytree(finished, tmp_path / "copy")


def test_a_copy_differs_in_nothing(finished, copy):
  assert runs.differences(finished, copy) == []


# Each returns the name of a file and its changed content.
def change_clock(workdir):
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  first = json.loads(lines[0]) | {"time/step_s": 1e9, "perf/x": 0}
  return "metrics.jsonl", "\n".join([json.dumps(first), *lines[1:]]) + "\n"


def change_metric(workdir):
  lines = (workdir / "metrics.jsonl").read_text().splitlines()
  first = json.loads(lines[0])
  first["loss/total"] = np.nextafter(first["loss/total"], 1.0)
  return "metrics.jsonl", "\n".join([json.dumps(first), *lines[1:]]) + "\n"


def repeat_last_line(workdir):
  text = (workdir / "metrics.jsonl").read_text()
  return "metrics.jsonl", text + text.splitlines()[-1] + "\n"


def change_sample_dump(workdir):
  name = "rollouts/step_000002.jsonl"
  return name, (workdir / name).read_text().replace('"score": 0', '"score": 1')


@pytest.mark.parametrize(
  ("change", "differences"),
  [
    (change_clock, []),
    (change_metric, ["metrics 0"]),
    (repeat_last_line, ["metrics 4"]),
    (change_sample_dump, ["rollouts step_000002.jsonl"]),
  ],
)
def test_every_change_except_of_clocks_is_a_difference(
  finished, copy, change, differences
):
  name, text = change(copy)
  (copy / name).write_text(text)
  assert runs.differences(finished, copy) == differences


def test_one_bit_of_a_parameter_is_a_difference(finished, tmp_path):
  e = small_run.experiment(steps=4)
  with checkpointing.Checkpoints(finished / checkpoint_reader.FOLDER) as saved:
    state, _ = saved.restore(placement.abstract_state(e))
  other = shutil.copytree(finished, tmp_path / "other")
  shutil.rmtree(other / checkpoint_reader.FOLDER)
  scale = state.params["final_norm"]["scale"]
  other_bit = {"scale": jnp.nextafter(scale, 2.0)}
  moved = {**state.params, "final_norm": other_bit}
  with checkpointing.Checkpoints(other / checkpoint_reader.FOLDER) as saving:
    saving.save(4, state.with_policy(params=moved), {})
  assert runs.differences(finished, other) == [
    "checkpoint learners.policy.params.final_norm.scale"
  ]


def test_an_evaluation_is_compared_sample_by_sample(finished, copy):
  evaluation = summary.load(copy / "evaluation.json")
  evaluation.scores[0, 0] += 1e-3
  summary.save(evaluation, copy / "evaluation.json")
  differing = runs.differences(finished, copy)
  assert "evaluations evaluation scores" in differing
  assert all(line.startswith("evaluations") for line in differing)


def test_a_missing_part_is_a_difference(finished, copy):
  (copy / "evaluation.npz").unlink()
  shutil.rmtree(copy / checkpoint_reader.FOLDER)
  assert len(runs.differences(finished, copy)) > 10
  assert runs.differences(copy, copy) == ["checkpoint: nothing to compare"]


def test_damage_changes_one_file_of_the_state(copy):
  newest = runs.newest_checkpoint(copy)
  files = sorted(p for p in newest.rglob("*") if p.is_file())
  before = {path: path.read_bytes() for path in files}
  for seed in range(4):
    disks.damage_file(newest, random.Random(seed))
    changed = [p for p in files if p.read_bytes() != before[p]]
    assert len(changed) == 1
    assert "state" in changed[0].relative_to(newest).parts
    changed[0].write_bytes(before[changed[0]])


def test_the_command_of_a_run_exists():
  assert (runs.ROOT / "experiments" / "run.py").is_file()
  assert (runs.ROOT / runs.CONFIG).is_file()


def test_a_run_that_hangs_is_killed_and_reported(tmp_path):
  run = runs.Run(tmp_path / "run", (), tmp_path / "log")
  with pytest.raises(TimeoutError, match="did not end within 0 s"):
    run.wait(0.0)
  assert not run.is_running


def test_workers_that_are_killed_change_no_verdict():
  outcome = verifier.kill_workers(2, random.Random(0), lambda text: None)
  assert outcome.is_success
  assert outcome.times >= 2
  assert "workers started again" in outcome.notes[0]


@pytest.mark.parametrize(
  ("error", "reason"),
  [
    (OSError(28, "any words"), "No space left on device"),
    (ValueError("RESOURCE_EXHAUSTED: No space left on device"), "No space"),
    (PermissionError(13, "x"), "Permission denied"),
    (OSError(30, "x"), "Read-only file system"),
    (OSError(30, "x", "model.bin"), r"^model\.bin: Read-only file system\."),
    (ValueError("a shape is another"), ""),
    (FileNotFoundError(2, "x"), ""),
  ],
)
def test_an_error_of_the_disk_becomes_one_line(error, reason, tmp_path):
  def write():
    with errors.translate_disk_errors(tmp_path):
      try:
        raise error
      except Exception as first:
        raise RuntimeError("while saving") from first

  if not reason:
    with pytest.raises(RuntimeError, match="while saving"):
      write()
    return
  with pytest.raises(errors.RunError, match=reason):
    write()


@pytest.mark.parametrize(
  ("outcome", "is_success"),
  [
    (Outcome("f", 3, 3, 7, 0), True),
    (Outcome("f", 3, 2, 7, 0), False),
    (Outcome("f", 3, 3, 0, 1), False),
  ],
)
def test_success_needs_recovery_and_no_difference(outcome, is_success):
  assert outcome.is_success == is_success


def test_an_unknown_fault_is_refused(capsys):
  assert command.main(["flood"]) == errors.USAGE
  assert "unknown fault 'flood'" in capsys.readouterr().err


@pytest.mark.parametrize("leak", [0.0, 0.005, 0.02])
def test_a_leak_is_distinguished_from_the_memory_of_saves(leak):
  """Saves take 15 MB for some steps, and for more steps in the second half."""
  steps = np.arange(1000.0, 2000.0, 0.25)
  late = steps > 1500
  saving = (steps % 100 < 30) | (late & (steps % 100 < 60))
  memory = 900 + leak * (steps - 1000) + 15.0 * saving
  memory += np.random.default_rng(0).uniform(0, 0.3, len(steps))
  lows = soak.lowest_readings(steps, memory)
  assert len(lows[1]) == 10
  assert abs(soak.fit_slope(lows) - leak) < 3e-4
  # A line through all readings would be wrong by more than 0.4 MB per 100
  # steps.
  fitted, _ = np.polyfit(steps, memory, 1)
  assert 100 * (fitted - leak) > 0.4
