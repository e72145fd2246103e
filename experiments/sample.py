"""Prints completions of prompts, sampled from a checkpoint or a model folder.

  python -m experiments.sample --workdir DIR [--step N]
    [--prompt TEXT [--prompt TEXT ...]] [--talk] [--problems N]
    [--samples S] [--temperature T] [--max_tokens T] [--seed N]

samples from the run's latest checkpoint, or from the checkpoint at training
step `--step`. Without --prompt and --talk the prompts are the first held-out
problems of the task, and each completion is printed with its score. With --talk
the command completes each line of standard input. A text task puts a prompt
into its template; in the other tasks each word of a prompt is the text of one
token: "2 3 4 = d2 d0".

  python -m experiments.sample --policy FOLDER --task "gsm8k(chat=False)" ...

does the same with the model in a local folder with Hugging Face files. The
command writes no files.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Callable, Iterator, Sequence

import jax
import numpy as np
import rich.console

from experiments.cli import arguments, errors
from experiments.evaluation import evaluator, policies
from experiments.tasks.task import Problems, Task
from experiments.training import multihost, prng_keys
from models import sharding
from rl.sampling import generation

DEFAULT_PROBLEMS, DEFAULT_SAMPLES = 4, 2


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 2 for a wrong flag or path."""
  # transformers warns that PyTorch is missing, but tokenizers do not need it.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")

  options = _parser().parse_args(argv)
  with errors.usage_errors():
    arguments.check_counts(options, "problems", "samples", "max_tokens")
    arguments.check_counts(options, "step", minimum=0)
    arguments.check_seed("--seed", options.seed)
    loaded = _load_policy(options)
    task = loaded.task
    problems = [
      make_problem(task, text, i) for i, text in enumerate(options.prompt)
    ]
    if not problems and not options.talk:
      problems = list(_held_out_problems(task, options.problems))
    max_tokens = options.max_tokens
    if max_tokens is None:
      max_tokens = loaded.settings["max_tokens"]
    sampling = generation.Sampling(
      samples=options.samples,
      max_tokens=max_tokens,
      eos_ids=task.eos_ids,
      pad_id=task.pad_id,
      temperature=options.temperature,
    )
  console = rich.console.Console(highlight=False)
  console.print(f"{loaded.name}, step {loaded.step}: {task.name}")
  key = prng_keys.from_seed(options.seed)
  complete = functools.partial(
    _print_completions, loaded, key, sampling, console
  )
  for problem in problems:
    complete(problem)
  if options.talk:
    _complete_lines(task, complete, console)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.sample",
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
  add(
    "--prompt",
    action="append",
    default=[],
    help="prompt to complete; may be repeated",
  )
  add("--talk", action="store_true", help="complete lines of standard input")
  add(
    "--problems",
    type=int,
    default=DEFAULT_PROBLEMS,
    help="number of held-out problems, without --prompt and --talk; default: "
    "%(default)s",
  )
  add(
    "--samples",
    type=int,
    default=DEFAULT_SAMPLES,
    help="number of completions per prompt; default: %(default)s",
  )
  add(
    "--temperature",
    type=float,
    default=1.0,
    help="sampling temperature; 0 takes the most likely token; default: "
    "%(default)s",
  )
  add(
    "--max_tokens",
    type=int,
    help="largest number of tokens of a completion; default: the limit of the "
    "run's config, or of the task",
  )
  add("--seed", type=int, default=0, help="seed of the samples; default: 0")
  return parser


def _load_policy(options: argparse.Namespace) -> policies.LoadedPolicy:
  """Loads the policy of --workdir or of --policy."""
  policies.check_flags(options)
  if options.workdir:
    return policies.load_from_run(options.workdir, options.step, {})
  has_prompts = options.prompt or options.talk
  return policies.load_from_folder(
    options.policy,
    options.task,
    max_tokens=options.max_tokens,
    # `load_from_folder` checks these settings; with prompts of the user the
    # test set is not read further.
    problems=1 if has_prompts else options.problems,
    samples=options.samples,
    batch=jax.device_count(),
    temperature=options.temperature,
  )


