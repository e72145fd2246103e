"""Refuses, before anything is written, what would waste a run or lose data.

  experiment = validate.check_and_build(config, workdir)

This file is the list of the checks, in the order in which they are made: values
of the config (`check_config`), parts of the experiment that cannot be combined
(`check_experiment`), and the workdir with the policy to start from
(`check_workdir`). Each check stands in the module that reads the values. It
raises a UsageError that names the key, its value and the allowed values, where
possible with the nearest one. Other mistakes, such as an unknown name of a
method, are reported by the code that reads the value.
"""

from __future__ import annotations

from collections.abc import Sequence

import jax
import ml_collections
from etils import epath

from experiments.cli import arguments
from experiments.evaluation import evaluator, summary, trip_wires
from experiments.logging import writers
from experiments.training import (
  build,
  cadence,
  checkpoint_retention,
  config_keys,
  decoder,
  device_mesh,
  host_needs,
  initial_state,
  judging,
  method_from_config,
  nan_guard,
  optimizers,
  placement,
  reward_models,
  training_texts,
  workdirs,
)
from experiments.training.experiment import KINDS, Experiment
from rl import UsageError, registry, step
from rl.method import Method
from rl.update_plan import Plan


def check_and_build(
  config: ml_collections.ConfigDict,
  workdir: epath.PathLike | None = None,
  *,
  devices: Sequence[jax.Device] | None = None,
  memory: float | None = None,
) -> Experiment:
  """Builds the experiment of a config after checking it; writes nothing.

  Args:
    config: config of the experiment.
    workdir: folder that the run will use. None omits `check_workdir`.
    devices: devices of the run, which need not exist on this machine; None
      takes all that JAX finds.
    memory: bytes of one device; None asks the device.

  Raises:
    UsageError: a value of the config is not allowed, parts of the experiment
      cannot be combined, or the workdir belongs to another config; or a file
      that the config names does not exist; or a package that the config needs
      is not installed.
  """
  plan, methods = check_config(config)
  all_devices = jax.devices() if devices is None else devices
  decoder.check_attention(config, all_devices[0].platform)
  device_mesh.check(config, all_devices)
  e = build.build(config, devices, memory, plan=plan, methods=methods)
  check_experiment(e)
  if workdir is not None:
    check_workdir(e, workdir)
  return e


def check_config(
  config: ml_collections.ConfigDict,
) -> tuple[Plan, dict[str, Method]]:
  """Checks those values of a config that do not depend on other parts.

  Returns:
    The plan and the methods, which are made to be checked; `build` takes them.
  """
  config_keys.check(config)
  if config.kind not in KINDS:
    raise UsageError(registry.describe_unknown("kind", config.kind, KINDS))
  for name in config.sinks:
    writers.get(name)
  arguments.check_seed("seed", config.seed)
  arguments.check_seed("evaluation.seed", config.evaluation.seed)
  plan = build.make_plan(config)
  build.check_plan(plan, config.rollout.prompts)
  cadence.check(config)
  nan_guard.check(config)
  checkpoint_retention.check(config)
  is_rl = config.kind == "rl"
  methods = method_from_config.make(config)  # refuses wrong hyper-parameters
  if is_rl:
    method_from_config.check(config, methods)
    reward_models.check(config.get("models") or {}, methods)
    judging.check(config.get("judge") or {})
  training_texts.check(config)
  optimizers.check(config, list(methods))
  build.check_task(config)
  return plan, methods


def check_experiment(e: Experiment) -> None:
  """Checks the parts together, and traces the methods on abstract arrays."""
  decoder.check(e.config, e.model, e.task, e.folder)
  placement.check(e)
  # Refuses a dimension that its mesh axis does not divide.
  placement.state_shardings(e)
  step.make(e.methods, e.policy, e.txs, e.plan)  # refuses off-policy updates
  build.check_temperature(e)
  host_needs.check(e)
  decoder.check_value_head(e.model, e.methods)
  build.check_rollout_size(e)
  if e.reward_models:
    reward_models.check_fit(
      e.reward_models,
      e.task,
      e.model.vocab_size,
      placement.abstract_state(e),
      e.abstract_rollout,
    )
  method_from_config.check_step(e)
  if e.config.keep_best:
    names = []
    if e.is_evaluated:
      has_turns = e.task.environment is not None
      names = summary.metric_names(e.config.evaluation.samples, has_turns)
      names = [trip_wires.METRIC, *names] if e.traps else names
    checkpoint_retention.check_best(e, names)
  if e.is_evaluated:
    evaluator.check(e)
    e.task.check()
    trip_wires.check(e)


# ------------------------------------------------------------------------------
# The workdir and the parameters to start from
# ------------------------------------------------------------------------------


def check_workdir(e: Experiment, workdir: epath.PathLike) -> None:
  """Checks the supervised base, the workdir, and `config.init_from`."""
  initial_state.check_base(e, check_and_build)
  workdirs.check_config(workdir, e.config)
  workdirs.check_fingerprints(workdir, e.fingerprints)
  workdirs.check_can_create(workdir)
  initial_state.check_source(e)
