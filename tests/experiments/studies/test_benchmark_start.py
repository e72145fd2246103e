"""The benchmark `start`, with one round of real commands."""

import io

import pytest
import rich.console
from helpers import small_run

from experiments.cli import errors
from experiments.studies.benchmark import start

pytestmark = pytest.mark.long

# Of the kinds of runs this one compiles the least, and needs no base.
CONFIG = """
from experiments.configs import defaults, smoke

def get_config():
  config = defaults.supervised(steps=10)
  config.model = smoke.get_config().model
  config.task = "countdown(count=3)"
  config.rollout.prompts = 4
  return config
"""


def test_the_second_start_uses_the_programs_of_the_first(monkeypatch, tmp_path):
  # With the eight devices of the tests no program is kept.
  monkeypatch.setenv("XLA_FLAGS", small_run.environment()["XLA_FLAGS"])
  console = rich.console.Console(file=io.StringIO())
  config = tmp_path / "config.py"
  config.write_text(CONFIG)
  (row,) = start.start(console, config=str(config), rounds=1).results["rows"]
  assert 0 < row["ours"] < row["peer"]
  assert row["ratio"] == row["peer"] / row["ours"]


def test_a_config_that_cannot_be_run_is_reported():
  console = rich.console.Console(file=io.StringIO())
  with pytest.raises(errors.UsageError, match="steps = -1"):
    start.start(console, steps=-1, rounds=1)
