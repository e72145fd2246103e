"""Runs the experiment of a config in a workdir, or resumes it there.

  python -m experiments.run --config experiments/configs/smoke.py --workdir DIR
    [--config.steps=200] [--config.method="pass_at_k(k=8)"] ... [--profile]
    [--debug] [--explain] [--nocache] [--base]

In a multihost run (hosts of a TPU slice, nodes of GPUs) every process is
started with the same arguments, with a workdir that all of them see, and with

  --distributed         on TPU slices, Slurm and Kubernetes: JAX asks the
                        cluster for the addresses of the other processes
  --coordinator=HOST:PORT --processes=N --process=I    on other clusters

--profile writes a profiler trace of three dispatches (calls of the compiled
training loop). --debug stops at the first operation that makes a NaN, and names
the line of code; every program runs slower with it. --explain prints how each
array is split over the devices, and runs nothing. --nocache compiles all
programs again; otherwise those of earlier commands are used
(`experiments.cli.devices`). --base runs the supervised base of the config
alone, from which other runs may start.

A mistake in the config or in a flag is reported in one line, with exit status
2, before anything is written; a bug of the code that the config names with the
line of code and status 1, and with --traceback in full. A run that cannot go on
(a full disk, a loss that stays NaN) reports the reason in one line and ends
with status 1. After SIGTERM the run saves a checkpoint and ends with status
143.
"""

from __future__ import annotations

import pathlib
import sys
import time
from collections.abc import Sequence

from absl import flags

from experiments.cli import errors
from experiments.data import pretrained
from experiments.training_run import command_line
from rl import UsageError

_ROOT = pathlib.Path(__file__).resolve().parent.parent


def _check_packages() -> None:
  """Checks that `rl`, `models` and `rewards` belong to this checkout."""
  # Imported in the function, so that an error is reported in one line.
  import models
  import rewards
  import rl

  # Their names are common words, so another package may be imported instead.
  for package in (rl, models, rewards):
    root = pathlib.Path(package.__file__).resolve().parent.parent
    if root != _ROOT:
      raise UsageError(
        f"package {package.__name__!r} comes from {root}, not from {_ROOT}; "
        f"start the command in {_ROOT}, or run `pip install -e .` there"
      )


def _define_flags(values: flags.FlagValues) -> None:
  texts = {
    "workdir": "Folder of the run, local or in a bucket.",
    "coordinator": "Address HOST:PORT of process 0.",
  }
  numbers = {
    "processes": "Number of processes.",
    "process": "Index of this process, from 0.",
  }
  # All are off by default, except `cache`.
  switches = {
    "profile": "Write a profiler trace of three dispatches.",
    "debug": "Stop at the first operation that makes a NaN.",
    "explain": "Print how each array is split over the devices, and run "
    "nothing.",
    "cache": "Keep compiled programs for later commands, and use those of "
    "earlier ones.",
    "base": "Run the supervised base of the config alone, in --workdir.",
    "distributed": "Ask the cluster for the other processes of the run.",
  }
  for name, text in texts.items():
    flags.DEFINE_string(name, None, text, flag_values=values)
  for name, text in numbers.items():
    flags.DEFINE_integer(name, None, text, flag_values=values)
  for name, text in switches.items():
    flags.DEFINE_boolean(name, name == "cache", text, flag_values=values)


@errors.command
def main(argv: Sequence[str]) -> int:
  """Runs the command; returns its exit status, as the module docstring says."""
  started = time.perf_counter()
  if {"--help", "-h"} & set(argv):
    print(__doc__)
    return 0
  options = command_line.parse(
    argv, _define_flags, required=("config", "workdir")
  )
  config, workdir = options.config, options.workdir
  # Only process 0 prints, as far as the flags say which process this is.
  if not options.explain and not options.process:
    source = pretrained.describe(config.policy.path) or "JAX"
    print(f"{workdir}: loading {source} ...")
  _check_packages()
  # Imported here, so that a wrong flag is reported before JAX is loaded.
  import jax

  # Imported here for the same reason.
  from experiments.cli import devices
  from experiments.training import decoder, initial_state, multihost, preemption
  from experiments.training_run import loop, user_code, validate

  if options.base:
    config = initial_state.base_config(config)
  is_multihost = options.distributed or options.coordinator
  # Processes that measured by themselves might differ.
  num_cpu_devices = config.cpu_devices or (1 if is_multihost else 0)
  reason = devices.configure(
    num_cpu_devices,
    keep_programs=options.cache,
    batches=devices.batch_sizes(config),
  )
  multihost.connect_processes(
    options.distributed,
    options.coordinator,
    options.processes,
    options.process,
  )
  multihost.check_same("the config", config.to_json(sort_keys=True))
  multihost.check_same("--workdir", str(workdir))
  files = user_code.source_files(config)
  with errors.doing("checking the run", files):
    experiment = validate.check_and_build(config, workdir)
  if options.explain:
    from experiments.aot.report import explain  # only --explain needs it

    print(explain(experiment))
    return 0
  if jax.process_index() == 0:
    print(
      f"{workdir}: settings: {decoder.describe_forms(experiment.model)}, "
      f"{devices.describe(reason)}, {config.rollout.prompts} prompts x "
      f"{experiment.sampling.samples} samples of up to "
      f"{experiment.sampling.max_tokens} tokens in a step"
    )
  status = 0
  with errors.doing("training", files):
    try:
      with errors.translate_disk_errors(workdir):
        with jax.debug_nans(options.debug):
          loop.run(
            experiment, workdir, profile=options.profile, started=started
          )
        if jax.process_index() == 0 and experiment.is_evaluated:
          from experiments import report  # so that training starts sooner

          status = report.main([str(workdir)])
    except preemption.Preempted:
      return preemption.STATUS
  if jax.process_index() == 0:
    print(f"run folder: {workdir}")
  return status


if __name__ == "__main__":
  sys.exit(main(sys.argv))
