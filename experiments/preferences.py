"""Samples a policy and writes its right and wrong samples as training data.

  python -m experiments.preferences --workdir DIR [--step N] --out FILE
    [--demonstrations FILE] [--right_samples R] [--responses FILE]
    [--solvable FILE] [--least_rate A] [--most_rate B] [--problems N]
    [--samples S] [--temperature T] [--batch P] [--max_tokens M] [--seed N]

The command draws N train problems of the run's task, samples S completions of
each from the run's latest checkpoint, and judges them as the task does. It
writes a line for each problem that has a right and a wrong sample, which
`--config.preferences=FILE` reads:

  {"prompt": "1 1 7 8 = d1 d9", "chosen": "...", "rejected": "..."}

With --demonstrations it also writes the right samples of the problems, at most
R of each problem (one unless set), which `--config.demonstrations=FILE` and the
task `jsonl` read:

  {"prompt": "1 1 7 8 = d1 d9", "solution": "..."}

With --responses it writes every distinct sample with its verdict, on which
`experiments.verify` measures a judge, and from which `experiments.judge_lines`
makes lines to train one:

  {"question": "4 + 3 =", "reference": "...", "response": "...", "label": true}

With --solvable it writes the problems that are neither too easy nor too hard
for the policy, as lines of the task `jsonl` with their fields: those whose
share of right samples is above A and at most B, 0 and 0.5 unless set
(IFDecorator's data flywheel):

  {"prompt": "...", "answer": "...", "pass_rate": 0.25}

A line of preferences has the first right and the first wrong sample of its
problem. Samples that the length limit cut, or whose verdict is unknown, are in
none of these files; a cut sample counts in the pass rate with its verdict.
Nothing is written before all samples are judged. At least one of the files must
be named.

Source: Guo et al. 2025, IFDecorator: Wrapping Instruction Following
Reinforcement Learning with Verifiable Rewards (the window of pass rates).

  python -m experiments.preferences --policy FOLDER --task gsm8k ...

does the same with the model in a local folder with Hugging Face files, or with
one of `experiments.pretrained` by its name.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.data import pretrained
from models import storage_paths

if TYPE_CHECKING:
  from experiments.evaluation import policy_loader

DEFAULT_PROBLEMS, DEFAULT_SAMPLES, DEFAULT_BATCH = 1024, 8, 64


def problems_in_window(
  lines: Sequence[Mapping[str, Any]], least_rate: float, most_rate: float
) -> list[Mapping[str, Any]]:
  """Returns the problems with `least_rate < pass_rate <= most_rate`."""
  return [line for line in lines if least_rate < line["pass_rate"] <= most_rate]


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Returns 0; 2 for a wrong flag or path; or 1 if a file would be empty.
  """
  # transformers warns that PyTorch is missing, but tokenizers do not need it.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  options = _parser().parse_args(argv)
  with errors.usage_errors():
    _check(options)
  source = options.workdir or pretrained.describe(options.policy)
  print(f"loading {source} ...")
  # Imported here, so that the line above is printed at once.
  from experiments.evaluation import training_lines
  from experiments.logging import json_files, progress
  from experiments.training import prng_keys
  from rl.sampling import generation

  with errors.usage_errors():
    loaded = _load_policy(options)
    task = loaded.task
    sampling = generation.Sampling(
      samples=options.samples,
      max_tokens=options.max_tokens or loaded.settings["max_tokens"],
      eos_ids=task.eos_ids,
      pad_id=task.pad_id,
      temperature=options.temperature,
    )
    key = prng_keys.from_seed(options.seed)
    problems = training_lines.distinct_problems(task, key, options.problems)
  count = len(problems.ids)
  console = rich.console.Console(highlight=False)
  console.print(f"{loaded.name}, step {loaded.step}: {task.name}", markup=False)
  with progress.bar_or_lines(console, "samples", count) as update:
    lines = training_lines.collect(
      loaded,
      problems,
      key,
      sampling,
      options.batch,
      update,
      right_samples=options.right_samples,
    )
  console.print(
    f"{count} problems, {sampling.samples} samples of each, "
    f"{lines.accuracy:.1%} right: {len(lines.pairs)} problems with a right and "
    f"a wrong sample, {len(lines.demonstrations)} demonstrations"
  )
  files = [
    (options.out, lines.pairs),
    (options.demonstrations, lines.demonstrations),
    (options.responses, lines.responses),
    (
      options.solvable,
      problems_in_window(lines.problems, options.least_rate, options.most_rate),
    ),
  ]
  for path, content in files:
    if path and not content:
      raise errors.RunError(
        f"there is no line for {path}, so nothing is written; sample more with "
        "--problems and --samples, or another policy"
      )
  for path, content in files:
    if path:
      json_files.write(path, content)
      console.print(
        f"wrote {path}: {len(content)} lines", soft_wrap=True, markup=False
      )
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.preferences",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add("--workdir", help="folder of the run to sample from")
  add(
    "--step",
    type=int,
    help="training step of the checkpoint; default: the latest checkpoint",
  )
  add(
    "--policy",
    help="Hugging Face folder to sample from, instead of a run, or the name of "
    f"a downloaded model: {', '.join(pretrained.MODELS)}",
  )
  add(
    "--task",
    help='task for --policy: a name, or a call such as "countdown(count=4)"',
  )
  add("--out", type=epath.Path, help="JSONL file of preferences to write")
  add(
    "--demonstrations",
    type=epath.Path,
    help="JSONL file of right samples to write",
  )
  add(
    "--responses",
    type=epath.Path,
    help="JSONL file of the distinct samples with their verdicts to write",
  )
  add(
    "--solvable",
    type=epath.Path,
    help="JSONL file of the problems with a pass rate in the window to write",
  )
  add(
    "--least_rate",
    type=float,
    default=0.0,
    help="pass rates are above this one; default: %(default)s",
  )
  add(
    "--most_rate",
    type=float,
    default=0.5,
    help="largest pass rate; default: %(default)s",
  )
  add(
    "--right_samples",
    type=int,
    default=1,
    help="largest number of demonstrations of a problem; default: %(default)s",
  )
  add(
    "--problems",
    type=int,
    default=DEFAULT_PROBLEMS,
    help="number of train problems to draw, of which repeated ones count once; "
    "default: %(default)s",
  )
  add(
    "--samples",
    type=int,
    default=DEFAULT_SAMPLES,
    help="number of completions per problem; default: %(default)s",
  )
  add(
    "--batch",
    type=int,
    default=DEFAULT_BATCH,
    help="largest number of problems that are sampled at a time; default: "
    "%(default)s",
  )
  add(
    "--temperature",
    type=float,
    default=1.0,
    help="sampling temperature; default: %(default)s",
  )
  add(
    "--max_tokens",
    type=int,
    help="largest number of tokens of a completion; default: the limit of the "
    "run's config, or of the task",
  )
  add(
    "--seed",
    type=int,
    default=0,
    help="seed of the problems and the samples; default: 0",
  )
  return parser


