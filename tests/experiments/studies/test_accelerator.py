"""The benchmark `accelerator`, on a CPU: its pieces, and how it goes on."""

import io
import json

import pytest
import rich.console

from experiments.cli import errors
from experiments.studies.benchmark import accelerator
from experiments.studies.benchmark.on_accelerator import pieces

pytestmark = pytest.mark.long


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
  return tmp_path_factory.mktemp("accelerator")


def measure(folder, **settings):
  """Returns the outcome, and what the command has printed."""
  stream = io.StringIO()
  console = rich.console.Console(file=stream, width=200)
  result = accelerator.accelerator(
    console, out=str(folder / "out"), state=str(folder / "state"), **settings
  )
  return result, stream.getvalue()


def only(monkeypatch, *names):
  """Leaves out all pieces but "device" and these."""
  chosen = {name: pieces.PIECES.get(name) for name in ("device", *names)}
  monkeypatch.setattr(pieces, "PIECES", chosen)


def test_every_piece_runs_and_is_written(folder):
  result, _ = measure(folder)
  assert result.limits_met, result.verdict
  written = json.loads((folder / "out/accelerator.json").read_text())
  assert written["failures"] == {}
  assert written["versions"]["device"] == "cpu"
  assert len(written["rows"]) >= len(pieces.PIECES)
  assert all(
    row["ours"] > 0 for row in written["rows"] if row["unit"][:3] != "of "
  )
  # A process that is started by a test has 8 devices.
  assert any("over 8 devices" in row["name"] for row in written["rows"])
  table = (folder / "out/accelerator.md").read_text()
  assert all(row["name"] in table for row in written["rows"])


def test_a_finished_piece_is_not_run_again(folder, monkeypatch):
  only(monkeypatch, "numbers")
  _, printed = measure(folder)
  assert "device: running" in printed
  assert "numbers: running" not in printed


def test_results_of_another_version_do_not_count(folder, monkeypatch):
  only(monkeypatch, "trainer_lora")
  path = folder / "state/trainer_lora.json"
  record = json.loads(path.read_text())
  record["versions"]["jax"] = "0.1"
  path.write_text(json.dumps(record))
  _, printed = measure(folder)
  assert "trainer_lora: running" in printed


def test_a_piece_that_fails_says_why_and_the_others_go_on(folder, monkeypatch):
  """A process that does not know the piece ends with status 1."""
  only(monkeypatch, "unknown", "numbers")
  result, printed = measure(folder)
  assert not result.limits_met
  assert "unknown ended with status 1; " in result.verdict
  assert "numbers: done" in printed


def test_no_piece_is_started_without_time(tmp_path, monkeypatch):
  only(monkeypatch, "numbers")
  result, _ = measure(tmp_path, minutes=0.0)
  assert not result.limits_met
  assert "device not started: no time is left" in result.verdict


def test_known_pieces_are_traced_although_they_are_finished(
  folder, monkeypatch
):
  with pytest.raises(errors.UsageError, match="did you mean 'decoding'"):
    measure(folder, profile="trainer,decode")
  only(monkeypatch, "numbers", "decoding", "trainer")
  _, printed = measure(folder, profile="decoding,trainer")
  assert "decoding: running" in printed
  assert "trainer: running" in printed
  assert "numbers: running" not in printed
  for name in ("decoding/decoding_batch_16", "trainer/trainer_full"):
    traced = folder / "out/profile" / name
    assert list(traced.rglob("*.xplane.pb"))
    assert "0 kernels" in (traced / "kernels.md").read_text()  # of a CPU
