"""Evaluates the policy of a run, or of a Hugging Face folder, on held-out problems.

  python -m experiments.evaluate --workdir DIR [--step N] [--problems N]
    [--samples S] [--batch B] [--rows R] [--temperature T] [--seed N]
    [--out FILE.json]

prints the evaluation table of one checkpoint of a run: the latest, or that of
`--step`. Settings that are not given are those of the run's config.

  python -m experiments.evaluate --policy FOLDER --task "gsm8k(chat=False)"
    [--problems N] [--samples S] [--batch B] [--rows R] [--temperature T]
    [--seed N] [--max_tokens T] [--dtype bfloat16] [--out FILE.json]

evaluates a Hugging Face folder, on all local devices. A text task uses the
folder's tokenizer. The only file that is written is the one of `--out`.
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
  """The command line.

  Args:
    argv: its words; None takes the process's.

  Returns:
    The exit status: 0, or 2 for a mistake, which is said in one line.
  """
  # Tokenizers need no PyTorch; without this, transformers misses it aloud.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

  options = _parser(policies.USUAL).parse_args(argv)
  with errors.usage_errors():
    if options.out and options.out.suffix != ".json":
      raise ValueError(
        f"--out {options.out} must end in .json; nearest: "
        f"{options.out.with_suffix('.json')}"
      )
    _check_words(options)
    arguments.check_counts(
      options, "problems", "samples", "batch", "max_tokens"
    )
    arguments.check_counts(options, "rows", "step", minimum=0)
    if options.seed is not None:
      arguments.check_seed("--seed", options.seed)
    if options.out:
      arguments.check_writable("--out", options.out)
    if options.workdir:
      subject = policies.of_run(
        options.workdir, options.step, _given(options, policies.USUAL)
      )
    else:
      given = _given(options, (*policies.USUAL, "max_tokens", "dtype"))
      subject = policies.of_folder(options.policy, options.task, **given)
  settings = dict(subject.settings)
  console = rich.console.Console()
  with progress.bar_or_lines(
    console, "evaluation", settings["problems"]
  ) as update:
    found = evaluator.evaluate(
      subject.task,
      subject.policy,
      subject.params,
      key=prng_keys.from_seed(settings.pop("seed")),
      step=subject.step,
      sharding=subject.sharding,
      update=update,
      **settings,
    )
  console.print(
    f"{subject.name}: {found.task}, {len(found.ids)} problems", soft_wrap=True
  )
  for note in subject.task.notes:
    console.print(note, soft_wrap=True, markup=False)
  console.print(statistics.table({f"step {subject.step}": found}))
  if options.out:
    statistics.save(found, options.out)
    console.print(f"wrote {options.out}", soft_wrap=True)
  return 0


def _given(options: argparse.Namespace, names: Iterable[str]) -> dict[str, Any]:
  """What was said of these settings."""
  said = {name: getattr(options, name) for name in names}
  return {name: value for name, value in said.items() if value is not None}


def _parser(usual: Mapping[str, Any]) -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.evaluate",
    description="Evaluates a checkpoint of a run, or a Hugging Face folder, "
    "on held-out problems.",
  )
  add = parser.add_argument
  add("--workdir", help="folder of a run")
  add("--step", type=int, help="of the run's checkpoint; default: the latest")
  add("--policy", help="Hugging Face folder of a model")
  add("--task", help='of the policy: a name, or "name(setting=value)"')
  add("--max_tokens", type=int, help="of a completion; default: the task's")
  add("--dtype", help="of the policy; default: float32")
  for name, kind, about in (
    ("problems", int, "how many"),
    ("samples", int, "of each problem"),
    ("batch", int, "problems at a time"),
    ("rows", int, "samples of a problem at a time; 0: all"),
    ("temperature", float, "of sampling"),
    ("seed", int, "of sampling"),
  ):
    default = f"default: {usual[name]}, of a run its config's"
    add(f"--{name}", type=kind, help=f"{about}; {default}")
  add("--out", type=epath.Path, help="a .json file to write")
  return parser


def _check_words(options: argparse.Namespace) -> None:
  """Either a run or a folder, and nothing said of the other."""
  for name in ("workdir", "policy"):
    if getattr(options, name) is not None:
      arguments.check_folder(f"--{name}", getattr(options, name))
  if bool(options.workdir) == bool(options.policy):
    raise ValueError(
      "name either --workdir, a run, or --policy, a Hugging Face folder: one "
      "and not both"
    )
  given, others = "--workdir", ("task", "max_tokens", "dtype")
  if options.policy:
    given, others = "--policy", ("step",)
    if not options.task:
      raise ValueError(
        "--policy needs a --task; available: " + ", ".join(tasks.names())
      )
  for name in others:
    if getattr(options, name) is not None:
      raise ValueError(f"--{name} has no meaning with {given}; leave it out")


if __name__ == "__main__":
  sys.exit(main())
