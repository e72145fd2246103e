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
import functools
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.data import pretrained
from experiments.evaluation import fallback_settings
from rl import UsageError


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 2 for a wrong flag or path."""
  defaults = fallback_settings.DEFAULTS
  options = _parser(defaults).parse_args(argv)
  if options.out and options.out.suffix != ".json":
    raise UsageError(
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
  print(f"loading {options.workdir or pretrained.describe(options.policy)} ...")
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
  gaps = evaluator.describe_gaps(loaded.task, evaluation)
  for note in (*loaded.task.notes, *gaps):
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
  parser = arguments.make_parser(
    "evaluate",
    "Evaluates a checkpoint of a run, or a Hugging Face folder, on held-out\n"
    "problems.",
  )
  add = functools.partial(arguments.add, parser)
  arguments.add_source(parser, "evaluate", pretrained.MODELS)
  add(
    "--max_tokens",
    int,
    "largest number of tokens of a completion, for --policy; default: the "
    "task's limit",
  )
  add(
    "--dtype",
    str,
    "type of the parameters of --policy, such as bfloat16; default: float32",
  )
  add(
    "--cpu_devices",
    int,
    "number of devices that the host's CPU is split into, for --policy; "
    "default: the number that is fastest on this processor",
  )
  for name, text in (
    ("problems", "number of held-out problems"),
    ("samples", "number of samples per problem"),
    ("batch", "largest number of problems in a batch"),
    ("rows", "samples per problem decoded in parallel; 0 decodes all"),
    ("temperature", "sampling temperature"),
    ("seed", "seed of the samples"),
  ):
    default = (
      f"default: the value in the run's config; for --policy: {defaults[name]}"
    )
    if name == "batch":
      default += f", on a CPU {fallback_settings.CPU_BATCH}"
    add(f"--{name}", type(defaults[name]), f"{text}; {default}")
  add(
    "--out",
    epath.Path,
    "JSON file to write; the samples go to a .npz file of the same name",
  )
  return parser


def _check_options(options: argparse.Namespace) -> None:
  """Checks that the flags belong to exactly one of --workdir and --policy."""
  arguments.check_source(options)
  if options.policy and not options.task:
    # Imports JAX, which the first line of the command precedes.
    from experiments import tasks

    raise UsageError(
      "--policy needs a --task; available: " + ", ".join(tasks.names())
    )
  if options.workdir:
    for name in ("max_tokens", "dtype", "cpu_devices"):
      if getattr(options, name) is not None:
        raise UsageError(f"--{name} has no effect with --workdir; leave it out")


if __name__ == "__main__":
  sys.exit(main())
