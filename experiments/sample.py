"""Talks to the policy of a run, or of a Hugging Face folder.

  python -m experiments.sample --workdir DIR [--step N]
    [--prompt TEXT [--prompt TEXT ...]] [--talk] [--problems N]
    [--samples S] [--temperature T] [--max_tokens T] [--seed N]

Without a prompt it is asked the first held-out problems, whose completions are
scored. With --talk it answers each line of standard input. Of a task of text a
prompt is put into the task's template; in the others each word is a token:
"2 3 4 = d2 d0".

  python -m experiments.sample --policy FOLDER --task "gsm8k(chat=False)" ...

does so with a folder. Nothing is written.
"""

from __future__ import annotations

import argparse
import functools
import os
import sys
from collections.abc import Iterator, Sequence

import jax
import numpy as np
import rich.console

from experiments.cli import arguments, errors
from experiments.evaluation import evaluator
from experiments.tasks.task import Problems, Task
from experiments.training import multihost, prng_keys
from models import sharding as shardings
from rl import choices
from rl.sampling import generation

PROBLEMS, SAMPLES = 4, 2


@errors.one_line_errors
def main(argv: Sequence[str] | None = None) -> int:
  """The command line; its exit status."""
  # Tokenizers need no PyTorch; without this, transformers misses it aloud.
  os.environ.setdefault("TRANSFORMERS_NO_ADVISORY_WARNINGS", "1")
  from experiments.evaluation import policies

  given = _parser().parse_args(argv)
  with errors.usage_errors():
    arguments.check_counts(given, "problems", "samples", "max_tokens")
    arguments.check_counts(given, "step", minimum=0)
    arguments.check_seed("--seed", given.seed)
    subject = _subject(policies, given)
    task = subject.task
    asked = [problem(task, text, i) for i, text in enumerate(given.prompt)]
    if not asked and not given.talk:
      asked = list(_held_out(task, given.problems))
    settings = generation.Sampling(
      samples=given.samples,
      max_tokens=(
        subject.settings["max_tokens"]
        if given.max_tokens is None
        else given.max_tokens
      ),
      eos_ids=task.eos_ids,
      pad_id=task.pad_id,
      temperature=given.temperature,
    )
  console = rich.console.Console(highlight=False)
  console.print(f"{subject.name}, step {subject.step}: {task.name}")
  answer = functools.partial(
    _answer, subject, prng_keys.from_seed(given.seed), settings, console
  )
  for one in asked:
    answer(one)
  if given.talk:
    _talk(task, answer, console)
  return 0


def _parser() -> argparse.ArgumentParser:
  parser = argparse.ArgumentParser(
    prog="python -m experiments.sample",
    description=__doc__,
    formatter_class=argparse.RawDescriptionHelpFormatter,
  )
  add = parser.add_argument
  add("--workdir", help="folder of a run")
  add("--step", type=int, help="of the run's checkpoint; default: the latest")
  add("--policy", help="Hugging Face folder of a model")
  add("--task", help='of the policy: a name, or "name(setting=value)"')
  add("--prompt", action="append", default=[], help="may be given often")
  add("--talk", action="store_true", help="answers lines of standard input")
  add("--problems", type=int, default=PROBLEMS, help="held-out ones")
  add("--samples", type=int, default=SAMPLES, help="of each prompt")
  add("--temperature", type=float, default=1.0, help="0: the likeliest")
  add("--max_tokens", type=int, help="of a completion; default: the task's")
  add("--seed", type=int, default=0, help="of sampling")
  return parser