def make_problem(task: Task, text: str, number: int = 0) -> Problems:
  """Returns one problem `[1, L]` that has a prompt but no reference answer.

  Args:
    task: task whose template or vocabulary encodes the prompt.
    text: the prompt.
    number: id of the problem, from which its random numbers are derived.

  Raises:
    ValueError: the prompt has no token or more than L = `task.prompt_length`,
      or a word of it is not in the task's vocabulary.
  """
  ids = task.prompt_ids(text)
  if not 0 < len(ids) <= task.prompt_length:
    raise ValueError(
      f"the prompt {text[:40]!r} has {len(ids)} tokens, but prompts of "
      f"{task.name} have 1 to {task.prompt_length}"
    )
  prompts = np.full((1, task.prompt_length), task.pad_id, np.int32)
  mask = np.zeros(prompts.shape, bool)
  # Prompts are padded on the left.
  prompts[0, -len(ids) :], mask[0, -len(ids) :] = ids, True
  return Problems(prompts, mask, ids=np.array([number], np.int32), facts={})


def _held_out_problems(task: Task, count: int) -> Iterator[Problems]:
  """Yields the task's first test problems one by one."""
  problems = jax.tree.map(np.asarray, task.test(count))
  for i in range(count):
    yield jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], problems)


def _complete_lines(
  task: Task,
  complete: Callable[[Problems], None],
  console: rich.console.Console,
) -> None:
  """Calls `complete` for each line of standard input, until the input ends."""
  console.print("Type one prompt per line; Ctrl-D ends the command.")
  for number, line in enumerate(sys.stdin):
    if not line.strip():
      continue
    try:
      problem = make_problem(task, line.strip(), number)
    except ValueError as error:
      console.print(str(error), style="red", markup=False)
      continue
    complete(problem)


def _print_completions(
  loaded: policies.LoadedPolicy,
  key: jax.Array,
  sampling: generation.Sampling,
  console: rich.console.Console,
  problem: Problems,
) -> None:
  """Prints the completions of one problem, with scores if it can be scored."""
  task = loaded.task
  # The prompt axis must be divisible by the number of devices that split it, so
  # the problem is repeated; only the samples of the first copy are printed.
  copies = sharding.num_prompt_shards(loaded.sharding.mesh)
  problems = jax.tree.map(lambda leaf: np.repeat(leaf, copies, 0), problem)
  samples = jax.device_get(
    evaluator.generate(
      loaded.policy,
      loaded.params,
      multihost.place(problems, loaded.sharding),
      key,
      sampling,
    )
  )
  scores = None  # [S]; NaN for a sample that could not be scored
  if problem.facts:  # what the task needs to score; {} for a user's prompt
    judged = task.score(
      problem,
      samples.completions[:1],
      samples.lengths[:1],
      samples.finished[:1],
    )
    scores = np.asarray(judged.scores)[0]
    if judged.scored is not None:
      scores = np.where(np.asarray(judged.scored)[0], scores, np.nan)
  prompt = task.decode(problem.prompts[0][problem.prompt_mask[0]])
  console.print(f"\n{prompt}", style="bold", markup=False, soft_wrap=True)
  for s in range(sampling.samples):
    length = int(samples.lengths[0, s])
    notes = [] if scores is None else [f"score {scores[s]:.3g}"]
    if not samples.finished[0, s]:
      notes.append(f"cut off at {length} tokens")
    completion = task.decode(samples.completions[0, s, :length])
    console.print(f"  {completion}", markup=False, soft_wrap=True)
    if notes:
      console.print(f"  ({', '.join(notes)})", style="dim")


if __name__ == "__main__":
  sys.exit(main())
