"""A state without a policy, and a scripted timer."""

import types

import jax
import numpy as np

from experiments.tasks.task import Problems
from experiments.training import step_timer
from rl import training_state


def problems():
  """Two prompts of at most two tokens."""
  return Problems(
    prompts=np.array([[9, 7], [5, 6]], np.int32),
    prompt_mask=np.array([[False, True], [True, True]]),
    ids=np.array([40, 50], np.int32),
    facts={},
  )


fold = jax.jit(jax.random.fold_in)


def assert_keys(keys, expected):
  for key, other in zip(keys, expected, strict=True):
    np.testing.assert_array_equal(*map(jax.random.key_data, (key, other)))


def rollout_state(step_number=5):
  """The state before a step, of which a rollout reads the step and the key."""
  return training_state.State(
    step=np.int32(step_number),
    learners={"policy": training_state.Learner({}, ())},
    parameter_sets={},
    carried=training_state.Carried(jax.random.key(0)),
  )


def clocked_timer(monkeypatch, *moments):
  """Returns a timer whose clock shows one moment after the other."""
  clock = iter(moments)
  monkeypatch.setattr(
    step_timer,
    "time",
    types.SimpleNamespace(perf_counter=lambda: float(next(clock))),
  )
  return step_timer.StepTimer()
