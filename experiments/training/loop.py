"""A run: base policy, evaluation, the training loop, evaluation, a table.

A run lives in a workdir and can be killed and started again at any time; what
is done is not done twice. `base/` holds the supervised run it starts from,
which is a run like any other.
"""

from __future__ import annotations

import collections
import time
from collections.abc import Callable

import jax
import ml_collections
from etils import epath

from experiments import report, tasks
from experiments.cli import config_keys, errors, spec
from experiments.evaluation import evaluator, statistics
from experiments.logging import (
  profiler,
  progress,
  provenance,
  run_logger,
  sample_dump,
  writers,
)
from experiments.training import (
  allocator,
  build,
  checkpoint_retention,
  checkpointing,
  host_needs,
  metric_buffer,
  multihost,
  nan_guard,
  preemption,
  rollout_pipeline,
  rollouts,
  workdir_lock,
  workdirs,
)
from experiments.training.experiment import Experiment
from models import checkpoint_reader, storage_paths
from rl import fused_loop, step, types

BASE = "base"
_CODE = "code"  # in a checkpoint's meta: the commit that saved it
Times = dict[str, float]
# One dispatch: state -> (state, metrics of its steps, host times).
Advance = Callable[[step.State], tuple[step.State, step.Metrics, Times]]


def validate(
  config: ml_collections.ConfigDict, workdir: epath.PathLike
) -> Experiment:
  """The experiment, if it can run in this workdir; writes nothing.

  Raises:
    ValueError: a mistake in the config, a workdir of another config, or an
      `init_from` without a checkpoint that fits.
    ImportError: a package that the config asks for is not installed.
  """
  config_keys.check(config)
  for name in config.sinks:
    writers.get(name)
  experiment = build.build(config)
  checkpoint_retention.check(experiment)
  if _has_base(config):
    base = build.build(_base(config))
    if base.model != experiment.plain:
      raise ValueError(f"base.model {base.model} is not {experiment.plain}")
  workdirs.check_config(workdir, config)
  if config.get("init_from"):
    source = epath.Path(config.init_from) / checkpoint_reader.FOLDER
    try:
      checkpoint_reader.check_params(source, experiment.abstract_plain)
    except (ValueError, FileNotFoundError) as error:
      raise ValueError(f"init_from: {error}") from None
  return experiment


def run(
  experiment: Experiment, workdir: epath.PathLike, *, profile: bool = False
) -> None:
  """Runs or resumes an experiment to its last step.

  Several processes run it together; process 0 writes, into a workdir that all
  of them see. Writes `config.json`, `metrics.jsonl`, `tensorboard/`,
  `checkpoints/` and `rollouts/`; an RL run also `base/`, `evaluation_base.json`,
  `evaluation.json` and `report.html`.

  Args:
    experiment: what `validate` found.
    workdir: of the run.
    profile: traces a few dispatches into `profile/` (`experiments.logging.profiler`).

  Raises:
    UsageError: another run holds the workdir (`experiments.training.workdir_lock`).
    Preempted: SIGTERM has come; what was done is saved.
    Stopped: nothing is learned any more (`experiments.training.nan_guard`).
  """
  workdir = epath.Path(workdir)
  workdir.mkdir(parents=True, exist_ok=True)
  with workdir_lock.hold(workdir):
    _run(experiment, workdir, profile)


