"""The times in `metrics.jsonl` are those of the step that they are logged with.

The update of each step sleeps for a time of its own, so that a time which is
logged with another step is seen. Tests compare with sleeps that differ by a
factor of six, as the machine may be busy.
"""

import contextlib
import dataclasses
import itertools
import threading
import time
import types

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from helpers import small_run

from experiments.evaluation import evaluator
from experiments.logging import json_files, run_logger
from experiments.training import build, checkpointing, iteration, metric_buffer
from experiments.training_run import loop, sample_dump
from rl import step

pytestmark = pytest.mark.long

SHORT, LONG = 0.2, 1.2
# By step from 0. A warm-up of 2 steps compiles, and is not looked at.
SLEEPS = (SHORT, SHORT, SHORT, LONG, SHORT, SHORT)
WARM = 2
STEPS = len(SLEEPS)
BETWEEN = ("time/checkpoint_s", "time/evaluation_s", "time/samples_s")


@pytest.fixture(autouse=True)
def slow_updates(monkeypatch):
  """The train step sleeps inside its program."""
  make = step.make

  def sleep(number):
    time.sleep(SLEEPS[int(number)])
    return np.asarray(number)

  def make_slow(*args):
    train_step = make(*args)

    def slow_step(state, rollout):
      after, metrics = train_step(state, rollout)
      shape = jax.ShapeDtypeStruct(state.step.shape, state.step.dtype)
      # Nothing but the metrics and the next state waits for the sleep.
      number = jax.pure_callback(sleep, shape, state.step)
      return after.replace(step=number + 1), metrics

    return slow_step

  monkeypatch.setattr(step, "make", make_slow)


class SlowCheckpoints(contextlib.nullcontext):
  """Stands for `checkpointing.Checkpoints`; a save takes 0.3 s."""

  def __init__(self, *args, **kwargs):
    super().__init__(self)

  def restore_newest(self, *args):
    return None

  def save(self, *args, **kwargs):
    time.sleep(0.3)

  def wait(self):
    pass


def run_loop(e, workdir, evaluation_seconds=0.0):
  """Runs an experiment with a fast logger, fast checkpoints and evaluations.

  Returns:
    The lines of `metrics.jsonl` by step, and the seconds from the start of the
    training loop to the flush of the logger after its last step.
  """
  starts, flushes = [], []

  class Logger(run_logger.Logger):
    def flush(self):
      flushes.append(time.perf_counter())
      super().flush()

  class MetricBuffer(metric_buffer.MetricBuffer):
    def __init__(self, e, logger, guard, state, started):
      jax.block_until_ready(state)
      starts.append(time.perf_counter())
      super().__init__(e, logger, guard, state, started)

  def evaluate_once(*args):
    time.sleep(evaluation_seconds)
    return types.SimpleNamespace(metrics={"evaluation/x": 1.0})

  with pytest.MonkeyPatch.context() as patch:
    patch.setattr(run_logger, "Logger", Logger)
    patch.setattr(metric_buffer, "MetricBuffer", MetricBuffer)
    patch.setattr(checkpointing, "Checkpoints", SlowCheckpoints)
    patch.setattr(evaluator, "evaluate_once", evaluate_once)
    patch.setattr(evaluator, "describe_gaps", lambda *_: ())
    # The command began 100 seconds ago.
    loop.run(e, workdir, started=time.perf_counter() - 100.0)
  lines = json_files.read(workdir / "metrics.jsonl")
  by_step = {line["step"]: line for line in lines if "time/step_s" in line}
  return by_step, flushes[-1] - starts[0]


def assert_of_its_own_step(seconds):
  """Compares `seconds`, by step from 1, with the sleeps; the fourth is long."""
  durations = [seconds[i] for i in range(WARM + 1, STEPS + 1)]
  for duration, sleep in zip(durations, SLEEPS[WARM:], strict=True):
    # A tenth of a second: the host may see an end late, and a step is then the
    # shorter for it.
    assert sleep - 0.1 <= duration < sleep + LONG - SHORT, durations


