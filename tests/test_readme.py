"""The README tells the truth: its code runs, its commands and files exist."""

import importlib.util
import pathlib
import re

import numpy as np
import pytest
from helpers import small_run

import rewards
from experiments import tasks
from experiments.catalogue import __main__ as catalogue
from experiments.logging import run_logger
from experiments.training_run import loop, validate
from models.hf import families
from rewards.shaping import ceiling
from rl import methods

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "README.md").read_text()
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", TEXT, re.M | re.S)
PYTHON = [code for language, code in BLOCKS if language == "python"]
SHELL = "\n".join(code for language, code in BLOCKS if language == "bash")


def test_the_python_of_the_readme_runs():
  """All blocks in order, in one namespace, as a reader would."""
  assert PYTHON
  namespace = {"__name__": "readme"}
  for code in PYTHON:
    exec(compile(code, "README.md", "exec"), namespace)


def test_the_reward_of_the_readme_stands_in_a_file_of_rewards():
  """Pasted there, it imports what they import by the names that they use."""
  code = next(code for code in PYTHON if "def brevity" in code)
  existing = {**vars(ceiling)}
  exec(compile(code, "README.md", "exec"), existing)
  changed = {k for k, v in vars(ceiling).items() if existing[k] is not v}
  assert changed <= {"__builtins__"}
  assert existing["brevity"](room=10.0).gives == "sample"


@pytest.mark.long
def test_the_method_of_the_readme_is_found_and_trains(tmp_path, monkeypatch):
  """Saved in a folder of methods, it is a name on the command line."""
  code = next(code for code in PYTHON if "def median_po" in code)
  (tmp_path / "median_po.py").write_text(code)
  monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
  config = small_run.config(method="median_po(power=1.0)", steps=1)
  config.mesh.data = 8
  loop.run(validate.check_and_build(config, tmp_path / "run"), tmp_path / "run")
  steps, losses = run_logger.read_metrics(tmp_path / "run")["loss/total"]
  assert steps.tolist() == [1]
  assert np.isfinite(losses).all()


@pytest.mark.parametrize(
  "module", sorted(set(re.findall(r"-m (\w+(?:\.\w+)*)", SHELL)))
)
def test_every_command_is_one(module):
  assert module in ("venv", "pip", "pytest") or importlib.util.find_spec(module)


def test_every_file_it_names_is_there():
  assert len(TEXT.splitlines()) < 250
  named = set(re.findall(r"experiments/configs/\w+\.py", TEXT))
  named |= set(re.findall(r"\]\(([^)#:]+)\)", TEXT))
  named |= set(
    re.findall(r"`((?:rl|models|rewards|tests)/[a-z_/]+\.py)`", TEXT)
  )
  missing = [name for name in sorted(named) if not (ROOT / name).exists()]
  assert not missing


def test_its_tables_and_numbers_are_those_that_the_catalogue_writes():
  stale = [
    str(page.relative_to(ROOT))
    for page, text in catalogue.pages().items()
    if page.read_text() != text
  ]
  assert not stale, f"run python -m experiments.catalogue --write for {stale}"


def test_its_numbers_of_methods_rewards_tasks_and_families_are_true():
  numbers = re.search(
    r"(\d+) methods, (\d+) rewards, (\d+) tasks\D*(\d+) families", TEXT
  )
  names = methods.names(), rewards.names(), tasks.names(), families.FAMILIES
  assert tuple(map(int, numbers.groups())) == tuple(map(len, names)), (
    "run python -m experiments.catalogue --write"
  )


def test_each_metric_is_computed_by_the_file_that_its_row_names():
  text = (ROOT / "experiments" / "README.md").read_text()
  section = re.search(r"^## Metrics\n(.*?)^## ", text, re.M | re.S)[1]
  rows = re.findall(r"^\| (.*?) \| (.*?) \| .* \|$", section, re.M)
  number = 0
  for names, file in rows:
    for name in re.findall(r"`([\w{}@/]+/[\w{}@]*)`", names):
      path = re.search(r"`([\w/]+\.py)", file)[1]
      assert f'"{name}' in (ROOT / path).read_text(), (name, path)
      number += 1
  assert number > 15
  for path in re.findall(r"`((?:rl|experiments)/[\w/]+\.(?:py|js))", section):
    assert (ROOT / path).exists(), path
  assert "#metrics" in TEXT


def test_every_make_target_it_names_is_one():
  makefile = (ROOT / "Makefile").read_text()
  for target in set(re.findall(r"make (\w+)", SHELL)):
    assert re.search(rf"^{target}:", makefile, re.M), target


@pytest.mark.parametrize("name", ["README.md", "BENCHMARKS.md"])
def test_nothing_is_left_to_be_filled_in(name):
  text = (ROOT / name).read_text()
  blanks = set(re.findall(r"\b(?:[A-Z]+_[A-Z_]+|COMMIT|TODO)\b", text))
  assert blanks <= {"EXTREMUM_DATA"}
