"""The state that a run starts with, and what it says of it."""

import dataclasses
import pathlib
import types as python

import ml_collections
import pytest
from helpers import small_run

from experiments.training import initial_state
from models import checkpoint_reader
from rl import methods

ABSTRACT = python.SimpleNamespace(saved_part=lambda: "saved part")


def config(**changes):
  usual = {
    "base": {},
    "init_from": "",
    "policy": {"path": "", "preset": ""},
    "task": "countdown(count=2)",
    "steps": 40,
    "rollout": {"prompts": 8},
  }
  return ml_collections.ConfigDict(usual | changes)


def test_a_base_trains_no_adapters():
  result = config(base={"model": {"lora_rank": 4, "width": 8}})
  assert initial_state.base_config(result).model.lora_rank == 0
  assert initial_state.base_config(result).model.width == 8
  assert result.base.model.lora_rank == 4


@dataclasses.dataclass
class State:
  frozen: object
  learners: tuple[str, ...] = ()

  @property
  def carried(self):
    return self

  def with_carried(self, **changes):
    return dataclasses.replace(self, **changes)


@pytest.fixture
def e(monkeypatch):
  """An experiment with models, which are added to the state as learners."""
  monkeypatch.setattr(
    initial_state,
    "_add_models",
    lambda e, state: dataclasses.replace(
      state, learners=(*state.learners, "added")
    ),
  )
  monkeypatch.setattr(initial_state.provenance, "commit", lambda: "b")
  monkeypatch.setattr(
    checkpoint_reader, "restore_params", lambda *args: ("read", *args)
  )
  monkeypatch.setattr(
    initial_state.workdirs, "read_frozen_step", lambda workdir: 7
  )
  monkeypatch.setattr(
    initial_state, "abstract_params_without_lora", lambda e: "shapes"
  )
  for name, function in {
    "abstract_state": lambda e: ABSTRACT,
    "init_state": lambda e, params: State(params),
  }.items():
    monkeypatch.setattr(initial_state.placement, name, function)
  return python.SimpleNamespace(
    config=config(),
    model=python.SimpleNamespace(lora_rank=0),
    folder="",
  )


def restore(e, workdir, result):
  def restore_newest(target, print_line):
    assert target == "saved part"
    assert print_line is print
    return result

  checkpoints = python.SimpleNamespace(restore_newest=restore_newest)
  return initial_state.restore_or_initialise(e, workdir, checkpoints)


@pytest.mark.parametrize(
  ("metadata", "shown"),
  [
    ({"code": "a"}, "saved by commit a, and the run resumes with commit b"),
    ({"code": "b"}, ""),
    ({}, ""),
  ],
)
def test_models_that_learn_are_restored_and_others_are_read_again(
  e, tmp_path, capsys, metadata, shown
):
  saved = State(None, ("saved",))
  state = restore(e, tmp_path, (saved, metadata))
  assert state == State({}, ("saved", "added"))
  output = capsys.readouterr().out
  assert shown in output
  assert bool(output) == bool(shown)


def test_without_a_checkpoint_all_models_are_new(e, tmp_path):
  state = restore(e, tmp_path, None)
  assert state == State(None, ("added",))


def test_frozen_parameters_are_read_from_the_base_or_another_run(e, tmp_path):
  e.config.base = {"steps": 3}
  assert initial_state.frozen_params(e, tmp_path) == {}  # without adapters
  e.model.lora_rank = 2
  assert initial_state.frozen_params(e, tmp_path) == (
    "read",
    tmp_path / "base" / "checkpoints",
    "shapes",
    7,
  )
  e.config.init_from = "/other/run"
  assert initial_state.frozen_params(e, tmp_path) == (
    "read",
    pathlib.Path("/other/run/checkpoints"),
    "shapes",
    7,
  )


def test_adapters_name_the_step_of_the_run_that_they_adapt(
  e, tmp_path, monkeypatch
):
  written = []
  monkeypatch.setattr(
    initial_state.workdirs,
    "write_model",
    lambda *args, **more: written.append((args, more)),
  )
  monkeypatch.setattr(
    checkpoint_reader,
    "latest_step",
    lambda folder: int(str(folder) == "/other/run/checkpoints") and 30,
  )
  e.task = python.SimpleNamespace(eos_ids=(3,))
  usual = {"tokenizer": "", "stops": ()}
  for rank, init_from, base, frozen, step in (
    (0, "", {}, "", None),
    (2, "/other/run", {}, "/other/run", 30),
    (2, "", {"steps": 3}, "base", None),
  ):
    e.model.lora_rank = rank
    e.config.init_from, e.config.base = init_from, base
    initial_state.write_model_file(e, tmp_path)
    expected = usual | {"frozen": frozen, "frozen_step": step}
    assert written.pop() == ((tmp_path, e.model), expected)


def test_a_run_says_where_it_starts(e):
  def lines(done):
    return list(initial_state.describe_start(e, "folder", done))

  e.task = python.SimpleNamespace(name="a task", notes=["a note"])
  e.methods, e.texts = {"policy": methods.get("rloo")}, None
  method = str(methods.get("rloo"))
  assert lines(40) == ["folder: complete at step 40"]
  assert lines(41) == ["folder: complete at step 41"]
  assert lines(39) == ["folder: resumed after step 39 of 40"]
  assert lines(0) == ["folder: 40 steps of a task", "a note", method]

  class Texts(list):
    note = "a file"

  # 40 steps read 8 of 20 lines each.
  e.texts = Texts(range(20))
  expected = "a file; 40 steps are 16 epochs"
  assert lines(0) == ["folder: 40 steps of a task", "a note", expected, method]


def test_a_run_has_a_base_unless_it_starts_from_something_else():
  result = small_run.config()
  assert not initial_state.has_base(result)
  assert initial_state.has_base(config(base={"steps": 3}))
  for name in ("path", "preset"):
    policy = {"path": "", "preset": ""} | {name: "x"}
    other = config(base={"steps": 3}, policy=policy)
    assert not initial_state.has_base(other)


def test_only_heads_of_the_decoder_are_selected(monkeypatch):
  shapes = {"decoder": {"w": 1}, "heads": {"a": 2}}
  monkeypatch.setattr(
    initial_state, "abstract_params_without_lora", lambda e: shapes
  )
  params = {"decoder": {"w": 10}, "heads": {"a": 20, "b": 30}, "value": 40}
  assert initial_state.select_params(None, params) == {
    "decoder": {"w": 10},
    "heads": {"a": 20},
  }
