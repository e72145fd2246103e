"""The training loop: the function `run` has all phases of a run, in order.

A run lives in its workdir. It can be killed at any time and started again with
the same command: it resumes from the latest checkpoint, and finished work is
not repeated. `experiments/README.md` lists the files of a workdir.
"""

from __future__ import annotations

import collections
import contextlib

from etils import epath

from experiments.evaluation import evaluator, trip_wires
from experiments.logging import profiler, progress, provenance, run_logger
from experiments.training import (
  allocator,
  build,
  cadence,
  checkpoint_retention,
  checkpointing,
  initial_state,
  iteration,
  metric_buffer,
  nan_guard,
  preemption,
  reference_policy,
  workdir_lock,
  workdirs,
)
from experiments.training.experiment import Experiment
from experiments.training_run import method_files, sample_dump
from models import checkpoint_reader


def run(
  experiment: Experiment,
  workdir: epath.PathLike,
  *,
  profile: bool = False,
  started: float | None = None,
) -> None:
  """Runs an experiment to its last step, or resumes it in its workdir.

  In a multihost run every process calls this function with the same arguments
  and a workdir that all of them see. Process 0 writes the files.

  Args:
    experiment: the result of `validate.check_and_build`.
    workdir: folder of the run, local or in a bucket; created if missing.
    profile: whether to write a profiler trace of a few steps.
    started: moment at which the command was started (`time.perf_counter`), from
      which time/start_s counts; None logs no such time.

  Raises:
    UsageError: another run is using the workdir.
    RunError: there are checkpoints and none of them can be read.
    Preempted: SIGTERM arrived. The finished steps are saved.
    Stopped: the NaN guard ended the run. The failed rollout is saved.
  """
  e, config = experiment, experiment.config
  workdir = epath.Path(workdir)
  workdir.mkdir(parents=True, exist_ok=True)
  with contextlib.ExitStack() as exit_stack:
    exit_stack.enter_context(workdir_lock.lock_workdir(workdir))

    # --------------------------------------------------------------------------
    # Describe: the files that describe the run
    # --------------------------------------------------------------------------
    workdirs.write_config(workdir, config)
    workdirs.write_fingerprints(workdir, e.fingerprints)
    initial_state.write_model_file(e, workdir)
    changed = provenance.changed_files(workdir)
    method_files.write(workdir, e)
    checkpoint_metadata = initial_state.metadata()

    # --------------------------------------------------------------------------
    # Restore or initialise
    # --------------------------------------------------------------------------
    if initial_state.has_base(config):
      # The supervised base is a run of its own, in a folder of this workdir.
      base = build.build(initial_state.base_config(config))
      run(base, workdir / initial_state.BASE_FOLDER, started=started)
    preemption_watch = exit_stack.enter_context(preemption.Watch())
    checkpoints = exit_stack.enter_context(
      checkpointing.Checkpoints(
        workdir / checkpoint_reader.FOLDER,
        keep=config.keep_checkpoints,
        also_keep=checkpoint_retention.make_policies(config, workdir),
      )
    )
    state = initial_state.restore_or_initialise(e, workdir, checkpoints)
    initial_step = done = int(state.step)  # finished training steps
    logger = exit_stack.enter_context(
      run_logger.Logger(
        workdir,
        config.steps,
        sinks=config.sinks,
        resume_step=done,
        config=config.to_dict(),
      )
    )
    for line in initial_state.describe_start(e, workdir, done):
      logger.print(line)
    if changed and done:
      logger.print(f"changed since step {done}: {', '.join(changed)}")

    # --------------------------------------------------------------------------
    # Build: the functions of a step, which are compiled when they are first
    # called
    # --------------------------------------------------------------------------
    text_extras = reference_policy.log_probs(
      e, workdir, state, preemption_watch.check
    )
    sample_rollout = iteration.compile_rollout_fn(e, text_extras)
    run_dispatch = iteration.make_dispatch(e, sample_rollout)
    record_samples = sample_dump.make_recorder(e)
    # Metrics are checked one dispatch late, so that the step that failed is one
    # of the latest two.
    recent_rollouts = collections.deque(maxlen=2)

    def evaluate(file: str) -> dict[str, float]:
      check = preemption_watch.check
      evaluation = evaluator.evaluate_once(e, state, workdir / file, check)
      for line in evaluator.describe_gaps(e.task, evaluation):
        logger.print_once(f"evaluation at step {evaluation.step}", line)
      hack_rate = trip_wires.evaluate_once(e, state, workdir, check)
      return {**evaluation.metrics, **hack_rate}

    # --------------------------------------------------------------------------
    # Evaluate the base
    # --------------------------------------------------------------------------
    if e.is_evaluated and done == 0:
      evaluate(workdirs.BASE_EVALUATION_FILE)

    # --------------------------------------------------------------------------
    # Train
    # --------------------------------------------------------------------------
    guard = nan_guard.Guard(e.plan, config.stop_after_skips)
    trace = profiler.Trace(workdir) if profile else None
    heartbeat = exit_stack.enter_context(progress.Heartbeat(logger.print))
    # Starts the clock of the first step, which therefore includes compilation.
    metrics_buffer = metric_buffer.MetricBuffer(
      e, logger, guard, state, started
    )

    def save() -> None:
      # The log is written first, because a run that resumes from the checkpoint
      # needs the metrics of all steps before it.
      with metrics_buffer.between_steps("time/checkpoint_s"):
        logger.flush()
        # Returns memory that evaluations and the previous save have freed.
        allocator.trim()
        saved = state.saved_part()
        checkpoints.save(done, saved, checkpoint_metadata)

    try:
      while done < config.steps:
        # 1. Work that is due before this step.
        if done and cadence.is_due(done, config.evaluate_every):
          with metrics_buffer.between_steps("time/evaluation_s"):
            logger.log(done, evaluate(f"evaluation_{done:06d}.json"))

        # 2. One dispatch: sample, score and update, `steps_per_dispatch` times.
        heartbeat.start(*_describe_work(e, done, initial_step))
        if trace:
          trace.start_dispatch()
        metrics_buffer.note_end()
        record = None
        if cadence.is_due(done, config.rollouts_every):

          def record(state, rollout, done=done):
            logger.write_samples(done, record_samples(state, rollout))

        state, metrics, timer, rollout = run_dispatch(state, record)
        recent_rollouts.append(rollout)
        done += config.steps_per_dispatch

        # 3. Logs the previous dispatch, while the device runs this one.
        metrics_buffer.flush(timer.state_ready)
        metrics_buffer.add(done, metrics, timer, state)
        if trace:
          trace.end_dispatch(metrics)  # waits for the metrics
        if guard.may_stop_within(config.steps_per_dispatch):
          # Waits for this dispatch, since the guard may forbid the next one.
          metrics_buffer.flush()
          if guard.stop_reason:
            raise nan_guard.Stopped(done, guard.stop_reason)

        # 4. Checkpoint and SIGTERM.
        if done >= config.steps or cadence.is_due(
          done, config.checkpoint_every
        ):
          save()
        preemption_watch.check()
    except preemption.Preempted:
      save()  # does nothing if there is a checkpoint of this step
      logger.print(
        f"{workdir}: stopped by SIGTERM after step {done} of {config.steps}"
      )
      raise
    except nan_guard.Stopped as stopped:
      line = nan_guard.save_failed_rollout(
        e, workdir, stopped.step, done, state, recent_rollouts, sample_rollout
      )
      logger.print(line)
      raise
    except Exception as error:
      error.add_note(f"after {done} training steps")
      raise
    heartbeat.stop()
    if trace:
      trace.close()
      logger.print(
        f"{workdir / profiler.FOLDER}: {trace.num_traced} dispatches traced"
      )
    logger.close()

    # --------------------------------------------------------------------------
    # Evaluate the trained policy
    # --------------------------------------------------------------------------
    if e.is_evaluated:
      evaluate(workdirs.EVALUATION_FILE)

    # --------------------------------------------------------------------------
    # Wait for the last checkpoint, which is written in the background
    # --------------------------------------------------------------------------
    checkpoints.wait()


def _describe_work(
  e: Experiment, done: int, initial_step: int
) -> tuple[str, float]:
  """Returns the arguments of `Heartbeat.start` for the next dispatch."""
  # `done` counts the finished training steps, and `initial_step` those that
  # were finished when the command was started.
  step = f"step {done + 1} of {e.config.steps}"
  if done == initial_step:
    return f"{step}: compiling and running", progress.FIRST_SECONDS
  label = f"{step}: running"
  # Metrics of the step before are logged during this one, with the time left.
  if done == initial_step + e.config.steps_per_dispatch:
    return label, progress.FIRST_SECONDS
  return label, progress.MAX_SECONDS
