"""The forest of samples of a policy on the problems of a task.

Axes: Q problems, R states, M continuations of a state, T completion tokens, L
prompt tokens, K reasoning steps.
"""

from __future__ import annotations

import collections
import dataclasses
import functools
from collections.abc import Callable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from experiments.tasks.task import Judged, Problems, Task
from experiments.training import drawing, extensions
from rewards.process import continuations
from rewards.process.forest import Forest, Samples, StepChanges
from rewards.verifiers import step_judge
from rl import UsageError, types
from rl.sampling import generation

Array = jax.Array
# Function that returns the first wrong step of each solution, as
# `step_judge.first_errors` does.
Judge = Callable[[Sequence[step_judge.Solution]], Sequence[int]]
STATES = 256  # states that are continued in one call of the compiled program


class PolicyForest(Forest):
  """Samples of a policy on Q problems.

  The random numbers of a continuation depend on the problem, the sample that
  passes its state, the number of steps, and how often the state was continued
  before. Hence they do not depend on which states share a call.

  Attributes:
    problems: the problems.
    unjudged: number of samples about which the judge had no verdict.
  """

  def __init__(
    self,
    task: Task,
    policy: types.Policy,
    params: types.PyTree,
    problems: Problems,
    key: Array,
    sampling: generation.Sampling,
    judge: Judge | None = None,
    num_problems: int | None = None,
  ) -> None:
    """Samples the problems.

    Args:
      task: task whose `score` divides completions into steps.
      policy: the policy that samples and continues.
      params: its parameters.
      problems: Q problems, as numpy arrays.
      key: PRNG key.
      sampling: settings of sampling; `samples` is the number per problem.
      judge: function that finds wrong steps; None for label sources that read
        no judge.
      num_problems: number of the first problems that belong to the forest; the
        others only fill up the shape of the compiled program. None means all.

    Raises:
      UsageError: the task does not divide completions into steps, or is played
        in several turns.
    """
    task.check_single_turn("the forest")
    self._task, self._policy, self._params = task, policy, params
    self.problems, self._sampling, self._judge = problems, sampling, judge
    self.unjudged = 0
    self._keys = generation.prompt_keys(key, 0, jnp.asarray(problems.ids))
    # Number of times that a state has been continued.
    self._looks: dict[tuple[int, int], int] = collections.Counter()
    batch = drawing.place(task, policy, problems)
    samples, judged = batch.draw(params, self._keys, sampling)
    if judged.step_ids is None or judged.step_mask is None:
      raise UsageError(
        f"{task.name} does not divide completions into steps, so that there is "
        "nothing to label; use a task with steps, such as chain or "
        "numbered_lists(steps=True)"
      )
    # Problem of each sample; none has a parent.
    owners = np.repeat(np.arange(len(problems.ids)), sampling.samples)
    roots = np.full(len(owners), -1)
    rows = _rows(samples, judged, owners, roots, np.zeros_like(roots))
    if num_problems is not None:
      rows = rows.select(owners < num_problems)
    super().__init__(rows, max_steps=judged.step_mask.shape[-1])

  def sample(self, rows: np.ndarray, steps: np.ndarray, count: int) -> Samples:
    parts = [
      self._continue(
        rows[start : start + STATES], steps[start : start + STATES], count
      )
      for start in range(0, len(rows), STATES)
    ]
    for part in parts[1:]:
      parts[0].append(part)
    return parts[0]

  def first_errors(self, rows: np.ndarray) -> np.ndarray:
    if self._judge is None:
      return super().first_errors(rows)
    prompts = self._task.prompt_texts(self.problems)
    solutions = [
      step_judge.Solution(
        prompts[self.samples.problems[row]],
        self._steps(row),
      )
      for row in rows
    ]
    first = np.array(self._judge(solutions), int)
    if len(first) and (first == step_judge.UNKNOWN).all():
      raise UsageError(
        f"the judge has no verdict about any of {len(first)} samples; check "
        "its URL, the name of its model and its key, and what it replies"
      )
    self.unjudged += int((first == step_judge.UNKNOWN).sum())
    return first

  def step_changes(self, row: int, step: int) -> StepChanges:
    if self._task.step_changes is None:
      raise UsageError(
        f"{self._task.name} has no changes of steps, which this label source "
        "needs; use a task that has them, such as programs, or a source that "
        "samples continuations, such as monte_carlo"
      )
    before, ids, after = self._around(row, step)
    is_last = self._task.eos_id in ids[-1:]
    size = self.samples.completions.shape[-1] - len(before) - len(after)
    changes = self._task.step_changes(ids[: len(ids) - is_last])
    return StepChanges(
      *([x for x in texts if len(x) + is_last <= size] for texts in changes)
    )

  def write(
    self, rows: np.ndarray, steps: np.ndarray, texts: Sequence[Sequence[int]]
  ) -> Samples:
    width = self.samples.completions.shape[-1]
    tokens = np.full((len(rows), 1, width), self._task.pad_id, np.int32)
    lengths = np.zeros((len(rows), 1), np.int32)
    finished = np.zeros(lengths.shape, bool)
    for i, (row, step, text) in enumerate(zip(rows, steps, texts, strict=True)):
      before, ids, after = self._around(row, step)
      end = [x for x in ids[-1:] if x in self._task.eos_ids]
      copy = [*before, *text, *end, *after]
      tokens[i, 0, : len(copy)], lengths[i] = copy, len(copy)
      finished[i] = copy[-1] in self._task.eos_ids
    samples = generation.Samples(
      completions=tokens,
      lengths=lengths,
      log_probs=np.zeros(tokens.shape, np.float32),
      finished=finished,
    )
    problems = self.samples.problems[rows]
    parts = []
    for start in range(0, len(rows), STATES):
      # Copies of the last sample fill up the shape of the compiled program.
      index = np.minimum(np.arange(start, start + STATES), len(rows) - 1)
      part = jax.tree.map(lambda x, index=index: x[index], samples)
      judged = self._score(self._problems_at(problems[index]), part)
      count = min(STATES, len(rows) - start)
      part, judged = jax.tree.map(
        lambda x, count=count: x[:count], (part, judged)
      )
      index = index[:count]
      parts.append(
        _rows(part, judged, problems[index], rows[index], steps[index])
      )
    for part in parts[1:]:
      parts[0].append(part)
    return parts[0]

  def _around(self, row: int, step: int) -> tuple[list[int], ...]:
    """Returns the tokens before a step, of the step, and after it."""
    ids = self.samples.completions[row][: self.samples.lengths[row]]
    step_ids = self.samples.step_ids[row][: len(ids)]
    return tuple(
      ids[is_part].tolist()
      for is_part in (step_ids < step, step_ids == step, step_ids > step)
    )

  def _steps(self, row: int) -> list[str]:
    """Returns the texts of the steps of a sample."""
    ids, step_ids = self.samples.completions[row], self.samples.step_ids[row]
    return [
      self._task.text_of(ids[step_ids == k])
      for k in range(self.samples.num_steps[row])
    ]

  def _continue(
    self, rows: np.ndarray, steps: np.ndarray, count: int
  ) -> Samples:
    """Samples `count` continuations of at most `STATES` states."""
    looks = np.zeros(len(rows), int)
    for i, (row, num_steps) in enumerate(zip(rows, steps, strict=True)):
      state = self.state(int(row), int(num_steps))
      looks[i] = self._looks[state]
      self._looks[state] += 1
    # Copies of the last state fill up the shape of the compiled program.
    index = np.minimum(np.arange(STATES), len(rows) - 1)
    samples = self.samples.select(rows[index])
    problems = self._problems_at(samples.problems)
    continued = _extend(
      *(self._policy, self._params, problems.prompts, problems.prompt_mask),
      *(samples.completions, samples.log_probs),
      prefix_lengths(samples, steps[index]),
      self._keys[samples.problems],
      np.stack([rows[index], steps[index], looks[index]]),
      dataclasses.replace(self._sampling, samples=count),
    )
    continued, problems = jax.tree.map(
      lambda x: np.asarray(x)[: len(rows)], (continued, problems)
    )
    return _rows(
      continued,
      self._score(problems, continued),
      problems=np.repeat(self.samples.problems[rows], count),
      parents=np.repeat(rows, count),
      num_shared=np.repeat(steps, count),
    )

  def _problems_at(self, index: np.ndarray) -> Problems:
    return jax.tree.map(lambda x: np.asarray(x)[index], self.problems)

  def _score(self, problems: Problems, samples: generation.Samples) -> Judged:
    """Returns the task's scores of completions `[R, M, T]`."""
    batch = drawing.place(self._task, self._policy, problems)
    return batch.score(samples.completions, samples.lengths, samples.finished)


