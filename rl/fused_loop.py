"""The fused loop: sampling, scoring and update in one compiled program.

If the scores of the task are jittable, an *iteration* `state -> (state,
metrics)` never leaves the device. `scan` runs several iterations in one
program, and `over_seeds` runs several seeds at the same time, as a batch axis
or with some seeds on each device.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

import jax
from jax.sharding import Mesh, PartitionSpec

from rl import types
from rl.step import Metrics, State

Array = jax.Array
Iteration = Callable[[State], tuple[State, Metrics]]
S = TypeVar("S")


def iteration(
  rollout_fn: Callable[[State], types.Rollout],
  train_step: Callable[[State, types.Rollout], tuple[State, Metrics]],
) -> Iteration:
  """Builds a training step that also makes its rollout.

  Args:
    rollout_fn: `state -> rollout`, pure and jittable. Prompts and random
      numbers are functions of `state.key` and `state.step`.
    train_step: result of `rl.step.make`.
  """
  return lambda state: train_step(state, rollout_fn(state))


def scan(step: Iteration, steps: int) -> Iteration:
  """Runs `steps` iterations in one program; metrics are `[steps, ...]`."""

  def run(state):
    return jax.lax.scan(lambda s, _: step(s), state, None, length=steps)

  return run


def over_seeds(run: Iteration, mesh: Mesh | None = None) -> Iteration:
  """Runs independent seeds, one per entry of the leading axis of the state.

  Args:
    run: the function of the state of one seed.
    mesh: mesh with the single axis "seed", which puts an equal number of seeds
      on each device, without communication between devices. None makes the
      seeds a batch axis of one program.

  Returns:
    The same function of stacked states, such as `jax.vmap` of an init function
    over keys.
  """

  def batched(states):
    # One seed per device has no batch axis: on a CPU that is a fourth faster.
    if jax.tree.leaves(states)[0].shape[0] > 1:
      return jax.vmap(run)(states)
    return jax.tree.map(
      lambda x: x[None], run(jax.tree.map(lambda x: x[0], states))
    )

  if mesh is None:
    return batched
  spec = PartitionSpec("seed")
  return jax.shard_map(
    batched, mesh=mesh, in_specs=spec, out_specs=spec, check_vma=False
  )
