"""rl/methods/your_method.md tells the truth: its code runs, in its files."""

import importlib.util
import pathlib
import re
import shutil
import subprocess
import sys
import types

import pytest
from helpers import small_run

from experiments.catalogue import __main__ as catalogue
from experiments.logging import run_logger
from experiments.training_run import loop, validate
from rl import methods

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "rl" / "methods" / "your_method.md").read_text()
METHOD, PROOF = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
FILE = "rl.methods.sets.min_at_k"
# The page's method under another name, which is free also where a reader has
# followed the page to the letter.
COPY = METHOD.replace("def min_at_k(", "def min_at_k_copy(")


@pytest.mark.long
def test_its_method_is_found_and_trains(tmp_path, monkeypatch):
  (tmp_path / "min_at_k_copy.py").write_text(COPY)
  monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
  config = small_run.config(method="min_at_k_copy(k=2)", steps=1)
  config.mesh.data = 8
  loop.run(validate.check_and_build(config, tmp_path / "run"), tmp_path / "run")
  assert run_logger.read_metrics(tmp_path / "run")["loss/total"][
    0
  ].tolist() == [1]


def test_its_files_are_as_ruff_wants_them(tmp_path):
  for name, code in (("min_at_k.py", METHOD), ("test_min_at_k.py", PROOF)):
    (tmp_path / name).write_text(code)
  shutil.copy(ROOT / "pyproject.toml", tmp_path)
  for command in (["check"], ["format", "--check"]):
    done = subprocess.run(
      [sys.executable, "-m", "ruff", *command, "."],
      cwd=tmp_path,
      capture_output=True,
      text=True,
    )
    assert done.returncode == 0, done.stdout


def test_its_command_writes_the_method_into_the_pages(tmp_path, monkeypatch):
  (command,) = re.findall(r"-m experiments\.catalogue (--\w+)", TEXT)
  pages = "README.md", "rl/methods/README.md", "rewards/README.md"
  for page in pages:
    (tmp_path / page).parent.mkdir(parents=True, exist_ok=True)
    shutil.copy(ROOT / page, tmp_path / page)
  before = len(methods.names())
  (tmp_path / "min_at_k_copy.py").write_text(COPY)
  monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
  monkeypatch.setattr(catalogue, "_ROOT", tmp_path)
  assert catalogue.main([command]) == 0
  one, table, other = ((tmp_path / page).read_text() for page in pages)
  assert f"{before + 1} methods" in one
  assert "| `min_at_k_copy` | rl/methods/your_method.md | " in table
  assert other == (ROOT / pages[2]).read_text()
  # The proof has the mark that every method needs (tests/test_worked_examples).
  assert '@pytest.mark.worked_example("method:min_at_k")' in PROOF


def test_its_proof_holds_and_can_fail(monkeypatch):
  def proof(method):
    module = types.ModuleType(FILE)
    exec(compile(method, FILE, "exec"), vars(module))
    monkeypatch.setitem(sys.modules, FILE, module)
    names = {}
    exec(compile(PROOF, "test_min_at_k.py", "exec"), names)
    (test,) = (v for k, v in names.items() if k.startswith("test_"))
    return test

  proof(METHOD)()
  wrong = METHOD.replace("return -best_of_k", "return best_of_k")
  assert wrong != METHOD
  with pytest.raises(AssertionError):
    proof(wrong)()


def test_its_files_folders_and_rows_are_where_it_says():
  for name in re.findall(r"`((?:rl|tests|experiments)/[\w/]+\.py)`", TEXT):
    if "min_at_k" not in name:
      assert (ROOT / name).exists(), name
  assert (ROOT / "rl/methods/sets").is_dir()
  assert "Row(" in (ROOT / "tests/helpers/method_rows/sets.py").read_text()
  for module in set(re.findall(r"-m (experiments\.\w+)", TEXT)):
    assert importlib.util.find_spec(module), module
