"""Prints completions, line by line or in a conversation, for `sample`."""

from __future__ import annotations

import sys

import jax
import numpy as np
import rich.console

from experiments.evaluation import policy_loader, user_prompts
from experiments.logging import progress
from experiments.tasks.task import Problems
from rl import UsageError
from rl.sampling import generation

NEW = "/new"  # starts a new conversation
# Seconds after which a line says that an answer is being computed.
_ANSWER_SECONDS = 10.0


class Printer:
  """Samples completions of one prompt at a time and prints them.

  Args:
    loaded: the policy and its task.
    key: PRNG key of all samples.
    sampling: settings of sampling.
    console: console to print to.
    heartbeat: prints lines while the completions are computed.
  """

  def __init__(
    self,
    loaded: policy_loader.LoadedPolicy,
    key: jax.Array,
    sampling: generation.Sampling,
    console: rich.console.Console,
    heartbeat: progress.Heartbeat,
  ) -> None:
    self.task = loaded.task
    self.console = console
    self._loaded, self._key, self._sampling = loaded, key, sampling
    self._heartbeat = heartbeat
    self._lengths: set[int] = set()  # padded lengths that are compiled

  def sample(
    self, problem: Problems
  ) -> tuple[generation.Samples, np.ndarray | None]:
    """Returns the samples and scores of `user_prompts.complete`."""
    length = problem.prompts.shape[1]
    if length in self._lengths:
      self._heartbeat.start("sampling", _ANSWER_SECONDS)
    else:
      self._heartbeat.start(
        f"compiling for prompts of up to {length} tokens, and sampling"
      )
    try:
      result = user_prompts.complete(
        self._loaded, problem, self._key, self._sampling
      )
    finally:
      self._heartbeat.stop()
    self._lengths.add(length)
    return result

  def __call__(self, problem: Problems, prompt: str | None = None) -> None:
    """Prints a prompt and its completions, with scores if there are any.

    Args:
      problem: the problem `[1, L]`.
      prompt: text to print for the prompt; None prints the decoded prompt, with
        its template.
    """
    samples, scores = self.sample(problem)
    if prompt is None:
      prompt = self.task.decode(problem.prompts[0][problem.prompt_mask[0]])
    self.print(f"\n{prompt}", style="bold")
    for s in range(self._sampling.samples):
      length = int(samples.lengths[0, s])
      notes = []
      if scores is not None:
        is_scored = not np.isnan(scores[s])
        notes = [f"score {scores[s]:.3g}" if is_scored else "not scored"]
      if not samples.finished[0, s]:
        notes.append(f"cut off at {length} tokens")
      text = self.task.decode(samples.completions[0, s, :length])
      self.print(f"  {text}")
      if notes:
        self.print(f"  ({', '.join(notes)})", style="dim")

  def print(self, line: str, style: str | None = None) -> None:
    """Prints a line without wrapping it."""
    self.console.print(line, style=style, markup=False, soft_wrap=True)


def complete_lines(complete: Printer) -> None:
  """Completes each line of standard input, until the input ends."""
  complete.print("Type one prompt per line; Ctrl-D ends the command.")
  for number, line in enumerate(sys.stdin):
    text = line.strip()
    if not text:
      continue
    try:
      ids = complete.task.prompt_ids(text)
      problem = user_prompts.make_problem(complete.task, ids, number)
    except UsageError as error:
      complete.print(str(error), style="red")
      continue
    complete(problem)


def converse(complete: Printer) -> None:
  """Answers lines of standard input as a conversation, until the input ends."""
  complete.print(
    f"Type a line and press Enter. An empty line or {NEW} starts a new "
    "conversation; Ctrl-D ends the command."
  )
  conversation = user_prompts.Conversation(complete.task)
  while (text := _read_line()) is not None:
    if text in ("", NEW):
      if conversation.turns:
        conversation.turns = []
        complete.print("(a new conversation)", style="dim")
      continue
    try:
      problem, num_dropped = conversation.ask(text)
    except UsageError as error:
      complete.print(str(error), style="red")
      continue
    if num_dropped:
      complete.print(
        f"(the {num_dropped} oldest turns no longer fit and were dropped)",
        style="dim",
      )
    samples, _ = complete.sample(problem)
    complete.print(conversation.add_answer(samples))
    if not samples.finished[0, 0]:
      length = int(samples.lengths[0, 0])
      complete.print(
        f"(cut off at {length} tokens; --max_tokens sets the limit)",
        style="dim",
      )


def _read_line() -> str | None:
  """Returns the next line of standard input; None at its end."""
  try:
    line = input("> ").strip()
  except EOFError:
    print()
    return None
  # Piped input is echoed, so that the output shows both sides of the
  # conversation.
  if not sys.stdin.isatty():
    print(line)
  return line