def _run(experiment: Experiment, workdir: epath.Path, profile: bool) -> None:
  """Runs or resumes an experiment in a workdir that this run holds."""
  config = experiment.config
  workdirs.write_config(workdir, config)
  _write_model(experiment, workdir)
  if _has_base(config):
    run(build.build(_base(config)), workdir / BASE)
  with (
    preemption.Watch() as watch,
    checkpointing.Checkpoints(
      workdir / checkpoint_reader.FOLDER,
      keep=config.keep_checkpoints,
      also=checkpoint_retention.also(config, workdir),
    ) as checkpoints,
  ):
    state = _start(experiment, workdir, checkpoints)
    with run_logger.Logger(
      workdir,
      config.steps,
      sinks=config.sinks,
      resume_step=int(state.step),
      config=config.to_dict(),
    ) as logger:
      _announce(experiment, workdir, int(state.step), logger)
      base = workdir / report.EVALUATIONS["base"]
      if experiment.samples_own and int(state.step) == 0 and _missing(base, 0):
        _evaluate(experiment, state, base, watch)
      trace = profiler.Trace(workdir) if profile else None
      state = _loop(
        experiment, state, workdir, checkpoints, logger, watch, trace
      )
    final = workdir / report.EVALUATIONS["trained"]
    if experiment.samples_own and _missing(final, int(state.step)):
      _evaluate(experiment, state, final, watch)
  if jax.process_index() == 0:
    if experiment.samples_own:
      report.main([str(workdir)])
    print(f"run folder: {workdir}")


def _missing(evaluation: epath.Path, step: int) -> bool:
  """Whether there is no evaluation of that step; the same in every process."""
  there = evaluation.exists() and statistics.load(evaluation).step == step
  return not multihost.agreed(there)


def _has_base(config: ml_collections.ConfigDict) -> bool:
  policy = config.policy
  given = config.get("init_from") or policy.path or policy.preset
  return bool(config.get("base")) and not given


def _base(config: ml_collections.ConfigDict) -> ml_collections.ConfigDict:
  """The config of the base, which trains no adapters."""
  base = config.base.copy_and_resolve_references()
  base.model.lora_rank = 0
  return base


def _start(
  e: Experiment, workdir: epath.Path, checkpoints: checkpointing.Checkpoints
) -> step.State:
  """The state of the latest checkpoint, or that at step 0.

  What is frozen is in no checkpoint: it is read again where it came from.
  """
  target = e.abstract.replace(frozen={})
  try:
    found = checkpoints.restore_newest(target, print)
  except ValueError as error:
    raise errors.RunError(str(error)) from error
  if found is None:
    return e.init(starting_params(e, workdir))
  code = provenance.commit()
  if found[1].get(_CODE, code) != code and jax.process_index() == 0:
    print(f"{workdir}: saved by code {found[1][_CODE]}, goes on with {code}")
  return found[0].replace(frozen=frozen(e, workdir))


def frozen(e: Experiment, workdir: epath.Path) -> types.PyTree:
  """What the experiment of a workdir does not train."""
  if not e.model.lora_rank:
    return {}
  return e.init(starting_params(e, workdir)).frozen


def starting_params(e: Experiment, workdir: epath.Path) -> types.PyTree:
  """Another run's parameters or a folder's; None to start from scratch."""
  origin = _origin(e, workdir)
  if not origin:
    return None
  if origin == e.config.policy.path:
    from models import hf  # imports transformers

    _, params = hf.load(origin, dtype=e.model.param_dtype, mesh=e.mesh)
    return e.fitting(params)
  return checkpoint_reader.restore_params(
    epath.Path(origin) / checkpoint_reader.FOLDER,
    e.abstract_plain,
    workdirs.frozen_step(workdir),
  )


def _origin(e: Experiment, workdir: epath.Path) -> str:
  """The workdir or the folder that a run starts from; "" is scratch."""
  if _has_base(e.config):
    return str(workdir / BASE)
  return e.config.get("init_from") or e.config.policy.path


def _write_model(e: Experiment, workdir: epath.Path) -> None:
  """`model.json`, with paths that hold wherever it is read."""
  path, source = e.config.policy.path, e.config.get("init_from")
  name, settings = spec.parse(e.config.task)
  tokenizer = settings.get("tokenizer") or path
  of_text = "tokenizer" in tasks.settings(name)
  frozen, step = "", None
  if e.model.lora_rank:
    frozen = BASE if _has_base(e.config) else _absolute(source or path)
    if source:  # that run may go on: this base is what it is now
      step = checkpoint_reader.latest_step(
        epath.Path(source) / checkpoint_reader.FOLDER
      )
  workdirs.write_model(
    workdir,
    e.model,
    _absolute(tokenizer),
    frozen,
    step,
    e.task.eos_ids if of_text else (),
  )


