"""A run small enough for tests.

The policy has one layer of width 16; the reward is how large the token ids are,
of which a policy that was never trained earns some too.
"""

from __future__ import annotations

import dataclasses
import os

import jax
import jax.numpy as jnp
from ml_collections import ConfigDict

from experiments.configs import defaults
from experiments.tasks import Task
from experiments.training import build
from experiments.training.experiment import Experiment
from models import sharding

PROMPTS, SAMPLES = 8, 4


def config(kind: str = "rl", **changes: object) -> ConfigDict:
  """countdown(count=2), 8 prompts, 4 samples; `a__b=1` changes `a.b`."""
  found = defaults.rl() if kind == "rl" else defaults.supervised()
  found.model = defaults.model(
    width=16, layers=1, heads=2, kv_heads=2, head_dim=8, mlp_width=32
  )
  found.task = "countdown(count=2)"
  found.sinks = ()
  found.log_every = 1
  found.rollout.prompts = PROMPTS
  found.rollout.samples = SAMPLES
  found.optimizer.learning_rate = 3e-3
  found.evaluation.problems = 8
  found.evaluation.samples = 2
  found.evaluation.batch = 8
  with found.unlocked():
    found.update_from_flattened_dict(
      {name.replace("__", "."): value for name, value in changes.items()}
    )
  return found


def experiment(kind: str = "rl", **changes: object) -> Experiment:
  """Of `config(kind, **changes)`, on one device, rewarded by ids."""
  found = on_one_device(build.build(config(kind, **changes)))
  return dataclasses.replace(found, task=rewarding_ids(found.task))


def on_one_device(found: Experiment) -> Experiment:
  """The same experiment; programs for one device compile sooner than for 8."""
  mesh = sharding.make_mesh(devices=jax.devices()[:1])
  return found.on_mesh(mesh)


def rewarding_ids(task: Task) -> Task:
  """The same problems; the score is the sum of the ids, padding being 0."""

  def score(problems, completions, lengths, finished):
    judged = task.score(problems, completions, lengths, finished)
    return dataclasses.replace(
      judged,
      scores=completions.sum(-1) / (task.completion_length * task.vocab_size),
      correct=finished.astype(jnp.int8),
    )

  return dataclasses.replace(task, score=score)


def environment() -> dict[str, str]:
  """Of a real command: as here, but without the fake devices."""
  flags = os.environ["XLA_FLAGS"].split()
  kept = [flag for flag in flags if "device_count" not in flag]
  return os.environ | {"XLA_FLAGS": " ".join(kept)}
