"""Prints completions of prompts, sampled from a checkpoint or a model folder.

  python -m experiments.sample --policy smollm2 --prompt "Name three rivers."
  python -m experiments.sample --policy smollm2 --talk

ask the model in a local folder with Hugging Face files, or one of
`experiments.pretrained` by its name. A prompt is the user's turn in the chat
template of the folder; without a template it is a text to be continued.

--talk reads prompts from standard input, line by line. With a chat template the
lines are one conversation: the model sees all earlier turns, or without the
oldest once they are too long. An empty line, or /new, starts a new
conversation. Without a template each line is a prompt by itself.

  python -m experiments.sample --workdir DIR [--step N]
    [--prompt TEXT [--prompt TEXT ...]] [--talk] [--problems N]
    [--samples S] [--temperature T] [--top_p P] [--max_tokens T] [--seed N]

samples from the run's latest checkpoint, or from the checkpoint at training
step `--step`. Without --prompt and --talk the prompts are the first held-out
problems of the task, and each completion is printed with its score. A text task
puts a prompt into its template; in the other tasks each word of a prompt is the
text of one token: "2 3 4 = d2 d0".

  python -m experiments.sample --policy FOLDER --task "gsm8k(chat=False)" ...

does the same with the model in a folder. The command writes no files.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import rich.console

from experiments.cli import arguments, errors
from experiments.data import pretrained
from rl import UsageError

if TYPE_CHECKING:
  from experiments.evaluation import policy_loader
  from rl.sampling import generation

DEFAULT_PROBLEMS, DEFAULT_SAMPLES = 4, 2
# Sampling for prompts that belong to no task, and in a conversation: one answer
# from the more likely tokens.
CHAT_SAMPLES, CHAT_TEMPERATURE, CHAT_TOP_P = 1, 0.7, 0.9


@errors.command
def main(argv: Sequence[str] | None = None) -> int:
  """Runs the command; returns 0, or 2 for a wrong flag or path."""
  options = _parser().parse_args(argv)
  console = rich.console.Console(highlight=False)
  arguments.check_counts(options, "problems", "samples", "max_tokens")
  arguments.check_counts(options, "step", minimum=0)
  arguments.check_seed("--seed", options.seed)
  arguments.check_source(options)
  has_prompts = options.prompt or options.talk
  if _has_no_task(options) and not has_prompts:
    raise UsageError(
      "--policy needs a --prompt TEXT, --talk, or a --task, whose problems "
      "are then the prompts"
    )
  print(f"loading {options.workdir or pretrained.describe(options.policy)} ...")
  # Imported here, so that the line above is printed at once.
  from experiments.evaluation import policy_loader, talk, user_prompts
  from experiments.logging import progress
  from experiments.training import prng_keys

  if options.workdir:
    # One prompt is sampled at a time, so several CPU devices would only
    # repeat it.
    loaded = policy_loader.load_from_run(
      options.workdir, options.step, {}, cpu_devices=1
    )
  else:
    loaded = policy_loader.load_from_folder(
      options.policy,
      options.task or "",
      max_tokens=options.max_tokens,
      cpu_devices=1,
      # With prompts of the user the test set is not read further.
      problems=1 if has_prompts else options.problems,
    )
  task = loaded.task
  problems = [
    user_prompts.make_problem(task, task.prompt_ids(text), i)
    for i, text in enumerate(options.prompt)
  ]
  if not problems and not options.talk:
    problems = list(user_prompts.held_out_problems(task, options.problems))
  sampling = _make_sampling(options, loaded)
  if options.talk and task.encode_turns and sampling.samples > 1:
    raise UsageError(
      f"--samples {sampling.samples}: a turn of a conversation has one "
      "answer; leave --samples out"
    )
  console.print(f"{loaded.name}, step {loaded.step}: {task.name}", markup=False)
  console.print(
    f"settings: {loaded.defaults}, samples {sampling.samples}, max_tokens "
    f"{sampling.max_tokens}, temperature {sampling.temperature:g}, top_p "
    f"{sampling.top_p:g}",
    soft_wrap=True,
    markup=False,
  )
  key = prng_keys.from_seed(options.seed)

  def report(line: str) -> None:
    console.print(line, style="dim", markup=False, soft_wrap=True)

  with progress.Heartbeat(report) as heartbeat:
    complete = talk.Printer(loaded, key, sampling, console, heartbeat)
    for i, problem in enumerate(problems):
      # Without a task the template around a prompt is of no interest.
      complete(problem, options.prompt[i] if _has_no_task(options) else None)
    try:
      if options.talk and task.encode_turns:
        talk.converse(complete)
      elif options.talk:
        talk.complete_lines(complete)
    except KeyboardInterrupt:  # ends the conversation, as the end of input does
      print()
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = arguments.make_parser("sample", __doc__)
  add = functools.partial(arguments.add, parser)
  no_task = "; default: none, the prompts are yours"
  arguments.add_source(parser, "sample from", pretrained.MODELS, no_task)
  parser.add_argument(
    "--prompt",
    action="append",
    default=[],
    help="prompt to complete; may be repeated",
  )
  parser.add_argument(
    "--talk",
    action="store_true",
    help="answer lines of standard input; a conversation where the tokenizer "
    "has a chat template",
  )
  add(
    "--problems",
    DEFAULT_PROBLEMS,
    "number of held-out problems, without --prompt and --talk; default: "
    "%(default)s",
  )
  chat = "in a conversation or without a task"
  add(
    "--samples",
    int,
    f"number of completions per prompt; default: {DEFAULT_SAMPLES}; "
    f"{CHAT_SAMPLES} {chat}",
  )
  add(
    "--temperature",
    float,
    "sampling temperature; 0 takes the most likely token; default: 1; "
    f"{CHAT_TEMPERATURE} {chat}",
  )
  add(
    "--top_p",
    float,
    "sample from the most likely tokens whose probabilities sum to this value; "
    f"default: 1; {CHAT_TOP_P} {chat}",
  )
  add(
    "--max_tokens",
    int,
    "largest number of tokens of a completion; default: the limit of the run's "
    "config, or of the task",
  )
  add("--seed", 0, "seed of the samples; default: 0")
  return parser


def _has_no_task(options: argparse.Namespace) -> bool:
  """Returns whether the prompts are a user's own, without a task's template."""
  return bool(options.policy) and not options.task


def _make_sampling(
  options: argparse.Namespace, loaded: policy_loader.LoadedPolicy
) -> generation.Sampling:
  """Returns the settings of sampling; flags take precedence."""
  task = loaded.task
  defaults = (DEFAULT_SAMPLES, 1.0, 1.0)
  if (options.talk and task.encode_turns) or _has_no_task(options):
    defaults = (CHAT_SAMPLES, CHAT_TEMPERATURE, CHAT_TOP_P)
  flags = (options.samples, options.temperature, options.top_p)
  samples, temperature, top_p = (
    default if flag is None else flag
    for flag, default in zip(flags, defaults, strict=True)
  )
  max_tokens = options.max_tokens or loaded.settings["max_tokens"]
  return task.sampling(
    samples, max_tokens, temperature=temperature, top_p=top_p
  )


if __name__ == "__main__":
  sys.exit(main())
