"""What one dispatch runs, with functions of numbers in place of the policy."""

import types as python

import jax
import jax.numpy as jnp
import ml_collections
import numpy as np
import pytest
from flax import struct
from jax.sharding import SingleDeviceSharding

from experiments.training import iteration
from rl.update_plan import Plan


@pytest.fixture(autouse=True)
def _states_on_one_device(monkeypatch):
  monkeypatch.setattr(
    iteration.placement, "state_shardings", lambda e: e.replicated
  )


def fake_experiment(**config):
  return python.SimpleNamespace(
    config=ml_collections.ConfigDict(config),
    replicated=SingleDeviceSharding(jax.devices()[0]),
    reward_models={},
    plan=Plan(epochs=2),
  )


def start():
  return jnp.array([1.0, 2.0])


def test_a_dispatch_of_one_step_uses_the_memory_of_its_state(monkeypatch):
  monkeypatch.setattr(
    iteration,
    "make_train_step",
    lambda e: lambda state, rollout: (state + rollout, {"sum": rollout.sum()}),
  )
  rollout, state = jnp.array([10.0, 20.0]), start()

  def sample(state, timer):
    timer.metrics["time/score_s"] = 2.0
    return rollout

  advance = iteration.make_dispatch(
    fake_experiment(steps_per_dispatch=1),
    sample,
  )
  result, metrics, timer, trained_on = advance(state)
  np.testing.assert_array_equal(result, [11.0, 22.0])
  assert metrics == {"sum": 30.0}
  assert state.is_deleted()  # its memory is that of the next state
  assert not rollout.is_deleted()
  assert timer.metrics == {"time/score_s": 2.0}
  assert timer.rollout_ready > 0
  assert trained_on is rollout


def test_a_record_is_of_the_rollout_before_the_update(monkeypatch):
  """It is timed, and the state is there still."""
  monkeypatch.setattr(
    iteration,
    "make_train_step",
    lambda e: lambda state, rollout: (state + rollout, {"sum": rollout.sum()}),
  )
  rollout, records = jnp.array([10.0, 20.0]), []
  advance = iteration.make_dispatch(
    fake_experiment(steps_per_dispatch=1), lambda state, timer: rollout
  )
  result = advance(start(), lambda *pair: records.append(jax.device_get(pair)))
  np.testing.assert_array_equal(records, [([1.0, 2.0], [10.0, 20.0])])
  assert result.timer.metrics["time/samples_s"] > 0
  assert result.timer.state_ready < result.timer.rollout_ready


def test_a_record_of_two_steps_is_of_the_first(monkeypatch):
  for name, function in (
    ("_jittable_rollout_fn", lambda state: 2 * state),
    ("add_model_scores", lambda state, rollout: rollout),
    ("make_train_step", lambda state, rollout: (state + rollout, {})),
  ):
    monkeypatch.setattr(iteration, name, lambda e, function=function: function)
  records = []
  advance = iteration.make_dispatch(
    fake_experiment(steps_per_dispatch=2), lambda state, timer: 2 * state
  )
  result = advance(start(), lambda *pair: records.append(jax.device_get(pair)))
  np.testing.assert_array_equal(records, [([1.0, 2.0], [2.0, 4.0])])
  np.testing.assert_array_equal(result.state, [9.0, 18.0])
  assert result.timer.metrics.keys() == {"time/samples_s"}


def test_a_dispatch_of_two_steps_samples_scores_and_updates_twice(monkeypatch):
  """Samples 2 x, scored 2 x + 1, of which the sum is the next x."""
  for name, function in (
    ("_jittable_rollout_fn", lambda state: 2 * state),
    ("add_model_scores", lambda state, rollout: rollout + 1),
    (
      "make_train_step",
      lambda state, rollout: (state + rollout, {"r": rollout}),
    ),
  ):
    monkeypatch.setattr(iteration, name, lambda e, function=function: function)
  state = start()
  advance = iteration.make_dispatch(fake_experiment(steps_per_dispatch=2), None)
  result, metrics, timer, trained_on = advance(state)
  np.testing.assert_array_equal(result, [13.0, 22.0])
  np.testing.assert_array_equal(metrics["r"], [[3.0, 5.0], [9.0, 15.0]])
  assert (timer.metrics, trained_on) == ({}, None)
  assert state.is_deleted()


@struct.dataclass
class State:
  step: jax.Array
  learners: dict[str, jax.Array]


@pytest.mark.parametrize(("skipped", "model"), [(0, 5.0), (1, 5.0), (2, 1.0)])
def test_models_learn_unless_all_updates_are_skipped(
  monkeypatch, skipped, model
):
  """Two updates a step; the padding and the models have metrics too."""
  monkeypatch.setattr(
    iteration.step,
    "make",
    lambda *_: (
      lambda state, rollout: (
        state.replace(step=state.step + 1),
        {"optim/skipped": rollout},
      )
    ),
  )
  monkeypatch.setattr(
    iteration.reward_models,
    "update",
    lambda models, state, rollout, _: (
      {"m": 5 * state.learners["m"]},
      {"m/loss": 7.0},
    ),
  )
  monkeypatch.setattr(
    iteration.packed_texts, "padding_metrics", lambda e, rollout: {"padding": 9}
  )
  e = fake_experiment()
  e.methods = e.policy = e.txs = None
  state = State(jnp.float32(3), {"m": jnp.float32(1), "policy": 8})
  new_state, metrics = iteration.make_train_step(e)(state, jnp.float32(skipped))
  assert new_state.step == 4
  assert new_state.learners == {"m": model, "policy": 8}
  assert metrics == {"optim/skipped": skipped, "m/loss": 7.0, "padding": 9}


def test_a_rollout_is_sampled_packed_and_scored_in_this_order(monkeypatch):
  """Ahead, or on time, as the config says; what is not needed is left out."""
  pipeline = iteration.rollout_pipeline
  monkeypatch.setattr(
    iteration, "_sample_on_sampling_mesh", lambda e, extras: extras["a"]
  )
  for name, word in (
    ("AsynchronousSampler", "ahead"),
    ("on_sampling_mesh", ""),
  ):
    monkeypatch.setattr(
      pipeline,
      name,
      lambda e, sample, word=word: lambda state, timer: [state, sample, word],
    )
  monkeypatch.setattr(iteration.packed_texts, "packs", lambda e: e.config.packs)
  monkeypatch.setattr(
    iteration.packed_texts, "pack", lambda rollout, *_: [*rollout, "packed"]
  )
  monkeypatch.setattr(jax, "jit", lambda function: function)
  monkeypatch.setattr(
    iteration,
    "add_model_scores",
    lambda e: lambda state, rollout: [*rollout, "scored"],
  )
  monkeypatch.setattr(
    iteration.host_needs, "host_needs", lambda methods: e.config.needs
  )
  monkeypatch.setattr(
    iteration.host_needs,
    "make_host_needs_fn",
    lambda e: lambda state, rollout, timer: [*rollout, "needs"],
  )
  for sampling, further, expected in (
    ({"ahead": 1}, False, ["ahead"]),
    ({"ahead": 0}, False, [""]),
    (None, True, ["", "packed", "scored", "needs"]),
  ):
    e = fake_experiment(inference=sampling, packs=further, needs=further)
    e.model = e.mesh = e.methods = None
    e.reward_models = {"m": 1} if further else {}
    rollout = iteration.compile_rollout_fn(e, {"a": 1})("state")
    assert rollout == ["state", 1, *expected]
