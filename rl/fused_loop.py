"""The fused loop: sampling, reward and update as one compiled program.

Where the reward is jittable, an *iteration* `state -> (state, metrics)` never
leaves the device. Here it is scanned over steps, and seeds run side by side,
as a batch axis of one program or one to a device.
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
  collect: Callable[[State], types.Rollout],
  train_step: Callable[[State, types.Rollout], tuple[State, Metrics]],
) -> Iteration:
  """One training step that makes its own rollout.

  Args:
    collect: `state -> rollout`, pure and jittable: prompts and randomness are
      functions of `state.key` and `state.step`.
    train_step: of `rl.step.make`.
  """
  return lambda state: train_step(state, collect(state))


def scan(step: Iteration, steps: int) -> Iteration:
  """`steps` iterations in one program; metrics come back `[steps, ...]`."""

  def run(state):
    return jax.lax.scan(lambda s, _: step(s), state, None, length=steps)

  return run


def over_seeds(run: Iteration, mesh: Mesh | None = None) -> Iteration:
  """Independent runs, one per entry of the leading axis of the state.

  Args:
    run: what one seed does.
    mesh: None makes the seeds a batch axis of one program. A mesh with the one
      axis "seed" puts an equal number of seeds on each device, with no
      communication between them; where that is one, it has no batch axis,
      which on a CPU is a fourth faster.

  Returns:
    The same function of stacked states (`jax.vmap` of the init over keys).
  """

  def batched(states):
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
