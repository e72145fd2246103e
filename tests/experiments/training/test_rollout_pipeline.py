"""Sampling on another mesh, on devices of its own, and a step ahead."""

import dataclasses
import time
import types as python

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import struct
from helpers import small_run
from jax.sharding import SingleDeviceSharding

from experiments.evaluation import evaluator
from experiments.logging import json_files
from experiments.training import (
  device_mesh,
  iteration,
  placement,
  rollout_pipeline,
  step_timer,
)
from experiments.training_run import loop, validate
from models import presets
from rl import learners, methods, types
from rl.losses import importance

pytestmark = pytest.mark.several_devices

HALF = {"inference__devices": 4}
AHEAD = {**HALF, "inference__ahead": 1, "method": "grpo(beta=0.0)"}
OPEN = {"replica": None, "data": -1, "fsdp": None, "tensor": None, "context": 1}
GIB = 2**30


def experiment(**changes):
  """Rewarded by ids, of which a policy that was never trained earns some."""
  result = validate.check_and_build(small_run.config(**changes))
  return dataclasses.replace(result, task=small_run.rewarding_ids(result.task))


def sampled(e, state):
  return jax.device_get(
    iteration.compile_rollout_fn(e)(state).replace(keys=None)
  )


def assert_same(result, expected):
  np.testing.assert_array_equal(result.completions, expected.completions)
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-5),
    result,
    expected,
  )


@pytest.mark.long
@pytest.mark.parametrize(
  "changes",
  [
    {"mesh__fsdp": 8, "inference__tensor": 2},
    {**HALF, "mesh__fsdp": 4},
    {**HALF, "mesh__tensor": 2, "inference__fsdp": 2},
    {"mesh__fsdp": 8, "inference__tensor": 4, "model__lora_rank": 2},
  ],
  ids=["same devices", "own devices", "own devices, own layout", "heads twice"],
)
def test_another_mesh_gives_the_same_rollout(changes):
  # The task's 25 rows do not split in two. 4 query heads share 2 key heads.
  usual = {"model__vocab_size": 28, "model__heads": 4}
  usual |= {k: v for k, v in changes.items() if k == "model__lora_rank"}
  reference, other = experiment(**usual), experiment(**usual | changes)
  assert other.sampling_mesh != other.mesh
  result, expected = (
    sampled(e, placement.init_state(e)) for e in (other, reference)
  )
  assert_same(result, expected)
  rollout = iteration.compile_rollout_fn(other)(placement.init_state(other))
  assert rollout.completions.sharding == other.batch_sharding
  assert rollout.step.sharding == other.replicated


@pytest.mark.long
@pytest.mark.parametrize(
  ("changes", "mesh"),
  [({"inference__tensor": 2}, "sampling_mesh"), (HALF, "mesh")],
  ids=["same devices", "own devices"],
)
def test_an_evaluation_uses_the_devices_of_training(changes, mesh):
  """On the sampler's mesh, if that has the same devices."""
  usual = {"model__vocab_size": 26}
  reference, other = experiment(**usual), experiment(**usual, **changes)
  assert placement.evaluation_mesh(other) == getattr(other, mesh)
  result, expected = (
    evaluator.evaluate_experiment(e, placement.init_state(e).params)
    for e in (other, reference)
  )
  np.testing.assert_array_equal(result.scores, expected.scores)
  np.testing.assert_array_equal(result.lengths, expected.lengths)


