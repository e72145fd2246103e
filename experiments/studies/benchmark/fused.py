"""Measures what it saves to compile the whole training loop as one program.

The loop is that of `countdown.py:max_at_k` with random weights. One dispatch
(`experiments.training.iteration.make_dispatch`) runs several steps, each of
them sampling, reward and update. Random weights solve no problem, and a group
of samples with equal scores has no gradient, so a random number is added to the
score of the task. Three comparisons have a limit each:

  beside staged   Fused: several steps per program. Staged: the same steps with
                  two programs per step, one for the rollout and one for the
                  update, and no work in between. Both are measured on one
                  device and on all devices. The fused loop may take at most
                  1.05 times as long as the staged loop.
  on the host     The share of the fused loop's wall time in which the host does
                  not wait for the program, which may be at most 2 %. Here each
                  dispatch is finished, and its metrics are written, before the
                  next one starts. A training run writes while the next dispatch
                  computes, so this is an upper bound.
  seeds           Several seeds batched over the devices, as in
                  `experiments.studies.multi_seed`, compared with the same seeds
                  one after another, on one device or on all devices, whichever
                  is faster. Batched seeds may take at most 0.7 times as long.

Before a ratio counts, both loops must reach the same parameters from the same
state: the norm of the difference is at most 1e-3 of the norm of the change.
"""

from __future__ import annotations

import functools
import io
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.numpy as jnp
import numpy as np
import optax
import rich.console
from jax.sharding import Mesh, NamedSharding, PartitionSpec

from experiments.cli import cpu_devices, devices
from experiments.configs import countdown
from experiments.logging import run_logger
from experiments.studies import multi_seed
from experiments.studies.benchmark import outcome, timing
from experiments.training import build, iteration, placement, rollouts
from experiments.training.experiment import Experiment
from models import sharding
from rl import UsageError, fused_loop, step, training_state

MAX_TIME_VS_STAGED = 1.05
MAX_HOST_SHARE = 0.02
MAX_TIME_VS_SEQUENCE = 0.7
TOLERANCE = 1e-3  # difference of parameters over their change, in norm
States = Sequence[training_state.State]
# Maps start states to end states, several steps later. The start states stay
# valid: a loop copies them before it donates them.
Loop = Callable[[States], list[training_state.State]]


def fused(
  console: rich.console.Console,
  *,
  steps: int = 10,
  rounds: int = 5,
  prompts: int = 32,
  count: int = 8,
) -> outcome.Outcome:
  """Time of the training loop as one program: fused, host and many seeds.

  Each comparison above has a row. The outcome passes if all limits hold.

  Args:
    console: console for progress.
    steps: steps per dispatch, at least two.
    rounds: number of times that each pair of loops is timed.
    prompts: prompts per step; each has 16 samples.
    count: number of seeds; a multiple of the number of devices.

  Raises:
    UsageError: a setting has no valid value, or the loops differ.
  """
  devices.configure(cpu_devices.num_cores())
  if count % len(jax.devices()):
    raise UsageError(
      f"count = {count} must be a multiple of {len(jax.devices())} devices"
    )
  if steps < 2:
    raise UsageError(f"steps = {steps} fuses nothing; it must be at least 2.")
  unplaced = build_experiment(steps, prompts)
  shape = f"countdown, {prompts} x {unplaced.sampling.samples}, {steps} steps"
  rows, fused_runs = [], {}

  def add_row(row: outcome.Row) -> None:
    rows.append(row)
    console.print(f"{row.name}: {row.ours:.3g} {row.unit}", highlight=False)

  for label, mesh in meshes().items():
    # Both loops make the same steps: the fused loop in one dispatch of `steps`
    # steps, the staged loop in `steps` dispatches of one step.
    e = unplaced.on_mesh(mesh)
    staged = build_experiment(1, prompts).on_mesh(mesh)
    start = placement.init_state(e)
    advance = make_dispatch(e)
    fused_run = fused_runs[label] = loop_one_by_one(e, advance, 1)
    staged_run = loop_one_by_one(staged, make_dispatch(staged), steps)
    with console.status(f"{label}: fused and staged"):
      name, limit = "fused beside staged, ", 1 / MAX_TIME_VS_STAGED
      loops = {label: staged_run}, fused_run
      row = time_row(name, shape, *loops, [start], rounds, limit)
      ends = fused_run([start])[0], staged_run([start])[0]
      check_same_end(start, *ends, label)
      add_row(row)
    with console.status(f"{label}: on the host"):
      share = host_share(e, advance, start, rounds)
      name, unit = f"on the host, {label}", "of wall time"
      ratio = MAX_HOST_SHARE / share
      add_row(outcome.Row(name, shape, unit, share, ratio=ratio, limit=1.0))
  with console.status(f"{count} seeds"):
    key = start.carried.key
    seed_starts = [
      start.with_carried(key=jax.random.fold_in(key, number))
      for number in range(count)
    ]
    batched_run = loop_side_by_side(unplaced, count)
    name = f"{count} seeds side by side, beside in sequence on "
    loops, limit = (fused_runs, batched_run), 1 / MAX_TIME_VS_SEQUENCE
    row = time_row(name, shape, *loops, seed_starts, rounds, limit)
    # `fused_run` is the one on all devices, the last mesh above.
    ends = batched_run(seed_starts)[0], fused_run(seed_starts[:1])[0]
    check_same_end(start, *ends, "seed 0")
    add_row(row)
  return outcome.from_rows(rows)