def _absolute(path: str) -> str:
  return str(storage_paths.absolute(path)) if path else ""


def _announce(
  e: Experiment, workdir: epath.Path, done: int, logger: run_logger.Logger
) -> None:
  if done >= e.config.steps:
    logger.say(f"{workdir}: complete at step {done}")
  elif done:
    logger.say(f"{workdir}: resumed after step {done} of {e.config.steps}")
  else:
    logger.say(f"{workdir}: {e.config.steps} steps of {e.task.name}")
    for note in e.task.notes:
      logger.say(note)
    for method in e.methods.values():
      logger.say(str(method))


def gatherer(e: Experiment) -> rollouts.HostRolloutFn:
  """`state -> (rollout, times)`, compiled as far as the task allows."""
  gather = _staged(e)
  if (e.config.get("sampler") or {}).get("ahead"):
    gather = rollout_pipeline.Ahead(e, gather)
  else:
    gather = rollout_pipeline.moved(e, gather)
  return host_needs.with_host_needs(e, gather)


def _staged(e: Experiment) -> rollouts.HostRolloutFn:
  """Samples where the sampler's mesh is; or shows what there is to imitate."""
  if e.task.jittable:
    pure = jax.jit(_pure_gatherer(e))
    return lambda state: (pure(state), {})
  prompts, place = e.config.rollout.prompts, e.sampling_sharding
  if not e.samples_own:
    return rollouts.make_host_demonstration_fn(e.task, prompts, place)
  return rollouts.make_host_rollout_fn(
    e.task, e.policy, e.sampling, prompts, place, e.method
  )


def _pure_gatherer(e: Experiment) -> rollouts.RolloutFn:
  prompts, place = e.config.rollout.prompts, e.sampling_sharding
  if e.samples_own:
    return rollouts.make_rollout_fn(
      e.task, e.policy, e.sampling, prompts, place, e.method
    )
  return rollouts.make_demonstration_fn(e.task, prompts, place)


def make_advance(e: Experiment, gather: rollouts.HostRolloutFn) -> Advance:
  """The body of the training loop.

  With `steps_per_dispatch` > 1 sampling, reward and update are one program
  scanned over steps; else they are programs of their own, and a reward that
  runs on the host stands between them.

  Args:
    e: the experiment.
    gather: of `gatherer`; the fused loop samples by itself.
  """
  train_step = step.make(e.methods, e.policy, e.txs, e.plan)
  outputs = (e.shardings, e.replicated)
  if e.config.steps_per_dispatch > 1:
    body = fused_loop.iteration(_pure_gatherer(e), train_step)
    fused = jax.jit(
      fused_loop.scan(body, e.config.steps_per_dispatch),
      donate_argnums=0,
      out_shardings=outputs,
    )
    return lambda state: (*fused(state), {})
  train_step = jax.jit(train_step, donate_argnums=0, out_shardings=outputs)

  def advance(state):
    rollout, times = gather(state)
    times = {**times, rollouts.ROLLOUT_READY: time.perf_counter()}
    return (*train_step(state, rollout), times)

  return advance