@pytest.mark.long
class TestAhead:
  """Four devices sample for the next step while four train."""

  def test_samples_are_of_the_parameters_before(self):
    """Returns a rollout of this step's problems by the previous state."""
    e = experiment(**AHEAD, steps=4, checkpoint_every=2)
    gather = iteration.compile_rollout_fn(e)
    advance = iteration.make_dispatch(e, gather)
    state = placement.init_state(e)
    states, rollouts, stale = [], [], []
    for _ in range(4):
      states.append(
        jax.device_get(state.with_carried(key=()).with_policy(opt_state=()))
      )
      state, _, timer, rollout = advance(state)
      rollouts.append(jax.device_get(rollout.replace(keys=None)))
      stale.append(timer.metrics["rollout/staleness"])
    assert stale == [0, 1, 0, 1]
    once = iteration.compile_rollout_fn(
      experiment(**HALF, method="grpo(beta=0.0)")
    )
    for step, result in enumerate(rollouts):
      before = states[step - int(stale[step])]
      params = jax.tree.map(jnp.asarray, before.params)
      requested = state.with_policy(params=params).replace(step=jnp.int32(step))
      expected = once(requested)
      assert_same(result, jax.device_get(expected.replace(keys=None)))
    moved = jax.tree.map(
      lambda a, b: float(np.abs(a - b).max()), *(s.params for s in states[:2])
    )
    assert max(jax.tree.leaves(moved)) > 0

  def test_a_run_resumes_as_if_it_had_not_stopped(self, tmp_path):
    runs = {"straight": (4,), "stopped": (2, 4)}
    for name, ends in runs.items():
      for steps in ends:
        e = experiment(**AHEAD, steps=steps, checkpoint_every=2)
        loop.run(e, tmp_path / name)
    result, expected = (
      [
        {k: v for k, v in line.items() if not k.startswith(("time/", "perf/"))}
        for line in json_files.read(tmp_path / name / "metrics.jsonl")
      ]
      for name in runs
    )
    assert result == expected
    assert [line["rollout/staleness"] for line in result] == [0, 1, 0, 1]


@pytest.mark.long
@pytest.mark.parametrize(
  ("changes", "says"),
  [
    (
      {"inference__devices": 8},
      "devices = 8 must leave some of the 8",
    ),
    ({"inference__ahead": 1}, "give the sampler devices of its own"),
    ({"inference__ahead": 2, **HALF}, "inference.ahead = 2 must be 0 or 1"),
    ({"inference__tensor": 3}, "inference: mesh replica=1"),
    (
      {"inference__tensor": 4},
      "inference.tensor = 4 cannot split the 2 heads in 2 groups equally; "
      "nearest: 2",
    ),
    (
      {"inference__tensor": 2, "evaluation__batch": 6},
      "not divisible by the sampler's replica \\* data \\* fsdp = 4",
    ),
    ({**HALF, "steps_per_dispatch": 2, "steps": 4}, "use 1"),
    (
      {"inference__devices": 2, "rollout__prompts": 9, "mesh__data": 3},
      "does not fit 6 devices",
    ),
    ({"inference__importance_cap": -1.0}, "cap = -1.0 must be above 0"),
    (
      {"inference__importance_cap": 2.0, "method": "semi_online_dpo"},
      "inference.importance_cap = 2.0: semi_online_dpo",
    ),
  ],
)
def test_what_cannot_be_is_said(changes, says):
  with pytest.raises(ValueError, match="(?s)" + says.replace(".", r"\.")):
    experiment(**changes)


@struct.dataclass
class Sampled:
  """A rollout of one number, and the memory that its sampler returns."""

  value: jax.Array
  memory: jax.Array


@struct.dataclass
class Carried:
  """The carried fields of a state that a sampler reads."""

  frozen: jax.Array
  memory: jax.Array


@struct.dataclass
class Parameters:
  """The fields of a state that a sampler reads."""

  params: jax.Array
  step: jax.Array
  carried: Carried

  def with_carried(self, **changes):
    return self.replace(carried=self.carried.replace(**changes))


@pytest.fixture
def _ten_times_the_params(monkeypatch):
  """The sampler reads parameters in another form, on the second device."""
  place = SingleDeviceSharding(jax.devices()[1])
  for name, function in {
    "sampler_state": lambda e, state: state.replace(params=state.params * 10),
    "sampling_params": lambda e, frozen: frozen * 100,
    "sampler_shardings": lambda e: Parameters(
      place, place, Carried(place, place)
    ),
  }.items():
    monkeypatch.setattr(placement, name, function)