def assert_add_up(lines, wall):
  total = sum(
    line.get(name, 0.0)
    for line in lines.values()
    for name in ("time/step_s", *BETWEEN)
  )
  assert abs(total / wall - 1) < 0.02, (total, wall)


def by_step(lines, name):
  return {number: line[name] for number, line in lines.items()}


def run_behind_a_waiting_program(gather, dispatched):
  """Makes dispatches asynchronous.

  The CPU runs a program in the host's thread if it computes little or calls
  Python, and its arguments are ready. Here a program that computes much comes
  first, so that the arguments of the next one are not ready. That one waits
  until its dispatch has returned, and the programs that need its result wait
  with it.

  Args:
    gather: function that samples.
    dispatched: events of the dispatches, which are set when they have returned.
  """
  numbers = itertools.count()

  def wait(x):
    # In the host's thread it would wait for itself without a limit.
    dispatched[next(numbers)].wait(timeout=0.5)
    return np.asarray(x)

  @jax.jit
  def compute(x):
    return jax.lax.fori_loop(0, 20, lambda _, x: jnp.tanh(x @ x), x)

  @jax.jit
  def delay(rollout, x):
    x = jax.pure_callback(wait, jax.ShapeDtypeStruct(x.shape, x.dtype), x)
    # Scores depend on the result, or XLA would leave all of it out.
    return rollout.replace(scores=rollout.scores + 0.0 * x[0, 0])

  def collect(state, timer):
    rollout = gather(state, timer)
    return delay(rollout, compute(jnp.ones((400, 400))))

  return collect


def run_in_the_hosts_thread(advance):
  """Makes dispatches return when their programs have ended."""

  def advance_and_wait(state, record):
    result = advance(state, record)
    jax.block_until_ready((result.state, result.metrics))
    return result

  return advance_and_wait


@pytest.mark.parametrize("asynchronous", [False, True])
def test_separate_programs(tmp_path, monkeypatch, asynchronous):
  running = []
  dispatched = [threading.Event() for _ in range(STEPS)]
  compile_rollout_fn = iteration.compile_rollout_fn
  make_dispatch = iteration.make_dispatch

  def observed(e, gather):
    advance = make_dispatch(e, gather)
    if not asynchronous:
      advance = run_in_the_hosts_thread(advance)

    def observe(state, record):
      result = advance(state, record)
      running.append(not result[1]["loss/total"].is_ready())
      dispatched[len(running) - 1].set()
      return result

    return observe

  if asynchronous:
    monkeypatch.setattr(
      iteration,
      "compile_rollout_fn",
      lambda *arguments: run_behind_a_waiting_program(
        compile_rollout_fn(*arguments), dispatched
      ),
    )
  monkeypatch.setattr(iteration, "make_dispatch", observed)
  lines, wall = run_loop(small_run.experiment(steps=STEPS), tmp_path)
  # On a busy machine, a dispatch may find its arguments ready.
  assert (sum(running[WARM:]) >= 2) == asynchronous
  assert_of_its_own_step(by_step(lines, "time/step_s"))
  assert_add_up(lines, wall)


def scored_on_the_host(e):
  """The experiment, with its task scored by host code that sleeps."""
  score = e.task.score

  def sleepy(*args):
    time.sleep(SHORT)
    return score(*args)

  task = dataclasses.replace(
    e.task, jittable=False, score=sleepy, judged_spec=e.task.judged_shapes
  )
  return dataclasses.replace(e, task=task)


def test_a_reward_on_the_host(tmp_path):
  lines, wall = run_loop(
    scored_on_the_host(small_run.experiment(steps=STEPS)), tmp_path
  )
  assert_of_its_own_step(by_step(lines, "time/update_s"))
  for number, line in lines.items():
    assert line["time/score_s"] >= SHORT
    parts = [line[f"time/{part}_s"] for part in ("rollout", "score", "update")]
    assert abs(sum(parts) - line["time/step_s"]) < SHORT / 2, number
  assert_add_up(lines, wall)