@functools.partial(jax.jit, static_argnums=(0, 9))
def _extend(
  policy: types.Policy,
  params: types.PyTree,
  prompts: Array,  # [R, L]
  prompt_mask: Array,  # [R, L] bool
  completions: Array,  # [R, T], which contain the prefixes
  log_probs: Array,  # [R, T], of the tokens of `completions`
  prefix_lengths: Array,  # [R], number of tokens of each prefix
  keys: Array,  # [R] PRNG keys of the problems
  numbers: Array,  # [3, R] integers that are folded into the keys
  sampling: generation.Sampling,  # `sampling.samples` is M
) -> generation.Samples:
  """Samples M completions that begin with each of the prefixes, `[R, M, T]`."""
  tokens = types.Tokens(
    prompts=prompts,
    prompt_mask=prompt_mask,
    completions=completions[:, None],
    lengths=prefix_lengths[:, None],
    mask=jnp.ones(completions[:, None].shape, bool),
  )
  rows = jnp.arange(len(completions))
  prefixes, prefix_mask = continuations.prefix_prompts(
    tokens, rows, prefix_lengths
  )
  for folded in numbers:
    keys = jax.vmap(jax.random.fold_in)(keys, folded)
  settings = continuations.settings(sampling, tokens, sampling.samples)
  continued = drawing.generate(
    policy, params, prefixes, prefix_mask, keys, settings
  )
  return extensions.attach(
    *(tokens, log_probs[:, None], rows, prefix_lengths),
    *(continued, sampling.pad_id),
  )