def fake_experiment(**config):
  """Trains on the first device and samples on the second."""
  train = SingleDeviceSharding(jax.devices()[0])
  return python.SimpleNamespace(
    mesh="mesh",
    sampling_mesh="another mesh",
    rollout_shardings=lambda rollout: train,
    config=python.SimpleNamespace(**config),
  )


def state_of(step):
  return jax.device_put(
    Parameters(
      jnp.float32(step + 1),
      jnp.float32(step),
      Carried(jnp.float32(5), jnp.float32(0)),
    ),
    jax.devices()[0],
  )


def sample_sum(state, timer):
  """Params 10 (n + 1), frozen 500, and a tenth of the step."""
  assert state.params.devices() == {jax.devices()[1]}
  value = state.params + state.carried.frozen + state.step / 10
  timer.metrics["time/rollout_s"] = 2.0
  return Sampled(value, state.carried.memory + 1)


@pytest.mark.usefixtures("_ten_times_the_params")
def test_a_rollout_is_made_on_the_other_mesh_and_copied_back():
  e = fake_experiment()
  rollout_fn = rollout_pipeline.on_sampling_mesh(e, sample_sum)
  for step, expected in ((0, 510), (3, 540.3)):
    timer = step_timer.StepTimer()
    rollout = rollout_fn(state_of(step), timer)
    np.testing.assert_allclose(rollout.value, expected, rtol=1e-6)
    assert rollout.value.devices() == {jax.devices()[0]}
    assert timer.metrics == {"time/rollout_s": 2.0}
  same = python.SimpleNamespace(mesh="mesh", sampling_mesh="mesh")
  assert rollout_pipeline.on_sampling_mesh(same, sample_sum) is sample_sum


@pytest.mark.usefixtures("_ten_times_the_params")
@pytest.mark.parametrize(
  ("checkpoint_every", "stale"),
  [(0, [0, 1, 1, 1, 1]), (2, [0, 1, 0, 1, 0]), (3, [0, 1, 1, 0, 1])],
)
def test_rollouts_after_a_checkpoint_are_of_the_present_parameters(
  checkpoint_every, stale
):
  e = fake_experiment(checkpoint_every=checkpoint_every, steps=5)
  sampler = rollout_pipeline.AsynchronousSampler(e, sample_sum)
  memory = 0
  for step, age in enumerate(stale):
    before = time.perf_counter()
    timer = step_timer.StepTimer()
    rollout = sampler(state_of(step), timer)
    # A rollout that is sampled ahead goes on with the memory of the last one.
    memory = memory + 1 if age else 1
    assert rollout.memory == memory
    expected = 10 * (step + 1 - age) + 500 + step / 10
    np.testing.assert_allclose(rollout.value, expected, rtol=1e-6)
    assert rollout.value.devices() == {jax.devices()[0]}
    assert timer.metrics["rollout/staleness"] == age
    assert before < timer.state_ready < time.perf_counter()
    assert timer.metrics["time/rollout_s"] == 2.0
  assert not sampler._futures  # nothing is sampled after the last step


def rollout_of(gap, mask):
  """One prompt and sample whose log-ratio of old to sampler is `gap`."""
  tokens = types.Tokens(None, None, jnp.zeros_like(mask), None, mask)
  return python.SimpleNamespace(
    tokens=tokens,
    mask=mask,
    valid=lambda level: mask,
    sample_mask=jnp.ones(mask.shape[:2], bool),
    behavior_log_probs=-gap,
    extras={importance._OLD: jnp.zeros_like(gap)},
  )


