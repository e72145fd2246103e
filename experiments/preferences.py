"""Samples a policy and writes its right and wrong samples as training data.

  python -m experiments.preferences --workdir DIR [--step N] --out FILE
    [--demonstrations FILE] [--problems N] [--samples S] [--temperature T]
    [--batch P] [--max_tokens M] [--seed N]

The command samples S completions of each of N train problems of the run's task
from its latest checkpoint, and judges them as the task does. It writes a line
for each problem that has a right and a wrong sample, which
`--config.preferences=FILE` reads:

  {"prompt": "1 1 7 8 = d1 d9", "chosen": "...", "rejected": "..."}

With --demonstrations it also writes a line for each problem that has a right
sample, which `--config.demonstrations=FILE` and the task `jsonl` read:

  {"prompt": "1 1 7 8 = d1 d9", "solution": "..."}

The first right and the first wrong sample of a problem are taken. Samples that
the length limit cut, or whose verdict is unknown, are left out. Nothing is
written before all samples are judged. --out may be left out if --demonstrations
is used.

  python -m experiments.preferences --policy FOLDER --task gsm8k ...

does the same with the model in a local folder with Hugging Face files.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Iterator, Sequence

import jax
import numpy as np
import rich.console
from etils import epath

from experiments.cli import arguments, errors
from experiments.evaluation import evaluator, policies
from experiments.logging import json_files, progress
from experiments.tasks.task import Problems, Task
from experiments.training import prng_keys
from experiments.training.training_texts import (
  CHOSEN,
  PROMPT,
  REJECTED,
  SOLUTION,
)
from models import storage_paths
from rl.sampling import generation

Line = dict[str, str]
DEFAULT_PROBLEMS, DEFAULT_SAMPLES, DEFAULT_BATCH = 1024, 8, 64


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command.

  Returns 0; 2 for a wrong flag or path; or 1 if a file would be empty.
  """
  # transformers warns that PyTorch is missing, but tokenizers do not need it.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  options = _parser().parse_args(argv)
  with errors.usage_errors():
    _check(options)
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
    problems = distinct_problems(task, key, options.problems)
    count = len(problems.ids)
    batch = evaluator.batch_size(count, options.batch, loaded.sharding)
  console = rich.console.Console(highlight=False)
  console.print(f"{loaded.name}, step {loaded.step}: {task.name}", markup=False)
  pairs: list[Line] = []
  demonstrations: list[Line] = []
  num_right = num_judged = 0
  with progress.bar_or_lines(console, "samples", count) as update:
    for start in range(0, count, batch):
      # In the last batch, copies of the last problem fill up the shape.
      rows = np.minimum(np.arange(start, start + batch), count - 1)
      batch_problems = jax.tree.map(
        lambda leaf, rows=rows: leaf[rows], problems
      )
      samples, judged = evaluator.sample_and_score(
        *(task, loaded.policy, loaded.params, batch_problems, key, sampling),
        loaded.sharding,
      )
      num_valid = min(batch, count - start)
      verdicts = judged["correct"][:num_valid]
      num_right += int((verdicts == 1).sum())
      num_judged += int((verdicts >= 0).sum())
      for right, wrong in select_lines(
        task, batch_problems, jax.device_get(samples), judged, num_valid
      ):
        if right:
          demonstrations.append(right)
        if right and wrong:
          pairs.append(
            {
              PROMPT: right[PROMPT],
              CHOSEN: right[SOLUTION],
              REJECTED: wrong[SOLUTION],
            }
          )
      update(start + num_valid)
  accuracy = num_right / max(num_judged, 1)
  console.print(
    f"{count} problems, {sampling.samples} samples of each, {accuracy:.1%} "
    f"right: {len(pairs)} problems with a right and a wrong sample, "
    f"{len(demonstrations)} with a right one"
  )
  files = [(options.out, pairs), (options.demonstrations, demonstrations)]
  for path, lines in files:
    if path and not lines:
      raise errors.RunError(
        f"there is no line for {path}, so nothing is written; sample more with "
        "--problems and --samples, or another policy"
      )
  for path, lines in files:
    if path:
      json_files.write(path, lines)
      console.print(
        f"wrote {path}: {len(lines)} lines", soft_wrap=True, markup=False
      )
  return 0


def distinct_problems(task: Task, key: jax.Array, count: int) -> Problems:
  """Returns the train problems of step 0, as numpy arrays, each once.

  Args:
    task: the task.
    key: PRNG key that selects the problems.
    count: number of problems that are drawn. A task with fewer train problems
      returns all of them.
  """
  problems = jax.tree.map(np.asarray, task.train(key, 0, count))
  _, first = np.unique(problems.ids, return_index=True)
  rows = np.sort(first)  # in the order in which they were drawn
  return jax.tree.map(lambda leaf: leaf[rows], problems)


def select_lines(
  task: Task,
  problems: Problems,
  samples: generation.Samples,
  judged: dict[str, np.ndarray],
  count: int,
) -> Iterator[tuple[Line | None, Line | None]]:
  """Yields the first right and the first wrong sample of each problem.

  Args:
    task: the task.
    problems: P problems.
    samples: S samples of each, as numpy arrays.
    judged: arrays `[P, S]`, of which "correct" is read.
    count: number of problems that are read, from the first.

  Yields:
    (right, wrong), each a line with a prompt and a solution, or None if there
    is no such sample.
  """
  prompts = task.prompt_texts(problems)
  for i in range(count):
    lines: list[Line | None] = []
    for verdict in (1, 0):
      (candidates,) = np.nonzero(
        (judged["correct"][i] == verdict) & samples.finished[i]
      )
      texts = (
        # Without the end token.
        task.decode(samples.completions[i, s, : samples.lengths[i, s] - 1])
        for s in candidates
      )
      # A blank completion cannot be a line of the file.
      text = next((text for text in texts if text.strip()), None)
      lines.append(
        None if text is None else {PROMPT: prompts[i], SOLUTION: text}
      )
    yield lines[0], lines[1]


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
  add("--policy", help="Hugging Face folder to sample from, instead of a run")
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
    "--problems",
    type=int,
    default=DEFAULT_PROBLEMS,
    help="number of train problems; default: %(default)s",
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
  arguments.check_counts(options, "problems", "batch", "max_tokens")
  arguments.check_counts(options, "samples", minimum=2 if options.out else 1)
  arguments.check_counts(options, "step", minimum=0)
  arguments.check_seed("--seed", options.seed)
  if not options.temperature > 0:
    raise ValueError(
      f"--temperature {options.temperature} must be above 0, so that samples "
      "of a problem differ; 1.0 is usual"
    )
  if not (options.out or options.demonstrations):
    raise ValueError(
      "expected --out (file of preferences), --demonstrations (file of right "
      "samples), or both"
    )
  for name in ("out", "demonstrations"):
    if getattr(options, name):
      arguments.check_writable(f"--{name}", getattr(options, name))
  files = [
    storage_paths.absolute(path)
    for path in (options.out, options.demonstrations)
    if path
  ]
  if len(files) > len(set(files)):
    raise ValueError(
      f"--out and --demonstrations are both {options.out}; name two files"
    )


def _load_policy(options: argparse.Namespace) -> policies.LoadedPolicy:
  """Loads the policy of --workdir or of --policy."""
  if options.workdir:
    return policies.load_from_run(
      options.workdir, options.step, {"batch": options.batch}
    )
  return policies.load_from_folder(
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
