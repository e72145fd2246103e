"""What it gains that the whole loop is one program.

The loop of `countdown.py:max_at_k` from random weights: sampling, reward and
update of a number of steps as one program (`experiments.training.dispatch.make_dispatch`).
Random weights solve nothing, and equal scores train nothing, so a toss of a coin
is paid beside the task's score.

  beside staged   the same steps as two programs each, rollout and update, with
                  nothing between them but the dispatch; on one device, and on
                  as many as the CPU has cores
  on the host     the share of the fused loop's wall time that is not spent
                  waiting for its program. Each dispatch is waited for, its
                  metrics are fetched and written to `metrics.jsonl`, and only
                  then comes the next, so it bounds from above what lies outside
                  compiled code: a run writes while the next dispatch is at
                  work. A call returns before its program is done; if it did
                  not, all of it would be counted.
  seeds           as many side by side as `experiments.studies.multi_seed` puts on the
                  devices, beside as many loops in sequence, each on one device
                  or each on all of them, whichever takes less time

Calls alternate, and a ratio is the median over neighbours. The limits: at most
1.05 of the staged loop's time, 2 % on the host, and 0.7 of the sequence's. Equal
work: from the same state the forms come to the same parameters, to 1e-3 of their
change, in norm.
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

from experiments.cli import devices, errors
from experiments.configs import countdown, defaults
from experiments.logging import run_logger
from experiments.studies import multi_seed
from experiments.studies.benchmark import machine, outcome, timing
from experiments.training import build, dispatch, rollouts
from experiments.training.experiment import Experiment
from models import sharding
from rl import fused_loop, step

SLOWER, ON_HOST, SIDE_BY_SIDE = 1.05, 0.02, 0.7
SAME = 1e-3
# From states to those some steps later; what it is given stays usable.
Loop = Callable[[Sequence[step.State]], list[step.State]]


class Unequal(errors.UsageError):
  """Two forms of a loop that do not do the same work."""


def fused(
  console: rich.console.Console,
  *,
  steps: int = 10,
  rounds: int = 5,
  prompts: int = 32,
  count: int = 8,
) -> outcome.Outcome:
  """The loop as one program: beside staged, on the host, and many seeds.

  Args:
    console: where progress goes.
    steps: of a dispatch, two or more.
    rounds: pairs of neighbours.
    prompts: of a step; 16 samples each.
    count: seeds; a multiple of the devices.

  Returns:
    A row for each claim above. Passed: their limits hold.

  Raises:
    UsageError: the steps, prompts or seeds cannot be placed so.
  """
  with errors.usage_errors():
    devices.configure(machine.cores())
    if count % len(jax.devices()):
      raise ValueError(
        f"count = {count} must be a multiple of {len(jax.devices())} devices"
      )
    if steps < 2:
      raise ValueError(f"steps = {steps} fuses nothing; nearest: 2")
    whole = experiment(steps, prompts)
  shape = f"countdown, {prompts} x {whole.sampling.samples}, {steps} steps"
  rows, alone, start = [], {}, None

  def tell(row: outcome.Row) -> None:
    rows.append(row)
    console.print(f"{row.name}: {row.ours:.3g} {row.unit}", highlight=False)

  for label, mesh in meshes().items():
    fast = whole.on_mesh(mesh)
    slow = experiment(1, prompts).on_mesh(mesh)
    start = fast.init()
    advance = dispatch.make_dispatch(fast, dispatch.compile_rollout_fn(fast))
    one = in_turn(fast, advance, 1)
    many = in_turn(
      slow,
      dispatch.make_dispatch(slow, dispatch.compile_rollout_fn(slow)),
      steps,
    )
    with console.status(f"{label}: fused and staged"):
      took = timed({label: many}, one, [start], rounds)
      check_same(start, one([start])[0], many([start])[0], label)
    tell(_faster(f"fused beside staged, {label}", shape, *took, 1 / SLOWER))
    with console.status(f"{label}: on the host"):
      tell(_hosted(label, shape, host_share(fast, advance, start, rounds)))
    alone[label] = one
  with console.status(f"{count} seeds"):
    starts = [_seeded(start, number) for number in range(count)]
    together = side_by_side(whole, count)
    took = timed(alone, together, starts, rounds)
    check_same(start, together(starts)[0], one(starts[:1])[0], "seed 0")
  name = f"{count} seeds side by side, beside in sequence on {took[0]}"
  tell(_faster(name, shape, *took, 1 / SIDE_BY_SIDE))
  return outcome.of_rows(rows)


def experiment(steps_per_dispatch: int, prompts: int) -> Experiment:
  """Of the config, on all devices."""
  config = countdown.max_at_k()
  config.steps_per_dispatch = config.steps = steps_per_dispatch
  config.rollout.prompts = config.evaluation.batch = prompts
  config.mix = defaults.pay(right="task()", luck="coins(probability=0.1)")
  return build.build(config)


def meshes() -> dict[str, Mesh]:
  """One device, and all of them, by what to call them."""
  every = jax.devices()
  return {
    f"{count} device{'s' * (count > 1)}": sharding.make_mesh(
      devices=every[:count]
    )
    for count in sorted({1, len(every)})
  }


def in_turn(e: Experiment, advance: dispatch.Dispatch, dispatches: int) -> Loop:
  """One state after another through the loop of a run.

  Metrics are fetched one dispatch late, as there.

  Args:
    e: the experiment.
    advance: its loop's body, fused or staged.
    dispatches: for each state.
  """

  def run(states: Sequence[step.State]) -> list[step.State]:
    reached, held = [], {}
    for state in states:
      state = _copy(jax.device_put(state, e.shardings))
      for _ in range(dispatches):
        state, metrics, _ = advance(state)
        jax.device_get(held)
        held = metrics
      reached.append(state)
    jax.device_get(held)
    return reached

  return run


def side_by_side(e: Experiment, count: int) -> Loop:
  """Many states through the fused loop, in groups as `experiments.studies.multi_seed` has.

  Args:
    e: the experiment; a dispatch has its `steps_per_dispatch`.
    count: of the states.
  """
  mesh = Mesh(np.array(jax.devices()), ("seed",))
  place = NamedSharding(mesh, PartitionSpec("seed"))
  prompts = e.config.rollout.prompts
  gather = rollouts.make_rollout_fn(
    e.task, e.policy, e.sampling, prompts, method=e.method
  )
  body = fused_loop.iteration(
    gather, step.make(e.methods, e.policy, e.txs, e.plan)
  )
  scanned = fused_loop.scan(body, e.config.steps_per_dispatch)
  program = jax.jit(fused_loop.over_seeds(scanned, mesh), donate_argnums=0)
  groups = list(multi_seed.SideBySide(e, None, print).groups(range(count)))

  def run(states: Sequence[step.State]) -> list[step.State]:
    reached, held = [], {}
    for group in groups:
      chosen = jax.device_put([states[i] for i in group], mesh.devices.flat[0])
      stacked = jax.tree.map(lambda *leaves: jnp.stack(leaves), *chosen)
      state, metrics = program(jax.device_put(stacked, place))
      jax.device_get(held)
      held = metrics
      reached.append(state)
    jax.device_get(held)
    return [
      jax.tree.map(lambda leaf, i=i: leaf[i], state)
      for group, state in zip(groups, reached, strict=True)
      for i in range(len(group))
    ]

  return run


def timed(
  others: Mapping[str, Loop],
  own: Loop,
  states: Sequence[step.State],
  rounds: int,
) -> tuple[str, timing.Timing]:
  """The fastest of the others, and how it compares with our own.

  Args:
    others: loops by name.
    own: the reference.
    states: where all of them start.
    rounds: pairs of neighbours.

  Returns:
    The name, and its time; `ratio` is to our own.
  """
  found = timing.compare(
    {name: functools.partial(other, states) for name, other in others.items()},
    functools.partial(own, states),
    rounds=rounds,
    budget=float("inf"),
  )
  return min(found.items(), key=lambda one: one[1].ratio)


def host_share(
  e: Experiment,
  advance: dispatch.Dispatch,
  start: step.State,
  dispatches: int,
  clock: Callable[[], float] = time.perf_counter,
) -> float:
  """Share of a fused loop's wall time that is not waiting for its program.

  Args:
    e: the experiment, fused.
    advance: its loop's body.
    start: state that it starts from.
    dispatches: after one that compiles; the median counts.
    clock: gives seconds.
  """
  size = e.config.steps_per_dispatch
  state, _, _ = advance(_copy(jax.device_put(start, e.shardings)))
  shares = []
  with (
    tempfile.TemporaryDirectory() as folder,
    run_logger.Logger(
      folder,
      size * dispatches,
      sinks=(),
      console=rich.console.Console(file=io.StringIO()),
    ) as logger,
  ):
    for number in range(dispatches):
      jax.block_until_ready(state)
      begun = clock()
      state, metrics, _ = advance(state)
      called = clock()
      jax.block_until_ready((state, metrics))
      waited = clock() - called
      metrics = jax.device_get(metrics)
      for i in range(size):
        one = {name: values[i] for name, values in metrics.items()}
        logger.log(number * size + i + 1, one)
      shares.append(1 - waited / (clock() - begun))
  return statistics.median(shares)


def check_same(
  start: step.State, one: step.State, other: step.State, what: str
) -> None:
  """Refuses loops that did not do the same.

  Norms are compared, for Adam divides by the size of a gradient: what rounding
  makes of one that is nearly 0 can be a per mille of the rate.

  Raises:
    Unequal: the parameters differ, with by how much, or never changed.
  """
  params = [jax.device_get(state.params) for state in (start, one, other)]
  change, difference = (
    float(optax.tree.norm(jax.tree.map(np.subtract, *pair)))
    for pair in (params[:2], params[1:])
  )
  if not change > 0 or not difference <= SAME * change:
    raise Unequal(
      f"{what}: parameters that changed by {change:.1e} (norm) differ by "
      f"{difference:.1e}; at most {SAME:g} of the change is allowed"
    )


def _seeded(state: step.State, number: int) -> step.State:
  return state.replace(key=jax.random.fold_in(state.key, number))


def _copy(state: step.State) -> step.State:
  """Loops donate what they are given."""
  return jax.tree.map(jnp.copy, state)


def _faster(
  name: str, shape: str, beside: str, took: timing.Timing, limit: float
) -> outcome.Row:
  return outcome.Row(
    name=name,
    shape=shape,
    unit="s",
    ours=took.seconds / took.ratio,
    peer=took.seconds,
    ratio=took.ratio,
    limit=limit,
    settings={"beside": beside},
  )


def _hosted(label: str, shape: str, share: float) -> outcome.Row:
  return outcome.Row(
    name=f"on the host, {label}",
    shape=shape,
    unit="of wall time",
    ours=share,
    ratio=ON_HOST / share,
    limit=1.0,
  )
