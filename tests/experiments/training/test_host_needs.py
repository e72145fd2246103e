"""Arrays that the host computes between sampling and the update."""

import time
import types as python

import jax
import numpy as np
import pytest
from helpers import worked_example
from jax.sharding import SingleDeviceSharding

from experiments.training import host_needs, step_timer
from rl import learners, methods, scoring

DOUBLED = scoring.provided("task", "doubled")


def sum_of_doubled(rollout):
  assert isinstance(rollout.scores, np.ndarray)
  return rollout.scores + rollout.extras["task/doubled"]


HOST = scoring.host("sum", sum_of_doubled, level="sample", reads=(DOUBLED,))


@pytest.fixture(autouse=True)
def _doubled_scores(monkeypatch):
  """Replaces the passes by programs that double the scores."""

  def with_passes(e, state, rollout, reads):
    assert reads == {DOUBLED}
    doubled = {"task/doubled": state * rollout.scores}
    return rollout.replace(extras=rollout.extras.update(doubled))

  monkeypatch.setattr(host_needs.rollout_extras, "with_passes", with_passes)


def fake_experiment(needs):
  method = python.SimpleNamespace(signal_needs=set(), term_needs=needs)
  return python.SimpleNamespace(
    methods={learners.POLICY: method},
    replicated=SingleDeviceSharding(jax.devices()[0]),
  )


def test_needs_of_the_signal_and_of_the_terms_are_those_of_the_host():
  needs = host_needs.host_needs(
    {"a": methods.get("less"), "b": methods.get("grpo")}
  )
  assert [need.source for need in needs] == ["host"]
  assert host_needs.host_needs({"b": methods.get("grpo")}) == set()


def test_an_array_of_the_host_is_in_the_extras():
  e = fake_experiment({HOST})
  sampled = worked_example.rollout([1.0, 3.0])
  state = jax.numpy.float32(2)
  add_host_needs = host_needs.make_host_needs_fn(e)
  timer = step_timer.StepTimer()
  timer.metrics["time/rollout_s"] = 5.0
  before = time.perf_counter()
  result = add_host_needs(state, sampled, timer)
  after = time.perf_counter()
  rollout = result[learners.POLICY]
  np.testing.assert_allclose(rollout.extras[str(HOST)], [[3, 9]])
  # What it reads is not sent on.
  assert "task/doubled" not in rollout.extras.arrays
  assert before < timer.state_ready < after
  assert 0 < timer.metrics["time/score_s"] < after - before
  assert 5 < timer.metrics["time/rollout_s"] < 5 + after - before
