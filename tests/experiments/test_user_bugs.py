"""A bug of the user's code is one line, which names his file and line."""

import sys

import pytest

from experiments import run

# The faulty line of each function ends with "# HERE: NAME".
MINE = """
import dataclasses

import jax.numpy as jnp

from experiments import tasks
from rewards.verifiers import each
from rl import methods
from rl.credit import min_form_rewards
from rl.transforms import chain, scores, transform

calls = []


def with_advantage(step):
  return dataclasses.replace(
    methods.get("rloo"), advantage=chain(scores(), step())
  )


def key_error():
  @transform()
  def lookup(signal, rollout):
    return signal * {}["oops"]  # HERE: key_error

  return with_advantage(lookup)


def traced_bool():
  @transform()
  def branch(signal, rollout):
    if (signal > 0).any():  # HERE: traced_bool
      return signal
    return -signal

  return with_advantage(branch)


def shapes():
  @transform()
  def add(signal, rollout):
    return signal + jnp.zeros((7, 3))  # HERE: shapes

  return with_advantage(add)


def undeclared():
  @transform()
  def entropy(signal, rollout):
    return signal + rollout.extras["old/entropy"].sum(-1)  # HERE: undeclared

  return with_advantage(entropy)


def wrong_call():
  @transform()
  def worst(signal, rollout):
    return min_form_rewards(signal, 0.1)  # HERE: wrong_call

  return with_advantage(worst)


def factory(k: int = 3):
  return undefined_name  # HERE: factory


@transform(takes="none", gives="sample")
def no_field(_, rollout):
  return rollout.scoers  # HERE: no_field


def broken_task():
  task = tasks.get("countdown", count=2)

  def score(*args):
    return task.score(*args).replace(scores=1 + "2")  # HERE: broken_task

  return dataclasses.replace(task, score=score)


def host_task():
  task = tasks.get("countdown", count=2)

  def score(*args):
    calls.append(1)
    if len(calls) == 3:
      raise ZeroDivisionError("third")  # HERE: host_task
    return task.score(*args)

  return dataclasses.replace(
    task, jittable=False, score=score, judged_spec=task.judged_shapes
  )


@each
def verify(completion):
  return completion.scoer  # HERE: verify
"""
CONFIG = """
from experiments.configs import defaults


def get_config():
  config = defaults.rl(steps=4)
  config.task = "countdown(count=2)"
  config.method = "rloo"
  config.rollout.prompts, config.rollout.samples = 8, 2
  config.evaluation.update({"problems": 8, "samples": 2, "batch": 8})
  return config
"""


@pytest.fixture
def mine(tmp_path, monkeypatch):
  """A module of the user, from which each test imports anew."""
  (tmp_path / "mine.py").write_text(MINE)
  (tmp_path / "config.py").write_text(CONFIG)
  monkeypatch.syspath_prepend(tmp_path)
  yield tmp_path
  sys.modules.pop("mine", None)


def run_with(mine, *flags):
  """Returns the exit status of a run, whose workdir is the folder `run`."""
  paths = f"--config={mine / 'config.py'}", f"--workdir={mine / 'run'}"
  return run.main(["run", *paths, *flags])


def line_of(name):
  lines = MINE.splitlines()
  (number,) = [i for i, x in enumerate(lines, 1) if x.endswith(f"HERE: {name}")]
  return number


@pytest.mark.parametrize(
  ("name", "flag", "expected"),
  [
    ("key_error", "method", "KeyError: oops; "),
    ("traced_bool", "method", "TracerBoolConversionError: Attempted"),
    ("shapes", "method", "TypeError: add got incompatible shapes"),
    ("undeclared", "method", "KeyError: 'old/entropy' is not available"),
    ("wrong_call", "method", "ValueError: jnp.min"),
    ("factory", "method", "NameError: name 'undefined_name' is not defined"),
    ("no_field", "reward", "has no attribute 'scoers'"),
    ("broken_task", "task", "TypeError: unsupported operand"),
  ],
)
def test_a_bug_is_shown_with_its_line_before_anything_is_written(
  name, flag, expected, mine, capsys
):
  call = f"mine:{name}()" if flag == "reward" else f"mine:{name}"
  assert run_with(mine, f"--config.{flag}={call}") == 1
  error = capsys.readouterr().err
  assert error.count("\n") == 1
  assert error.startswith("error: checking the run: ")
  assert expected in error
  assert f"mine.py:{line_of(name)}: " in error
  assert error.endswith("; --traceback shows the whole traceback\n")
  assert not (mine / "run").exists()


def test_a_bug_on_the_host_in_the_third_step(mine, capsys):
  assert run_with(mine, "--config.task=mine:host_task") == 1
  error = capsys.readouterr().err.splitlines()[-1]
  assert error.startswith("error: training: after ")
  assert "ZeroDivisionError: third; " in error
  assert f"mine.py:{line_of('host_task')}: " in error


def test_the_traceback_is_whole_on_demand(mine, capsys):
  assert run_with(mine, "--config.method=mine:factory", "--traceback") == 1
  error = capsys.readouterr().err
  assert "Traceback (most recent call last)" in error
  assert "return undefined_name" in error
