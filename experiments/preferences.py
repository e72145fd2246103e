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
import functools
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.data import pretrained
from models import storage_paths
from rl import UsageError


def problems_in_window(
  lines: Sequence[Mapping[str, Any]], least_rate: float, most_rate: float
) -> list[Mapping[str, Any]]:
  """Returns the problems with `least_rate < pass_rate <= most_rate`."""
  return [line for line in lines if least_rate < line["pass_rate"] <= most_rate]


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, 1 for an empty file, or 2 for a wrong flag."""
  options = _parser().parse_args(argv)
  _check(options)
  print(f"loading {options.workdir or pretrained.describe(options.policy)} ...")
  # Imported here, so that the line above is printed at once.
  from experiments.evaluation import policy_loader, training_lines
  from experiments.logging import json_files, progress
  from experiments.training import prng_keys

  if options.workdir:
    loaded = policy_loader.load_from_run(
      options.workdir, options.step, {"batch": options.batch}
    )
  else:
    loaded = policy_loader.load_from_folder(
      options.policy,
      options.task,
      max_tokens=options.max_tokens,
      problems=1,  # of the test split, which is not read
      samples=options.samples,
      batch=options.batch,
      temperature=options.temperature,
    )
  task = loaded.task
  sampling = task.sampling(
    *(options.samples, options.max_tokens or loaded.settings["max_tokens"]),
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
  solvable = problems_in_window(
    lines.problems, options.least_rate, options.most_rate
  )
  files = [
    (options.out, lines.pairs),
    (options.demonstrations, lines.demonstrations),
    (options.responses, lines.responses),
    (options.solvable, solvable),
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
  parser = arguments.make_parser("preferences", __doc__)
  add = functools.partial(arguments.add, parser)
  arguments.add_source(parser, "sample from", pretrained.MODELS)
  for flag, content in (
    ("--out", "preferences"),
    ("--demonstrations", "right samples"),
    ("--responses", "the distinct samples with their verdicts"),
    ("--solvable", "the problems with a pass rate in the window"),
  ):
    add(flag, epath.Path, f"JSONL file of {content} to write")
  default = "default: %(default)s"
  add("--least_rate", 0.0, f"pass rates are above this one; {default}")
  add("--most_rate", 0.5, f"largest pass rate; {default}")
  add(
    "--right_samples",
    1,
    f"largest number of demonstrations of a problem; {default}",
  )
  add(
    "--problems",
    1024,
    "number of train problems to draw, of which repeated ones count once; "
    f"{default}",
  )
  add("--samples", 8, f"number of completions per problem; {default}")
  add(
    "--batch",
    64,
    f"largest number of problems that are sampled at a time; {default}",
  )
  add("--temperature", 1.0, f"sampling temperature; {default}")
  add(
    "--max_tokens",
    int,
    "largest number of tokens of a completion; default: the limit of the run's "
    "config, or of the task",
  )
  add("--seed", 0, "seed of the problems and the samples; default: 0")
  return parser


def _check(options: argparse.Namespace) -> None:
  """Checks the flags, before anything is loaded."""
  arguments.check_source(options)
  if options.policy and not options.task:
    raise UsageError(
      "--policy needs a --task, which provides the template and the problems"
    )
  arguments.check_counts(
    options, "problems", "batch", "max_tokens", "right_samples"
  )
  arguments.check_counts(options, "samples", minimum=2 if options.out else 1)
  arguments.check_counts(options, "step", minimum=0)
  arguments.check_seed("--seed", options.seed)
  if not options.temperature > 0:
    raise UsageError(
      f"--temperature {options.temperature} must be above 0, so that samples "
      "of a problem differ; 1.0 is usual"
    )
  if not options.least_rate < options.most_rate:
    raise UsageError(
      f"--least_rate {options.least_rate} must be below --most_rate "
      f"{options.most_rate}"
    )
  paths = {
    f"--{name}": path
    for name in ("out", "demonstrations", "responses", "solvable")
    if (path := getattr(options, name))
  }
  if not paths:
    raise UsageError(
      "expected --out (file of preferences), --demonstrations (file of right "
      "samples), --responses (file of all samples), --solvable (file of "
      "problems), or several of them"
    )
  flag_by_file: dict[epath.Path, str] = {}
  for flag, path in paths.items():
    arguments.check_writable(flag, path)
    first = flag_by_file.setdefault(storage_paths.absolute(path), flag)
    if first != flag:
      raise UsageError(
        f"{first} and {flag} are both {path}; name different files"
      )


if __name__ == "__main__":
  sys.exit(main())
