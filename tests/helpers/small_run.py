"""A run small enough for tests.

The policy has one layer of width 16. The score of a completion is the sum of
its token ids, so that an untrained policy earns some reward too.
"""

from __future__ import annotations

import dataclasses
import os

import jax
import jax.numpy as jnp
from etils import epath
from ml_collections import ConfigDict

from experiments.configs import defaults
from experiments.tasks import Task
from experiments.training import build, checkpointing, placement, workdirs
from experiments.training.experiment import Experiment
from models import checkpoint_reader, sharding

PROMPTS, SAMPLES = 8, 4


def config(kind: str = "rl", **changes: object) -> ConfigDict:
  """Returns the config of a run on countdown(count=2); `a__b=1` sets `a.b`."""
  makers = {
    "rl": defaults.rl,
    "supervised": defaults.supervised,
    "preferences": defaults.preferences,
  }
  result = makers[kind]()
  result.model = defaults.model(
    width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp_width=32
  )
  result.task = "countdown(count=2)"
  result.sinks = ()
  result.log_every = 1
  result.rollout.prompts = PROMPTS
  result.rollout.samples = SAMPLES
  result.optimizer.learning_rate = 3e-3
  result.evaluation.problems = 8
  result.evaluation.samples = 2
  result.evaluation.batch = 8
  with result.unlocked():
    result.update_from_flattened_dict(
      {name.replace("__", "."): value for name, value in changes.items()}
    )
  return result


def experiment(kind: str = "rl", **changes: object) -> Experiment:
  """Returns the experiment of `config`, on one device, scored by token ids."""
  built = on_one_device(build.build(config(kind, **changes)))
  return dataclasses.replace(built, task=rewarding_ids(built.task))


def on_one_device(built: Experiment) -> Experiment:
  """Returns the experiment on one device, which compiles sooner than on 8."""
  mesh = sharding.make_mesh(devices=jax.devices()[:1])
  return built.on_mesh(mesh)


def save_untrained(built: Experiment, workdir: epath.Path) -> None:
  """Writes a run whose checkpoint has new parameters, without a training."""
  workdirs.write_config(workdir, built.config)
  folder = workdir / checkpoint_reader.FOLDER
  with checkpointing.Checkpoints(folder) as checkpoints:
    step = built.config.steps
    checkpoints.save(step, {"params": placement.init_state(built).params}, {})


def rewarding_ids(task: Task) -> Task:
  """Returns the task with the sum of the token ids (0 for padding) as score."""

  def score(problems, completions, lengths, finished):
    judged = task.score(problems, completions, lengths, finished)
    return dataclasses.replace(
      judged,
      scores=completions.sum(-1) / (task.completion_length * task.vocab_size),
      correct=finished.astype(jnp.int8),
    )

  return dataclasses.replace(task, score=score)


def environment() -> dict[str, str]:
  """Returns the environment of a command, without the fake devices of tests."""
  flags = os.environ["XLA_FLAGS"].split()
  flags = [flag for flag in flags if "device_count" not in flag]
  return os.environ | {"XLA_FLAGS": " ".join(flags)}
