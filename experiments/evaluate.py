"""Evaluates a checkpoint of a run, or a Hugging Face folder, on held-out problems.

  python -m experiments.evaluate --workdir DIR [--step N] [--problems N]
    [--samples S] [--batch B] [--rows R] [--temperature T] [--seed N]
    [--out FILE.json]

prints the evaluation table of a checkpoint of a run: the latest, or that of
`--step`. Other settings default to those of the run's config.

  python -m experiments.evaluate --policy FOLDER --task "gsm8k(chat=False)"
    [--problems N] [--samples S] [--batch B] [--rows R] [--temperature T]
    [--seed N] [--max_tokens T] [--dtype bfloat16] [--out FILE.json]

evaluates a Hugging Face folder on all local devices. A text task uses the
folder's tokenizer. Nothing is written, except the files of `--out`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import rich.console
from etils import epath

from experiments import tasks
from experiments.cli import arguments, errors
from experiments.evaluation import evaluator, policies, statistics
from experiments.logging import progress
from experiments.training import prng_keys


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Args:
    argv: arguments; None takes those of the process.

  Returns:
    The exit status: 0, or 2 for a mistake, which is printed in one line.
  """
  # transformers warns that PyTorch is missing, but tokenizers do not need it.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

  options = _parser(policies.DEFAULTS).parse_args(argv)
  with errors.usage_errors():
    if options.out and options.out.suffix != ".json":
      raise ValueError(
        f"--out {options.out} must end in .json; nearest: "
        f"{options.out.with_suffix('.json')}"
      )
    _check_options(options)
    arguments.check_counts(
      options, "problems", "samples", "batch", "max_tokens"
    )
    arguments.check_counts(options, "rows", "step", minimum=0)
    if options.seed is not None:
      arguments.check_seed("--seed", options.seed)
    if options.out:
      arguments.check_writable("--out", options.out)
    if options.workdir:
      overrides = _select_given(options, policies.DEFAULTS)
      policy = policies.load_from_run(options.workdir, options.step, overrides)
    else:
      names = (*policies.DEFAULTS, "max_tokens", "dtype")
      overrides = _select_given(options, names)
      policy = policies.load_from_folder(
        options.policy, options.task, **overrides
      )
  settings = dict(policy.settings)
  console = rich.console.Console()
  with progress.bar_or_lines(
    console, "evaluation", settings["problems"]
  ) as update:
    evaluation = evaluator.evaluate(
      policy.task,
      policy.policy,
      policy.params,
      key=prng_keys.from_seed(settings.pop("seed")),
      step=policy.step,
      sharding=policy.sharding,
      update=update,
      **settings,
    )
  console.print(
    f"{policy.name}: {evaluation.task}, {len(evaluation.ids)} problems",
    soft_wrap=True,
  )
  for note in policy.task.notes:
    console.print(note, soft_wrap=True, markup=False)
  console.print(statistics.table({f"step {policy.step}": evaluation}))
  if options.out:
    statistics.save(evaluation, options.out)
    console.print(f"wrote {options.out}", soft_wrap=True)
  return 0


def _select_given(
  options: argparse.Namespace, names: Iterable[str]
) -> dict[str, Any]:
  """Returns the flags of these names that are on the command line."""
  values = {name: getattr(options, name) for name in names}
  return {name: value for name, value in values.items() if value is not None}


def _parser(defaults: Mapping[str, Any]) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.evaluate",
    description="Evaluates a checkpoint of a run, or a Hugging Face folder, "
    "on held-out problems.",
  )
  add = parser.add_argument
  add("--workdir", help="folder of the run to evaluate")
  add(
    "--step", type=int, help="step of the checkpoint; default: the latest one"
  )
  add("--policy", help="Hugging Face folder to evaluate, instead of a run")
  add(
    "--task",
    help='task for --policy: a name, or a call such as "countdown(count=4)"',
  )
  add(
    "--max_tokens",
    type=int,
    help="largest number of tokens of a completion, for --policy; default: that "
    "of the task",
  )
  add(
    "--dtype",
    help="type of the parameters of --policy, such as bfloat16; default: float32",
  )
  for name, kind, text in (
    ("problems", int, "number of held-out problems"),
    ("samples", int, "samples of each problem"),
    ("batch", int, "largest number of problems that are sampled at once"),
    ("rows", int, "samples of a problem that are decoded at once, 0 for all"),
    ("temperature", float, "sampling temperature"),
    ("seed", int, "seed of the samples"),
  ):
    default = f"default: that of the run's config, or {defaults[name]}"
    add(f"--{name}", type=kind, help=f"{text}; {default}")
  add(
    "--out",
    type=epath.Path,
    help="the .json file to write, with the samples in a .npz beside it",
  )
  return parser


def _check_options(options: argparse.Namespace) -> None:
  """Checks that a run or a folder is named, and no flag belongs to the other."""
  for name in ("workdir", "policy"):
    if getattr(options, name) is not None:
      arguments.check_folder(f"--{name}", getattr(options, name))
  if bool(options.workdir) == bool(options.policy):
    raise ValueError(
      "name either --workdir, a run, or --policy, a Hugging Face folder: one "
      "and not both"
    )
  source, flags_of_the_other = "--workdir", ("task", "max_tokens", "dtype")
  if options.policy:
    source, flags_of_the_other = "--policy", ("step",)
    if not options.task:
      raise ValueError(
        "--policy needs a --task; available: " + ", ".join(tasks.names())
      )
  for name in flags_of_the_other:
    if getattr(options, name) is not None:
      raise ValueError(f"--{name} has no meaning with {source}; leave it out")


if __name__ == "__main__":
  sys.exit(main())