def build_experiment(
  steps_per_dispatch: int,
  prompts: int,
  devices: Sequence[jax.Device] | None = None,
) -> Experiment:
  """Builds the max@k experiment on Countdown that this benchmark runs.

  A fused program makes `steps_per_dispatch` steps, on `devices` or on all.
  """
  config = countdown.max_at_k()
  config.steps_per_dispatch = config.steps = steps_per_dispatch
  config.rollout.prompts = config.evaluation.batch = prompts
  # The random term makes scores of a group differ, so that gradients are not
  # zero.
  config.reward = "task() + coins(probability=0.1)"
  return build.build(config, devices)


def meshes() -> dict[str, Mesh]:
  """Returns meshes of one device and of all devices, by label."""
  all_devices = jax.devices()
  meshes = {"1 device": sharding.make_mesh(devices=all_devices[:1])}
  if len(all_devices) > 1:
    meshes[f"{len(all_devices)} devices"] = sharding.make_mesh()
  return meshes


def loop_one_by_one(
  e: Experiment, advance: iteration.Dispatch, dispatches: int
) -> Loop:
  """Returns a loop that trains from one state after another.

  For each state it makes a number of dispatches, fused or staged. Metrics are
  fetched one dispatch late, as in the training loop, so that the host does not
  wait for the dispatch that it has just started.
  """

  def run(states: States) -> list[training_state.State]:
    end_states, pending_metrics = [], {}
    for state in states:
      state = _copy(jax.device_put(state, placement.state_shardings(e)))
      for _ in range(dispatches):
        state, metrics, *_ = advance(state)
        jax.device_get(pending_metrics)
        pending_metrics = metrics
      end_states.append(state)
    jax.device_get(pending_metrics)
    return end_states

  return run


def loop_side_by_side(e: Experiment, count: int) -> Loop:
  """Returns a loop that trains from `count` states at once.

  The states are split into groups as in `experiments.studies.multi_seed`, and
  each group is one call of the fused program.
  """
  program, mesh = side_by_side_program(e, jax.devices())
  seed_sharding = NamedSharding(mesh, PartitionSpec("seed"))
  groups = list(multi_seed.SideBySide(e, None, print).groups(range(count)))

  def run(states: States) -> list[training_state.State]:
    group_ends, pending_metrics = [], {}
    for group in groups:
      members = jax.device_put([states[i] for i in group], mesh.devices.flat[0])
      # Each leaf becomes [seeds of the group, ...].
      stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *members)
      state, metrics = program(jax.device_put(stacked, seed_sharding))
      jax.device_get(pending_metrics)
      pending_metrics = metrics
      group_ends.append(state)
    jax.device_get(pending_metrics)
    return [
      jax.tree.map(lambda leaf, i=i: leaf[i], state)
      for group, state in zip(groups, group_ends, strict=True)
      for i in range(len(group))
    ]

  return run