def _subject(subjects, given: argparse.Namespace):
  """Whom to ask."""
  for name in ("workdir", "policy"):
    if getattr(given, name) is not None:
      arguments.check_folder(f"--{name}", getattr(given, name))
  if bool(given.workdir) == bool(given.policy):
    raise ValueError(
      "name either --workdir, a run, or --policy, a Hugging Face folder: one "
      "and not both"
    )
  if given.workdir:
    if given.task:
      raise ValueError("--task has no meaning with --workdir; leave it out")
    return subjects.of_run(given.workdir, given.step, {})
  if given.step is not None:
    raise ValueError("--step has no meaning with --policy; leave it out")
  if not given.task:
    raise ValueError("--policy needs a --task, whose prompts it is asked")
  return subjects.of_folder(
    given.policy,
    given.task,
    max_tokens=given.max_tokens,
    problems=1 if given.prompt or given.talk else given.problems,
    samples=given.samples,
    batch=jax.device_count(),
    temperature=given.temperature,
  )


def problem(task: Task, text: str, number: int = 0) -> Problems:
  """A prompt as a problem of the task, which knows no answer to it.

  Args:
    task: whose template or tokens it takes.
    text: what is asked.
    number: its identity, of which its randomness comes.

  Raises:
    ValueError: it is longer than the task's prompts, or holds a word that is no
      token.
  """
  ids = task.encode(text) if task.encode else _spelled(task, text)
  if not 0 < len(ids) <= task.prompt_length:
    raise ValueError(
      f"the prompt {text[:40]!r} has {len(ids)} tokens; {task.name} has room "
      f"for 1 to {task.prompt_length}"
    )
  row = np.full((1, task.prompt_length), task.pad_id, np.int32)
  mask = np.zeros(row.shape, bool)
  row[0, -len(ids) :], mask[0, -len(ids) :] = ids, True
  return Problems(row, mask, ids=np.array([number], np.int32), facts={})


def _spelled(task: Task, text: str) -> list[int]:
  """Ids of words, each as the task writes a token."""
  known = {task.decode([i]): i for i in range(task.vocab_size)}
  known.pop("", None)
  for word in text.split():
    if word not in known:
      raise ValueError(choices.unknown("token", word, known))
  return [known[word] for word in text.split()]


def _held_out(task: Task, count: int) -> Iterator[Problems]:
  """The task's first problems, one by one."""
  whole = jax.tree.map(np.asarray, task.test(count))
  for i in range(count):
    yield jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], whole)


def _talk(task: Task, answer, console: rich.console.Console) -> None:
  """Answers lines until there are no more."""
  console.print("one prompt a line; Ctrl-D ends")
  for number, line in enumerate(sys.stdin):
    if not line.strip():
      continue
    try:
      asked = problem(task, line.strip(), number)
    except ValueError as error:
      console.print(str(error), style="red", markup=False)
      continue
    answer(asked)


def _answer(
  subject,
  key: jax.Array,
  settings: generation.Sampling,
  console: rich.console.Console,
  asked: Problems,
) -> None:
  """Prints the completions of one prompt, with scores where there are any."""
  task = subject.task
  parts = shardings.num_prompt_shards(subject.sharding.mesh)
  whole = jax.tree.map(lambda leaf: np.repeat(leaf, parts, 0), asked)
  drawn = jax.device_get(
    evaluator.generate(
      subject.policy,
      subject.params,
      multihost.place(whole, subject.sharding),
      key,
      settings,
    )
  )
  scores = None
  if asked.facts:
    judged = task.score(
      asked, drawn.completions[:1], drawn.lengths[:1], drawn.finished[:1]
    )
    scores = np.asarray(judged.scores)[0]
    if judged.scored is not None:
      scores = np.where(np.asarray(judged.scored)[0], scores, np.nan)
  shown = task.decode(asked.prompts[0][asked.prompt_mask[0]])
  console.print(f"\n{shown}", style="bold", markup=False, soft_wrap=True)
  for s in range(settings.samples):
    length = int(drawn.lengths[0, s])
    notes = [] if scores is None else [f"score {scores[s]:.3g}"]
    notes += [] if drawn.finished[0, s] else [f"cut at {length} tokens"]
    text = task.decode(drawn.completions[0, s, :length])
    console.print(f"  {text}", markup=False, soft_wrap=True)
    if notes:
      console.print(f"  ({', '.join(notes)})", style="dim")


if __name__ == "__main__":
  sys.exit(main())
