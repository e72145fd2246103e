"""Evaluates a policy on held-out problems: a checkpoint or a downloaded model.

  python -m experiments.evaluate --workdir DIR [--step N] [--problems N]
    [--samples S] [--batch B] [--rows R] [--temperature T] [--seed N]
    [--out FILE.json]

prints the evaluation table of the run's latest checkpoint, or of the checkpoint
at training step `--step`. Flags that are left out have the values of
`evaluation` in the run's config.

  python -m experiments.evaluate --policy FOLDER --task "gsm8k(chat=False)"
    [--problems N] [--samples S] [--batch B] [--rows R] [--temperature T]
    [--seed N] [--max_tokens T] [--dtype bfloat16] [--cpu_devices N]
    [--out FILE.json]

evaluates the model in a local folder with Hugging Face files, or one of
`experiments.pretrained` by its name, on all local devices. A text task uses the
tokenizer in that folder. On a CPU, the first command measures as how many
devices JAX should treat it (`experiments.cli.cpu_devices`). The command writes
no file without `--out`, which names the JSON file of the estimates; the results
of the samples go to a .npz file of the same name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.data import pretrained
from experiments.evaluation import fallback_settings


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: arguments after the name of the command; None reads `sys.argv`.

  Returns:
    The exit status: 0, or 2 for a wrong flag or path, which is reported in one
    line.
  """
  # transformers warns that PyTorch is missing, but tokenizers do not need it.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

  defaults = fallback_settings.DEFAULTS
  options = _parser(defaults).parse_args(argv)
  with errors.usage_errors():
    if options.out and options.out.suffix != ".json":
      raise ValueError(
        f"--out {options.out} must end in .json; for example "
        f"{options.out.with_suffix('.json')}"
      )
    _check_options(options)
    arguments.check_counts(
      options, "problems", "samples", "batch", "max_tokens", "cpu_devices"
    )
    arguments.check_counts(options, "rows", "step", minimum=0)
    if options.seed is not None:
      arguments.check_seed("--seed", options.seed)
    if options.out:
      arguments.check_writable("--out", options.out)
    source = options.workdir or pretrained.describe(options.policy)
    print(f"loading {source} ...")
    # Imported here, so that the line above is printed at once.
    from experiments.evaluation import evaluator, policy_loader, summary
    from experiments.logging import progress

    if options.workdir:
      overrides = _flags_present(options, defaults)
      loaded = policy_loader.load_from_run(
        options.workdir, options.step, overrides
      )
    else:
      names = (*defaults, "max_tokens", "dtype", "cpu_devices")
      overrides = _flags_present(options, names)
      loaded = policy_loader.load_from_folder(
        options.policy, options.task, **overrides
      )
  settings = loaded.settings
  console = rich.console.Console()
  batch = evaluator.batch_size(
    settings["problems"], settings["batch"], loaded.sharding
  )
  console.print(
    f"settings: {loaded.defaults}, {batch} problems x {settings['samples']} "
    f"samples in a batch, up to {settings['max_tokens']} tokens",
    soft_wrap=True,
    highlight=False,
    markup=False,
  )
  with progress.bar_or_lines(
    console, "evaluation", settings["problems"]
  ) as update:
    evaluation = policy_loader.evaluate(loaded, update)
  console.print(
    f"{loaded.name}: {evaluation.task}, {len(evaluation.ids)} problems",
    soft_wrap=True,
  )
  for note in loaded.task.notes:
    console.print(note, soft_wrap=True, markup=False)
  console.print(summary.table({f"step {loaded.step}": evaluation}))
  if options.out:
    summary.save(evaluation, options.out)
    console.print(f"wrote {options.out}", soft_wrap=True)
  return 0


def _flags_present(
  options: argparse.Namespace, names: Iterable[str]
) -> dict[str, Any]:
  """Returns `{name: value}` of those flags that are on the command line."""
  values = {name: getattr(options, name) for name in names}
  return {name: value for name, value in values.items() if value is not None}


def _parser(defaults: Mapping[str, Any]) -> argparse.ArgumentParser:
  """Returns the parser; its help shows `defaults`, those of --policy."""
  parser = argparse.ArgumentParser(
    prog="python -m experiments.evaluate",
    description="Evaluates a checkpoint of a run, or a Hugging Face folder, "
    "on held-out problems.",
  )
  add = parser.add_argument
  add("--workdir", help="folder of the run to evaluate")
  add(
    "--step",
    type=int,
    help="training step of the checkpoint; default: the latest checkpoint",
  )
  add(
    "--policy",
    help="Hugging Face folder to evaluate, instead of a run, or the name of a "
    f"downloaded model: {', '.join(pretrained.MODELS)}",
  )
  add(
    "--task",
    help='task for --policy: a name, or a call such as "countdown(count=4)"',
  )
  add(
    "--max_tokens",
    type=int,
    help="largest number of tokens of a completion, for --policy; default: the "
    "task's limit",
  )
  add(
    "--dtype",
    help="type of the parameters of --policy, such as bfloat16; default: "
    "float32",
  )
  add(
    "--cpu_devices",
    type=int,
    help="number of devices that the host's CPU is split into, for --policy; "
    "default: the number that is fastest on this processor",
  )
  for name, kind, text in (
    ("problems", int, "number of held-out problems"),
    ("samples", int, "number of samples per problem"),
    ("batch", int, "largest number of problems in a batch"),
    ("rows", int, "samples per problem decoded in parallel; 0 decodes all"),
    ("temperature", float, "sampling temperature"),
    ("seed", int, "seed of the samples"),
  ):
    default = (
      f"default: the value in the run's config; for --policy: {defaults[name]}"
    )
    if name == "batch":
      default += f", on a CPU {fallback_settings.CPU_BATCH}"
    add(f"--{name}", type=kind, help=f"{text}; {default}")
  add(
    "--out",
    type=epath.Path,
    help="JSON file to write; the samples go to a .npz file of the same name",
  )
  return parser


def _check_options(options: argparse.Namespace) -> None:
  """Checks that the flags belong to exactly one of --workdir and --policy."""
  arguments.check_source(options)
  if options.policy and not options.task:
    # Imports JAX, which the first line of the command precedes.
    from experiments import tasks

    raise ValueError(
      "--policy needs a --task; available: " + ", ".join(tasks.names())
    )
  if options.workdir:
    for name in ("max_tokens", "dtype", "cpu_devices"):
      if getattr(options, name) is not None:
        raise ValueError(f"--{name} has no effect with --workdir; leave it out")


if __name__ == "__main__":
  sys.exit(main())
