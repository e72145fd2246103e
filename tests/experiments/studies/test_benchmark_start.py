"""The benchmark `start`, with one round of real commands."""

import io

import pytest
import rich.console
from helpers import small_run

from experiments.cli import errors
from experiments.studies.benchmark import start

pytestmark = pytest.mark.long


def test_the_second_start_uses_the_programs_of_the_first(monkeypatch):
  # With the eight devices of the tests no program is kept.
  monkeypatch.setenv("XLA_FLAGS", small_run.environment()["XLA_FLAGS"])
  console = rich.console.Console(file=io.StringIO())
  (row,) = start.start(console, rounds=1).results["rows"]
  assert 0 < row["ours"] < row["peer"]
  assert row["ratio"] == row["peer"] / row["ours"]


def test_a_config_that_cannot_be_run_is_reported():
  console = rich.console.Console(file=io.StringIO())
  with pytest.raises(errors.UsageError, match="steps = -1"):
    start.start(console, steps=-1, rounds=1)