def prefix_lengths(samples: Samples, steps: np.ndarray) -> np.ndarray:
  """Returns the number of tokens of the first steps of each sample, `[R]`.

  Args:
    samples: R samples.
    steps: `[R]`, number of steps of each prefix.
  """
  t = np.arange(samples.step_ids.shape[-1])
  inside = (samples.step_ids >= 0) & (samples.step_ids < steps[:, None])
  return np.where(inside, t + 1, 0).max(-1).astype(np.int32)


def _rows(
  samples: generation.Samples,
  judged: Judged,
  problems: np.ndarray,  # [R M]
  parents: np.ndarray,  # [R M]
  num_shared: np.ndarray,  # [R M]
) -> Samples:
  """Returns completions `[R, M, ...]` as the rows of a forest."""
  samples, judged = jax.device_get((samples, judged))
  # One after another, the completions of all R.
  flat = np.concatenate
  scores = judged.step_scores
  if scores is None:
    scores = np.zeros(judged.step_mask.shape, np.float32)
  correct = np.asarray(judged.correct)
  if judged.scored is not None:
    correct = np.where(judged.scored, correct, -1)
  return Samples(
    problems=problems,
    correct=flat(correct),
    answer_ids=flat(judged.answer_ids),
    completions=flat(samples.completions),
    log_probs=flat(samples.log_probs),
    lengths=flat(samples.lengths),
    step_ids=flat(judged.step_ids),
    num_steps=flat(judged.step_mask).sum(-1),
    parents=parents,
    num_shared=num_shared,
    step_scores=flat(scores),
  )
