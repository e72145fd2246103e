"""docs/your_method.md tells the truth: its code runs, in its files."""

import importlib.util
import pathlib
import re

import pytest
import tiny

from experiments import logging, train
from rl import methods

ROOT = pathlib.Path(__file__).resolve().parent.parent
TEXT = (ROOT / "docs" / "your_method.md").read_text()
METHOD, PROOF = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


@pytest.mark.long
def test_its_method_is_found_and_trains(tmp_path, monkeypatch):
  (tmp_path / "min_at_k.py").write_text(METHOD)
  monkeypatch.setattr(methods, "__path__", [*methods.__path__, str(tmp_path)])
  config = tiny.config(method="min_at_k(k=2)", steps=1)
  config.mesh.data = 8
  train.run(train.validate(config, tmp_path / "run"), tmp_path / "run")
  assert logging.read_metrics(tmp_path / "run")["loss/total"][0].tolist() == [1]


def test_its_proof_holds_and_can_fail(tmp_path):
  def proof(code):
    path = tmp_path / "test_min_at_k.py"
    path.write_text(code)
    found = importlib.util.spec_from_file_location("proof", path)
    module = importlib.util.module_from_spec(found)
    found.loader.exec_module(module)
    (test,) = (v for k, v in vars(module).items() if k.startswith("test_"))
    return test

  proof(PROOF)()
  wrong = PROOF.replace("return -objectives", "return objectives")
  assert wrong != PROOF
  try:
    proof(wrong)()
  except AssertionError:
    return
  raise AssertionError("a turned sign passes the proof")


def test_its_files_folders_and_rows_are_where_it_says():
  for name in re.findall(r"`((?:rl|tests|experiments)/[\w/]+\.py)`", TEXT):
    if "min_at_k" not in name:
      assert (ROOT / name).exists(), name
  assert (ROOT / "rl/methods/sets").is_dir()
  assert "Row(" in (ROOT / "tests/rows_sets.py").read_text()
  for module in set(re.findall(r"-m (experiments\.\w+)", TEXT)):
    assert importlib.util.find_spec(module), module
