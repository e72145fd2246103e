"""Tests of the benchmarks without peers: equal work and arithmetic."""

import io
import types as python_types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console

from experiments.cli import errors
from experiments.studies.benchmark import fused, memory, scaling, sizes
from experiments.training import iteration, placement
from models import sharding

pytestmark = [pytest.mark.long, pytest.mark.several_devices]

CONSOLE = rich.console.Console(file=io.StringIO())


def test_seeds_side_by_side_match_each_seed_alone():
  all_devices = fused.build_experiment(2, 8)
  one_device = all_devices.on_mesh(
    sharding.make_mesh(devices=jax.devices()[:1])
  )
  start = placement.init_state(one_device)
  starts = [
    start.with_carried(key=jax.random.fold_in(start.carried.key, number))
    for number in range(8)
  ]
  loop = fused.loop_one_by_one(
    one_device,
    iteration.make_dispatch(
      one_device, iteration.compile_rollout_fn(one_device)
    ),
    1,
  )
  ends = fused.loop_side_by_side(all_devices, 8)(starts)
  for number in (0, 5):
    end = loop(starts[number : number + 1])[0]
    assert int(end.step) == int(ends[number].step) == 2
    fused.check_same_end(start, end, ends[number], "a seed")
  assert int(start.step) == 0, "what it starts from is not used up"
  with pytest.raises(errors.UsageError, match="two seeds: parameters that"):
    fused.check_same_end(start, ends[0], ends[1], "two seeds")


class Slow:
  """A device metric whose program takes some seconds of the fake clock."""

  def __init__(self, machine, seconds):
    self.machine, self.left = machine, seconds

  def block_until_ready(self):
    self.machine.now += self.left
    self.left = 0.0
    return self

  def __array__(self, *args, **kwargs):
    return np.zeros(2)


@pytest.mark.parametrize(
  ("called", "waited", "share"), [(1.0, 3.0, 0.25), (4.0, 0.0, 1.0)]
)
def test_host_time_is_all_time_except_waiting(
  called, waited, share, monkeypatch
):
  """If a call returns only when its program is done, all of it counts."""
  machine = python_types.SimpleNamespace(now=0.0)
  config = python_types.SimpleNamespace(steps_per_dispatch=2)
  place = jax.sharding.SingleDeviceSharding(jax.devices()[0])
  monkeypatch.setattr(fused.placement, "state_shardings", lambda e: place)
  e = python_types.SimpleNamespace(config=config)

  def advance(state):
    machine.now += called
    return state, {"loss": Slow(machine, waited)}, {}

  share_on_host = fused.host_share(
    e, advance, jnp.zeros(()), 3, clock=lambda: machine.now
  )
  assert share_on_host == pytest.approx(share)


def test_fused_refuses_invalid_steps_and_counts():
  with pytest.raises(errors.UsageError, match="steps = 1 fuses nothing"):
    fused.fused(CONSOLE, steps=1)
  with pytest.raises(errors.UsageError, match="multiple of 8 devices"):
    fused.fused(CONSOLE, count=3)


def test_chunks_of_logits_save_memory_and_change_no_gradient():
  config = sizes.decoder(1, 128, 8192)
  rollout = sizes.random_rollout(config.vocab_size, 2, 2, 4, 512)
  chunk, all_positions = 16, 2 * 512
  all_bytes = memory.update_bytes(config, rollout, all_positions)
  logits = 2 * 2 * 512 * config.vocab_size * 4
  assert all_bytes > logits
  # In chunks, copies of the kernel and of its gradient are in memory instead.
  kernel = config.width * config.vocab_size * 4
  chunk_bytes = memory.update_bytes(config, rollout, chunk)
  assert chunk_bytes < all_bytes - logits + 5 * kernel
  difference = memory.gradient_difference(config, rollout, chunk, all_positions)
  assert 0 < difference < memory.TOLERANCE


def test_the_relative_difference_of_gradients():
  ones = jnp.ones(3)
  assert memory.relative_difference(
    ones.at[1].set(0.5), 2 * ones
  ) == pytest.approx(0.75)
  assert memory.relative_difference(ones * 0, ones * 0) == 0
  assert memory.relative_difference(ones.at[0].set(jnp.nan), ones) == np.inf
  with pytest.raises(errors.UsageError, match="value is 48"):
    memory.memory(CONSOLE, tokens=50)


def test_shapes_grow_along_one_axis():
  shapes = scaling.grow_shapes(128)
  assert len({axis_shapes[0] for axis_shapes in shapes.values()}) == 1
  read = {
    "S": lambda shape: shape.samples,
    "T": lambda shape: shape.max_tokens,
    "V": lambda shape: shape.model.vocab_size,
    "layers": lambda shape: shape.model.layers,
  }
  for axis, axis_shapes in shapes.items():
    for name, value in read.items():
      growth = [value(shape) / value(axis_shapes[0]) for shape in axis_shapes]
      assert growth == ([1, 2, 4] if name == axis else [1, 1, 1]), (axis, name)


@pytest.mark.parametrize("kind", scaling.KINDS)
def test_counted_operations_grow_as_documented(kind):
  """Exponents lie below one if a part of the cost does not grow."""
  _, cost = scaling.KINDS[kind]
  power = {
    axis: scaling.exponent_row(
      "", [1, 2, 4], [1, 1, 1], [scaling.operations(cost, s) for s in along]
    ).peer
    for axis, along in scaling.grow_shapes(256).items()
  }
  assert 0.8 < power["S"] < 1
  assert 0.9 < power["T"] < 1.1
  assert 0.2 < power["V"] < 1
  assert 0.5 < power["layers"] < 1


def test_an_unexpected_exponent_misses_the_limit():
  at, linear = [1, 2, 4], [1.0, 2.0, 4.0]
  assert not scaling.exponent_row("as told", at, linear, linear).shortfalls
  off = scaling.exponent_row("square", at, [1.0, 4.0, 16.0], linear)
  assert (off.ours, off.peer) == (pytest.approx(2), pytest.approx(1))
  assert off.shortfalls
  near = [n**1.1 for n in at]
  assert not scaling.exponent_row("near", at, near, linear).shortfalls


def test_the_timed_calls_are_complete():
  shape = sizes.Shape(sizes.decoder(1, 128, 64), 8, 2, 4, 3)
  mesh = sharding.make_mesh()
  samples = scaling.compile_decode(shape, mesh)()
  assert (np.asarray(samples.lengths) == 3).all()
  assert samples.completions.shape == (8, 2, 3)
  state, metrics = scaling.compile_update(shape, mesh)()
  assert int(state.step) == 1
  assert float(metrics["optim/skipped"]) == 0