def _loop(
  e: Experiment,
  state: step.State,
  workdir: epath.Path,
  checkpoints: checkpointing.Checkpoints,
  logger: run_logger.Logger,
  watch: preemption.Watch,
  trace: profiler.Trace | None,
) -> step.State:
  """Steps until the last; metrics are fetched one dispatch late."""
  config, begun = e.config, int(state.step)
  done, size = begun, config.steps_per_dispatch
  if done >= config.steps:
    return state
  guard = nan_guard.Guard(e.plan, config.stop_after_skips)
  # First, as it starts the clock: the first step's time holds what follows.
  meter = metric_buffer.Meter(e, logger, guard, state)
  gather = gatherer(e)
  seen = _Seen(gather)
  advance = make_advance(e, seen)
  record = sample_dump.recorder(e, gather)
  meta = {_CODE: provenance.commit()}

  def save() -> None:
    # Flushes first: a resumed run must find the metrics of what is saved.
    with meter.between_steps("time/checkpoint_s"):
      logger.flush()
      allocator.trim()  # of what the save before this one and evaluations freed
      checkpoints.save(done, state.replace(frozen={}), meta, force=True)

  try:
    while done < config.steps:
      if done and _due(done, config.evaluate_every):
        with meter.between_steps("time/evaluation_s"):
          logger.log(done, _evaluated(e, state, workdir, watch))
      if _due(done, config.rollouts_every):
        with meter.between_steps("time/samples_s"):
          logger.samples(done, record(state))
      if trace:
        trace.before()
      meter.note_end()
      state, metrics, times = advance(state)
      done += size
      meter.flush(times.get(rollouts.STATE_READY))
      meter.hold(done, metrics, times, state)
      if trace:
        trace.after(metrics)  # waits for them
      if guard.is_near(size):
        meter.flush()
        if guard.reached:
          raise nan_guard.Stopped(done, guard.reached)
      if done >= config.steps or _due(done, config.checkpoint_every):
        save()
      watch.check()
  except preemption.Preempted:
    if done > begun:
      save()
    logger.say(f"{workdir}: told to end, after step {done} of {config.steps}")
    raise
  except nan_guard.Stopped as stopped:
    logger.say(_kept(e, workdir, stopped.number, done, state, seen))
    raise
  if trace:
    trace.close()
    logger.say(f"{workdir / profiler.FOLDER}: {trace.done} dispatches traced")
  return state


class _Seen:
  """Samples, and remembers what the latest two steps learn from."""

  def __init__(self, gather: rollouts.HostRolloutFn) -> None:
    self._gather = gather
    self.latest: collections.deque[step.Rollouts] = collections.deque(maxlen=2)

  def __call__(self, state: step.State) -> tuple[step.Rollouts, Times]:
    rollout, times = self._gather(state)
    self.latest.append(rollout)
    return rollout, times

  def again(self, state: step.State) -> step.Rollouts:
    """What the step of this state learned from, in the fused loop."""
    return self._gather(state)[0]


def _kept(
  e: Experiment,
  workdir: epath.Path,
  number: int,
  done: int,
  state: step.State,
  seen: _Seen,
) -> str:
  """Keeps what step `number` was to learn from; says where, or why not."""
  if e.config.steps_per_dispatch == 1:
    rollout = seen.latest[-1 - (done - number)]
  elif number == done:
    rollout = seen.again(state.replace(step=state.step - 1))
  else:
    return (
      f"{workdir}: the rollout of step {number} is gone, as a dispatch holds "
      "several; go on with --config.steps_per_dispatch=1 to keep it"
    )
  nan_guard.keep(workdir, number, state, rollout)
  return (
    f"{nan_guard.folder(workdir, number)}: what was to be learned from. Look at it: "
    f"python -m experiments.replay --workdir {workdir} --step {number}"
  )


def _evaluated(
  e: Experiment,
  state: step.State,
  workdir: epath.Path,
  watch: preemption.Watch,
) -> dict[str, float]:
  """Means on the held-out problems; of a run that was resumed here, once."""
  done = int(state.step)
  path = workdir / f"evaluation_{done:06d}.json"
  if _missing(path, done):
    found = _evaluate(e, state, path, watch)
  else:
    found = statistics.load(path)
  return {f"evaluation/{k}": v.mean for k, v in found.estimates.items()}


def _due(done: int, every: int) -> bool:
  return bool(every) and done % every == 0


def _evaluate(
  e: Experiment,
  state: step.State,
  path: epath.Path,
  watch: preemption.Watch,
) -> statistics.Evaluation:
  """Samples the held-out problems and writes what came out."""
  params = types.join(state.params, state.frozen)
  update = progress.lines(
    print,
    f"{path.parent}: evaluation at step {int(state.step)}",
    e.config.evaluation.problems,
  )
  found = evaluator.held_out(e, params, int(state.step), watch.check, update)
  if jax.process_index() == 0:
    statistics.save(found, path)
  return found