def _check(options: argparse.Namespace) -> None:
  """Checks the flags, before anything is loaded."""
  arguments.check_source(options)
  if options.policy and not options.task:
    raise ValueError(
      "--policy needs a --task, which provides the template and the problems"
    )
  arguments.check_counts(
    options, "problems", "batch", "max_tokens", "right_samples"
  )
  arguments.check_counts(options, "samples", minimum=2 if options.out else 1)
  arguments.check_counts(options, "step", minimum=0)
  arguments.check_seed("--seed", options.seed)
  if not options.temperature > 0:
    raise ValueError(
      f"--temperature {options.temperature} must be above 0, so that samples "
      "of a problem differ; 1.0 is usual"
    )
  if not options.least_rate < options.most_rate:
    raise ValueError(
      f"--least_rate {options.least_rate} must be below --most_rate "
      f"{options.most_rate}"
    )
  paths = {
    f"--{name}": path
    for name in ("out", "demonstrations", "responses", "solvable")
    if (path := getattr(options, name))
  }
  if not paths:
    raise ValueError(
      "expected --out (file of preferences), --demonstrations (file of right "
      "samples), --responses (file of all samples), --solvable (file of "
      "problems), or several of them"
    )
  flag_by_file: dict[epath.Path, str] = {}
  for flag, path in paths.items():
    arguments.check_writable(flag, path)
    first = flag_by_file.setdefault(storage_paths.absolute(path), flag)
    if first != flag:
      raise ValueError(
        f"{first} and {flag} are both {path}; name different files"
      )


def _load_policy(options: argparse.Namespace) -> policy_loader.LoadedPolicy:
  """Loads the policy of --workdir or of --policy."""

  if options.workdir:
    return policy_loader.load_from_run(
      options.workdir, options.step, {"batch": options.batch}
    )
  return policy_loader.load_from_folder(
    options.policy,
    options.task,
    max_tokens=options.max_tokens,
    problems=1,  # of the test split, which is not read
    samples=options.samples,
    batch=options.batch,
    temperature=options.temperature,
  )


if __name__ == "__main__":
  sys.exit(main())