@pytest.mark.several_devices
def test_a_sampler_a_step_ahead(tmp_path):
  """The rollout of a step is sampled beside the update of the step before."""
  config = small_run.config(
    steps=STEPS, inference__devices=4, inference__ahead=1
  )
  lines, wall = run_loop(scored_on_the_host(build.build(config)), tmp_path)
  assert_of_its_own_step(by_step(lines, "time/update_s"))
  assert_add_up(lines, wall)


def test_several_steps_a_dispatch_share_its_time(tmp_path):
  lines, wall = run_loop(
    small_run.experiment(steps=STEPS, steps_per_dispatch=2), tmp_path
  )
  seconds = by_step(lines, "time/step_s")
  middle = (SHORT + LONG) / 2
  assert seconds[3] == seconds[4] >= middle - 0.1
  assert SHORT - 0.1 <= seconds[5] == seconds[6] < middle
  # The first line, of a dispatch of two steps, has the time since the start.
  starts = [number for number in lines if "time/start_s" in lines[number]]
  assert starts == [1]
  assert lines[1]["time/start_s"] >= 100.0 + 2 * seconds[1]
  assert lines[1]["time/start_s"] < 160.0
  assert_add_up(lines, wall)


def test_work_between_steps_is_no_part_of_a_step(tmp_path, monkeypatch):
  """It is logged with the next line, and all adds up to the wall time."""

  def make_recorder(*args):
    return lambda state, rollout: time.sleep(0.5) or []

  monkeypatch.setattr(sample_dump, "make_recorder", make_recorder)
  e = small_run.experiment(
    steps=STEPS, evaluate_every=4, rollouts_every=4, checkpoint_every=2
  )
  lines, wall = run_loop(e, tmp_path, evaluation_seconds=0.4)
  assert_of_its_own_step(by_step(lines, "time/step_s"))
  logged = {
    (number, name): line[name]
    for number, line in lines.items()
    for name in BETWEEN
    if name in line
  }
  # The sample dump is due before the first step too.
  want = {(1, BETWEEN[2]): 0.5, (3, BETWEEN[0]): 0.3, (5, BETWEEN[0]): 0.3}
  want |= {(5, BETWEEN[1]): 0.4, (5, BETWEEN[2]): 0.5}
  assert logged.keys() == want.keys()
  assert all(want[key] <= logged[key] < want[key] + 0.3 for key in want)
  assert_add_up(lines, wall)


def test_lines_of_every_second_step_keep_the_time_between(tmp_path):
  e = small_run.experiment(steps=STEPS, log_every=2, checkpoint_every=1)
  lines, _ = run_loop(e, tmp_path)
  assert list(lines) == [2, 4, 6]
  assert LONG <= lines[4]["time/step_s"] < LONG + SHORT + 0.6
  saves = [line["time/checkpoint_s"] for line in lines.values()]
  counts = (1, 2, 2)  # before steps 2, 3 and 4, 5 and 6
  for seconds, count in zip(saves, counts, strict=True):
    assert 0.3 * count <= seconds < 0.3 * count + 0.6


def test_the_first_step_does_not_hold_the_time_of_the_second(
  tmp_path, monkeypatch
):
  """The first compiles, and is as long whatever the second takes."""
  make_dispatch = iteration.make_dispatch
  monkeypatch.setattr(
    iteration,
    "make_dispatch",
    lambda *args: run_in_the_hosts_thread(make_dispatch(*args)),
  )
  e = small_run.experiment(steps=2)
  start = time.perf_counter()
  run_loop(e, tmp_path / "warm")
  compiling = time.perf_counter() - start
  monkeypatch.setitem(globals(), "SLEEPS", (SHORT, 3 * LONG))
  lines, _ = run_loop(e, tmp_path / "slow")
  assert SHORT <= lines[1]["time/step_s"] < compiling + LONG
  assert lines[2]["time/step_s"] >= 3 * LONG - 0.1