def side_by_side_program(
  e: Experiment, devices: Sequence[jax.Device]
) -> tuple[jax.stages.Wrapped, Mesh]:
  """Returns a jitted function of stacked training states, and their mesh.

  The states are split over the devices.
  """
  mesh = Mesh(np.array(devices), ("seed",))
  prompts = e.config.rollout.prompts
  rollout_fn = rollouts.make_rollout_fn(
    e.task, e.policy, e.sampling, prompts, method=e.method
  )
  train_step = step.make(e.methods, e.policy, e.txs, e.plan)
  fused_step = fused_loop.iteration(rollout_fn, train_step)
  scanned = fused_loop.scan(fused_step, e.config.steps_per_dispatch)
  return jax.jit(fused_loop.over_seeds(scanned, mesh), donate_argnums=0), mesh


def time_row(
  prefix: str,
  shape: str,
  others: Mapping[str, Loop],
  reference: Loop,
  states: States,
  rounds: int,
  limit: float | None,
) -> outcome.Row:
  """Times loops relative to a reference loop; the row is that of the fastest.

  The reference is `ours` of the row, whose name is the prefix and the name of
  the fastest loop. All loops start from the same states.
  """
  timings = timing.compare(
    {name: functools.partial(other, states) for name, other in others.items()},
    functools.partial(reference, states),
    rounds=rounds,
  )
  name, timed = min(timings.items(), key=lambda item: item[1].ratio)
  return outcome.Row(
    prefix + name,
    shape,
    "s",
    # `timed.ratio` is the time of the other loop over that of the reference.
    timed.seconds / timed.ratio,
    peer=timed.seconds,
    ratio=timed.ratio,
    limit=limit,
    settings={"beside": name},
  )


def host_share(
  e: Experiment,
  advance: iteration.Dispatch,
  start: training_state.State,
  dispatches: int,
  clock: Callable[[], float] = time.perf_counter,
) -> float:
  """Returns the median share of wall time in which the host does not wait.

  Each dispatch after the first, which compiles, is timed by `clock`.
  """
  size = e.config.steps_per_dispatch
  start = jax.device_put(start, placement.state_shardings(e))
  state, *_ = advance(_copy(start))
  shares, quiet = [], rich.console.Console(file=io.StringIO())
  with (
    tempfile.TemporaryDirectory() as folder,
    run_logger.Logger(
      folder, size * dispatches, sinks=(), console=quiet
    ) as logger,
  ):
    for number in range(dispatches):
      jax.block_until_ready(state)
      start_time = clock()
      state, metrics, *_ = advance(state)
      dispatched = clock()
      jax.block_until_ready((state, metrics))
      wait_seconds = clock() - dispatched
      metrics = jax.device_get(metrics)
      for i in range(size):
        step_metrics = {name: values[i] for name, values in metrics.items()}
        logger.log(number * size + i + 1, step_metrics)
      shares.append(1 - wait_seconds / (clock() - start_time))
  return statistics.median(shares)


def check_same_end(
  start: training_state.State,
  end: training_state.State,
  other_end: training_state.State,
  label: str,
) -> None:
  """Raises UsageError if two loops reached different parameters, or none moved.

  Norms over all parameters are compared, not single entries. Adam divides by
  the size of a gradient, so rounding of a gradient near zero can move one entry
  by a thousandth of the learning rate.
  """
  params = [jax.device_get(state.params) for state in (start, end, other_end)]
  change, difference = (
    float(optax.tree.norm(jax.tree.map(np.subtract, *pair)))
    for pair in (params[:2], params[1:])
  )
  if not change > 0 or not difference <= TOLERANCE * change:
    raise UsageError(
      f"{label}: parameters that changed by {change:.1e} (norm) differ by "
      f"{difference:.1e}; at most {TOLERANCE:g} of the change is allowed"
    )


def make_dispatch(e: Experiment) -> iteration.Dispatch:
  """Compiles the dispatch of an experiment that samples for itself."""
  return iteration.make_dispatch(e, iteration.compile_rollout_fn(e))


def _copy(state: training_state.State) -> training_state.State:
  """Copies a state, because loops donate their argument."""
  return jax.tree.map(jnp.copy, state)