def test_weights_are_the_ratio_up_to_the_cap():
  gap = jnp.log(jnp.array([[[0.5, 1.0, 1.9, 8.0, 4.0]]]))
  mask = jnp.array([[[True, True, True, True, False]]])
  advantages = jnp.array([[[2.0, -1.0, 1.0, -3.0, 0.0]]])
  weigh = importance.truncated_importance(2.0)
  result, _ = weigh.apply(advantages, rollout_of(gap, mask), ())
  np.testing.assert_allclose(result, [[[1.0, -1.0, 1.9, -6.0, 0.0]]], rtol=1e-6)
  result, _ = weigh.apply(advantages, rollout_of(0 * gap, mask), ())
  np.testing.assert_array_equal(result, advantages)


def test_a_corrected_method_prints_its_weights():
  method = importance.add_importance_weights(methods.get("grpo"), 2.0)
  assert "truncated_importance(cap=2)" in str(method)
  assert "old/log_probs" in {str(need) for need in method.signal_needs}


@pytest.mark.parametrize("name", ["topr", "eepo", "semi_online_grpo"])
def test_what_is_weighed_against_the_sampler_is_not_weighed_twice(name):
  with pytest.raises(ValueError, match="is the behavior policy already"):
    importance.add_importance_weights(methods.get(name), 2.0)


@pytest.mark.long
def test_without_a_gap_correction_changes_nothing():
  """One update of samples that are the trainer's own, in float32."""
  result = []
  for cap in (0.0, 2.0):
    e = experiment(method="grpo(beta=0.0)", inference__importance_cap=cap)
    rollout = iteration.compile_rollout_fn(e)(state := placement.init_state(e))
    separate = learners.by_learner(rollout)[learners.POLICY]
    moved, *_ = iteration.make_dispatch(
      e, lambda state, timer, separate=separate: separate
    )(state)
    result.append(jax.device_get(moved.params))
  jax.tree.map(
    lambda a, b: np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-6), *result
  )


@pytest.mark.long
class TestLayout:
  """Axes that a config leaves open."""

  def axes(self, model, count, prompts, memory, slices=1, **requested):
    devices = [
      python.SimpleNamespace(slice_index=i * slices // count)
      for i in range(count)
    ]
    model = presets.get(model, dtype="bfloat16")
    result = device_mesh.choose_axes(
      OPEN | requested, devices, model, prompts, memory
    )
    return result["fsdp"], result["tensor"]

  @pytest.mark.parametrize(
    ("model", "count", "prompts", "gib", "slices", "expected"),
    [
      ("qwen3-0.6b", 8, 64, None, 1, (1, 1)),
      # 8.9 GiB are kept: half of it on each of two.
      ("qwen3-0.6b", 16, 64, 15.75, 1, (2, 1)),
      ("qwen3-0.6b", 8, 64, 79, 1, (1, 1)),
      # 122 GiB are kept, and 15.3 are sampled with.
      ("qwen3-8b", 64, 64, 95.74, 1, (4, 1)),
      ("qwen3-8b", 16, 64, 15.75, 1, (4, 4)),
      # As many prompts for each device as any other.
      ("qwen3-8b", 256, 64, 95.74, 1, (1, 4)),
      ("qwen3-8b", 128, 64, 95.74, 2, (2, 2)),
      # It does not fit: the most that there is.
      ("llama3-70b", 16, 64, 15.75, 1, (2, 8)),
    ],
  )
  def test_what_suits(self, model, count, prompts, gib, slices, expected):
    memory = gib and gib * GIB
    assert self.axes(model, count, prompts, memory, slices) == expected

  def test_what_is_asked_stays(self):
    requested = {"fsdp": 8, "tensor": 2}
    assert self.axes("qwen3-8b", 64, 64, GIB, **requested) == (8, 2)
    assert self.axes("qwen3-8b", 64, 64, GIB, data=8) == (1, 1)
    assert self.axes("qwen3-8b", 64, 64, GIB, context=7) == (1, 1)
