"""The files that describe the method of a run."""

import json
import math
import types as python

import jax
import pytest

from experiments.training_run import method_files

ROLLOUT = python.SimpleNamespace(sample_mask=jax.ShapeDtypeStruct((8, 4), bool))


def fake_experiment(*, is_rl=True):
  return python.SimpleNamespace(
    methods={"policy": "a method", "value": "another"},
    method="a method",
    is_rl=is_rl,
    abstract_rollout=ROLLOUT,
  )


@pytest.fixture
def computed(monkeypatch):
  """The arguments with which advantages are computed."""
  calls = []

  def compute(*args):
    calls.append((*args, jax.config.jax_debug_nans))
    return python.SimpleNamespace(
      right=[0.0, math.inf], wrong=[-1.0, 0.0], note="of a group"
    )

  monkeypatch.setattr(method_files.advantages_by_count, "compute", compute)
  return calls


def test_advantages_of_a_group_are_written_once(tmp_path, computed):
  """A NaN of a method is no error there, also with --debug."""
  with jax.debug_nans(True):
    method_files.write(tmp_path, fake_experiment())
  assert computed == [("a method", 4, False)]
  assert (tmp_path / "method.txt").read_text() == "a method\n\nanother\n"
  assert json.loads((tmp_path / "advantages.json").read_text()) == {
    "right": [0.0, "Infinity"],
    "wrong": [-1.0, 0.0],
    "note": "of a group.",
  }
  method_files.write(tmp_path, fake_experiment())
  assert len(computed) == 1


def test_a_supervised_run_has_no_advantages(tmp_path, computed):
  method_files.write(tmp_path, fake_experiment(is_rl=False))
  names = sorted(path.name for path in tmp_path.iterdir())
  assert names == ["code.json", "method.txt"]
  assert not computed


def test_why_there_are_no_advantages_is_written(tmp_path, monkeypatch):
  def compute(method, samples):
    raise ValueError("it reads tokens")

  monkeypatch.setattr(method_files.advantages_by_count, "compute", compute)
  method_files.write_advantages(tmp_path, None, 4)
  text = (tmp_path / "advantages.json").read_text()
  assert json.loads(text) == {"missing": "it reads tokens"}
