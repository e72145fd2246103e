"""A state without a policy, a scripted timer, and specs of scores."""

import types

import jax
import numpy as np

from experiments.training import step_timer
from rl import step


def rollout_state(step_number=5):
  """The state before a step, of which a rollout reads the step and the key."""
  return step.State(
    step=np.int32(step_number),
    learners={"policy": step.Learner({}, ())},
    parameter_sets={},
    carried=step.Carried(jax.random.key(0)),
  )


def assert_spec(spec, judged):
  """Compares the structure, shapes and dtypes of scores with their spec."""

  def describe(leaf):
    return leaf.shape, jax.dtypes.canonicalize_dtype(leaf.dtype)

  assert jax.tree.map(describe, spec) == jax.tree.map(describe, judged)


def clocked_timer(monkeypatch, *moments):
  """Returns a timer whose clock shows one moment after the other."""
  clock = iter(moments)
  monkeypatch.setattr(
    step_timer,
    "time",
    types.SimpleNamespace(perf_counter=lambda: float(next(clock))),
  )
  return step_timer.StepTimer()
