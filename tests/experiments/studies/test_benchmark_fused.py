"""Benchmarks of ours alone: equal work, their arithmetic; no timings."""

import io
import types as python_types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import rich.console

from experiments.cli import errors
from experiments.studies.benchmark import (
  fused,
  memory,
  random_rollout,
  scaling,
  sizes,
)
from experiments.training import dispatch
from models import sharding

pytestmark = pytest.mark.long

CONSOLE = rich.console.Console(file=io.StringIO())


def test_seeds_side_by_side_do_what_each_does_alone():
  full = fused.experiment(2, 8)
  one = full.on_mesh(sharding.make_mesh(devices=jax.devices()[:1]))
  start = one.init()
  starts = [
    start.replace(key=jax.random.fold_in(start.key, number))
    for number in range(8)
  ]
  alone = fused.in_turn(
    one, dispatch.make_dispatch(one, dispatch.compile_rollout_fn(one)), 1
  )
  together = fused.side_by_side(full, 8)(starts)
  for number in (0, 5):
    visited = alone(starts[number : number + 1])[0]
    assert int(visited.step) == int(together[number].step) == 2
    fused.check_same(start, visited, together[number], "a seed")
  assert int(start.step) == 0, "what it starts from is not used up"
  with pytest.raises(errors.UsageError, match="two seeds: parameters that"):
    fused.check_same(start, together[0], together[1], "two seeds")


class Slow:
  """A metric on a device whose program takes so many seconds."""

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
def test_all_but_waiting_is_on_the_host(called, waited, share):
  """A call that returns when its program is done is counted whole."""
  machine = python_types.SimpleNamespace(now=0.0)
  config = python_types.SimpleNamespace(steps_per_dispatch=2)
  e = python_types.SimpleNamespace(
    config=config, shardings=jax.sharding.SingleDeviceSharding(jax.devices()[0])
  )

  def advance(state):
    machine.now += called
    return state, {"loss": Slow(machine, waited)}, {}

  result = fused.host_share(
    e, advance, jnp.zeros(()), 3, clock=lambda: machine.now
  )
  assert result == pytest.approx(share)


def test_fused_refuses_what_it_cannot_place():
  with pytest.raises(errors.UsageError, match="steps = 1 fuses nothing"):
    fused.fused(CONSOLE, steps=1)
  with pytest.raises(errors.UsageError, match="multiple of 8 devices"):
    fused.fused(CONSOLE, count=3)


def test_chunks_of_logits_save_memory_and_change_no_gradient():
  config = sizes.decoder(1, 128, 8192)
  rollout = random_rollout.make(config.vocab_size, 2, 2, 4, 256)
  chunk, full = 16, 2 * 256
  whole_bytes = memory.update_bytes(config, rollout, full)
  logits = 2 * 2 * 256 * config.vocab_size * 4
  assert whole_bytes > logits
  assert memory.update_bytes(config, rollout, chunk) < whole_bytes - logits
  difference = memory.gradient_difference(config, rollout, chunk, full)
  assert 0 < difference < memory.TOLERANCE


def test_a_gradient_that_differs_is_told():
  ones = jnp.ones(3)
  assert memory.relative(ones.at[1].set(0.5), 2 * ones) == pytest.approx(0.75)
  assert memory.relative(ones * 0, ones * 0) == 0
  assert memory.relative(ones.at[0].set(jnp.nan), ones) == np.inf
  with pytest.raises(errors.UsageError, match="nearest: 48"):
    memory.memory(CONSOLE, tokens=50)


def test_shapes_grow_along_one_axis():
  shapes = scaling.grown(128)
  assert len({along[0] for along in shapes.values()}) == 1
  read = {
    "S": lambda shape: shape.samples,
    "T": lambda shape: shape.max_tokens,
    "V": lambda shape: shape.model.vocab_size,
    "layers": lambda shape: shape.model.layers,
  }
  for axis, along in shapes.items():
    for name, value in read.items():
      result = [value(shape) / value(along[0]) for shape in along]
      assert result == ([1, 2, 4] if name == axis else [1, 1, 1]), (axis, name)


@pytest.mark.parametrize("kind", scaling.KINDS)
def test_theory_says_how_costs_grow(kind):
  """Less than linear where something else stays, more where attention grows."""
  _, cost = scaling.KINDS[kind]
  power = {
    axis: scaling.row("", [1, 2, 4], [1, 1, 1], [cost(s) for s in along]).peer
    for axis, along in scaling.grown(256).items()
  }
  assert 0.8 < power["S"] < 1
  assert 0.9 < power["T"] < 1.1
  assert 0.2 < power["V"] < 1
  assert 0.5 < power["layers"] < 1


def test_an_exponent_off_theory_misses_the_limit():
  at, linear = [1, 2, 4], [1.0, 2.0, 4.0]
  assert not scaling.row("as told", at, linear, linear).shortfalls
  off = scaling.row("square", at, [1.0, 4.0, 16.0], linear)
  assert (off.ours, off.peer) == (pytest.approx(2), pytest.approx(1))
  assert off.shortfalls
  near = [n**1.1 for n in at]
  assert not scaling.row("near", at, near, linear).shortfalls


def test_what_is_timed_is_a_whole_decode_and_a_whole_update():
  shape = sizes.Shape(sizes.decoder(1, 128, 64), 8, 2, 4, 3)
  mesh = sharding.make_mesh()
  sampled = scaling.decoding(shape, mesh)()
  assert (np.asarray(sampled.lengths) == 3).all()
  assert sampled.completions.shape == (8, 2, 3)
  state, metrics = scaling.updating(shape, mesh)()
  assert int(state.step) == 1
  assert float(metrics["optim/skipped"]) == 0
