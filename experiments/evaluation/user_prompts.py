"""Completes a user's prompts and the turns of a conversation, for `sample`.

A prompt is padded on the left to one of a few lengths, and each length is one
compiled program. A conversation is a list of turns; its prompt has all turns in
the task's chat template. The oldest turns are dropped if the prompt is too
long.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import jax
import numpy as np

from experiments.data import padding
from experiments.evaluation import policy_loader
from experiments.tasks.task import Judged, Problems, Task
from experiments.training import drawing
from models import sharding
from rl import UsageError
from rl.sampling import generation

# Padded lengths below `task.prompt_length`, which is the largest.
LENGTHS = (128, 512)


def make_problem(task: Task, ids: Sequence[int], number: int = 0) -> Problems:
  """Returns one problem `[1, L]` that has a prompt but no reference answer.

  Args:
    task: task of the prompt.
    ids: token ids of the prompt.
    number: id of the problem, from which its random numbers are derived.

  Raises:
    UsageError: the prompt is empty, or has more than `task.prompt_length`
      tokens.
  """
  if not 0 < len(ids) <= task.prompt_length:
    raise UsageError(
      f"the prompt has {len(ids)} tokens, but prompts of {task.name} have 1 to "
      f"{task.prompt_length}"
    )
  lengths = [n for n in LENGTHS if n < task.prompt_length]
  length = next((n for n in lengths if len(ids) <= n), task.prompt_length)
  padded = padding.on_left([ids], length, task.pad_id)
  return Problems(*padded, ids=np.array([number], np.int32), facts={})


def held_out_problems(task: Task, count: int) -> Iterator[Problems]:
  """Yields the task's first test problems one by one."""
  problems = jax.tree.map(np.asarray, task.test(count))
  for i in range(count):
    yield jax.tree.map(lambda leaf, i=i: leaf[i : i + 1], problems)


def complete(
  loaded: policy_loader.LoadedPolicy,
  problem: Problems,
  key: jax.Array,
  sampling: generation.Sampling,
) -> tuple[generation.Samples, np.ndarray | None]:
  """Samples completions of one problem `[1, L]`, and scores them.

  Returns:
    The samples `[1, S]` as numpy arrays; and scores `[S]`, NaN for a sample
    that could not be scored, or None for a prompt of a user.
  """
  # The prompt axis must be divisible by the number of devices that split it, so
  # the problem is repeated; only the samples of the first copy are used.
  copies = sharding.num_prompt_shards(loaded.sharding.mesh)
  problems = jax.tree.map(lambda leaf: np.repeat(leaf, copies, 0), problem)
  batch = drawing.place(loaded.task, loaded.policy, problems, loaded.sharding)
  keys = drawing.prompt_keys(key, 0, batch.problems.ids)
  if problem.facts:
    samples, judged = batch.draw(loaded.params, keys, sampling)
    scores = first_scores(jax.device_get(judged))
  else:  # a user's prompt, which cannot be scored
    placed = batch.problems
    samples = batch.generate(
      loaded.params, placed.prompts, placed.prompt_mask, keys, sampling
    )
    scores = None
  first = jax.tree.map(lambda leaf: leaf[:1], jax.device_get(samples))
  return first, scores


def first_scores(judged: Judged) -> np.ndarray:
  """Returns the scores `[S]` of the first problem; NaN for what has none."""
  scores = np.asarray(judged.scores)[0]
  if judged.scored is None:
    return scores
  return np.where(np.asarray(judged.scored)[0], scores, np.nan)


@dataclasses.dataclass
class Conversation:
  """The turns of a user and the policy, as they go into the next prompt.

  Attributes:
    task: task with `encode_turns`.
    turns: turns so far, the oldest first: one of the user, one of the
      assistant, and so on.
    num_prompts: number of prompts so far; the id of the next prompt, from which
      its random numbers are derived.
  """

  task: Task
  turns: list[dict[str, str]] = dataclasses.field(default_factory=list)
  num_prompts: int = 0

  def ask(self, text: str) -> tuple[Problems, int]:
    """Adds a turn of the user, and returns the prompt that it makes.

    Returns:
      (problem, number of turns that were dropped because all turns together
      have more than `task.prompt_length` tokens). A turn of the user is dropped
      with its answer, the oldest first.

    Raises:
      UsageError: the turn is too long by itself. It is not added.
    """
    turns = [*self.turns, {"role": "user", "content": text}]
    ids = self.task.encode_turns(turns)
    while len(ids) > self.task.prompt_length and len(turns) > 1:
      turns = turns[2:]
      ids = self.task.encode_turns(turns)
    problem = make_problem(self.task, ids, self.num_prompts)
    num_dropped = len(self.turns) + 1 - len(turns)
    self.turns, self.num_prompts = turns, self.num_prompts + 1
    return problem, num_dropped

  def add_answer(self, samples: generation.Samples) -> str:
    """Adds the first sample as the assistant's turn, and returns its text."""
    # Without the end token, which the template adds again.
    length = int(samples.lengths[0, 0]) - int(samples.finished[0, 0])
    text = self.task.decode(samples.completions[0, 0, :length]).strip()
    self.turns.append({"role": "assistant", "content": text})
    return text
