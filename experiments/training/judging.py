"""Asks a judge about the samples of a run, for any task.

`config.judge` names a model on an OpenAI-compatible server, and questions of
`rewards.judged` by name. Between sampling and the update the host asks the
questions about all training samples. The answer to the question NAME is the
component NAME of the score, which `reward(NAME=term(""))` pays; the comparisons
of pairs are the extra "task/preferences". A sample without an
answer to one of the questions is left out of training, and is counted in
`judge/unanswered_frac`; it does not count as 0. Held-out samples are not
judged.

Shapes: P problems, S samples per problem, T completion tokens.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import ml_collections
import numpy as np

from experiments.cli import cache_folders, spec
from experiments.tasks.task import Judged, Problems, Task
from rewards import judged as questions_to_judges
from rewards.judged import Question
from rewards.verifiers import judge, judge_cache

# Key of `Problems.facts`: whether the samples of a problem are judged.
_IS_JUDGED = "is_judged"
# Keys of `Judged.extras`: comparisons of pairs, and the share of the questions
# about a sample that have no answer.
PREFERENCES, UNANSWERED = "preferences", "unanswered"


def check(settings: ml_collections.ConfigDict) -> None:
  """Checks `config.judge`, without a request.

  Raises:
    ValueError: a value is not allowed.
  """
  if not settings:
    return
  make_endpoint(settings)
  if settings.workers < 1:
    raise ValueError(f"judge.workers = {settings.workers} must be at least 1")
  if not settings.questions:
    raise ValueError(
      "judge.questions is empty; name at least one, such as "
      "{'quality': 'grade()'}"
    )
  questions = make_questions(settings)
  comparing = [name for name, q in questions.items() if q.compares]
  if len(comparing) > 1:
    raise ValueError(
      f"judge.questions: {' and '.join(comparing)} both compare pairs; a run "
      "has one table of preferences"
    )


def make_endpoint(settings: ml_collections.ConfigDict) -> judge.Endpoint:
  """Returns the server of `config.judge`.

  Raises:
    ValueError: a setting is not allowed, or the environment has no key.
  """
  try:
    return judge.Endpoint(
      url=settings.url,
      model=settings.model,
      key_variable=settings.key_variable,
      temperature=settings.temperature,
      max_tokens=settings.max_tokens,
      timeout=settings.timeout,
      retries=settings.retries,
    )
  except ValueError as error:
    raise ValueError(f"judge: {error}") from None


def make_questions(
  settings: ml_collections.ConfigDict,
) -> dict[str, Question]:
  """Returns the questions of `config.judge`, by name.

  Raises:
    ValueError: a question or one of its settings is unknown.
  """
  questions = {}
  for name, text in settings.questions.items():
    if not name.isidentifier():
      raise ValueError(
        f"judge.questions: the name {name!r} must be letters, digits and _, "
        "such as quality"
      )
    called, arguments = spec.parse(text, f"judge.questions.{name}")
    questions[name] = questions_to_judges.get(called, **arguments)
  return questions


def make_judge(settings: ml_collections.ConfigDict) -> judge.Complete:
  """Returns the judge of `config.judge`, with its replies on disk."""
  endpoint = make_endpoint(settings)
  name = f"{settings.model} {settings.temperature} {settings.max_tokens}"
  file = settings.cache or cache_folders.of_judges() / "replies.sqlite"
  return judge_cache.CachedJudge(endpoint, name, file)


def judged_task(
  task: Task,
  questions: dict[str, Question],
  complete: judge.Complete,
  workers: int,
) -> Task:
  """Returns a task whose training samples are judged.

  Args:
    task: the task.
    questions: the questions by name.
    complete: the judge.
    workers: number of requests at a time.
  """
  score_samples = jax.jit(task.score) if task.jittable else task.score

  def with_flag(problems: Problems, is_judged: bool) -> Problems:
    flags = np.full(len(problems.ids), is_judged)
    return problems.replace(facts={**problems.facts, _IS_JUDGED: flags})

  def train(key: Any, step: Any, n: int) -> Problems:
    return with_flag(task.train(key, step, n), True)

  def test(n: int) -> Problems:
    return with_flag(task.test(n), False)

  def score(
    problems: Problems, completions: Any, lengths: Any, finished: Any
  ) -> Judged:
    facts = dict(problems.facts)
    is_judged = np.asarray(facts.pop(_IS_JUDGED))
    problems = problems.replace(facts=facts)
    # Validation scores blank completions while it traces a training step.
    with jax.ensure_compile_time_eval():
      judged = jax.device_get(
        score_samples(problems, completions, lengths, finished)
      )
      blank_items = task.items(problems)
    texts = _texts(task, np.asarray(completions), np.asarray(lengths))
    steps = _steps(task, np.asarray(completions), judged.step_ids, texts)
    items = [
      [
        dataclasses.replace(
          item,
          completion=texts[p][s],
          meta={
            **item.meta,
            "steps": steps[p][s],
            "correct": int(judged.correct[p, s]),
          },
        )
        for s in range(lengths.shape[1])
      ]
      for p, item in enumerate(blank_items)
    ]
    scored = judged.scored
    scored = np.ones(lengths.shape, bool) if scored is None else scored
    components, extras = dict(judged.components), dict(judged.extras)
    unanswered = np.zeros(lengths.shape, np.float32)
    for name, question in questions.items():
      shape = (*lengths.shape, lengths.shape[-1])[: 2 + question.compares]
      values = np.zeros(shape, np.float32)
      if is_judged.any():
        chosen = [items[i] for i in np.flatnonzero(is_judged)]
        values[is_judged] = question.ask(chosen, complete, workers)
      has_value = ~np.isnan(values)
      if question.compares:
        extras[PREFERENCES] = np.where(has_value, values, 0.5)
        # A sample without any comparison is left out.
        has_value = (has_value & ~np.eye(shape[-1], dtype=bool)).any(-1)
      else:
        components[name] = np.where(has_value, values, 0.0)
      scored = scored & has_value
      unanswered += ~has_value / len(questions)
    extras[UNANSWERED] = unanswered
    return judged.replace(scored=scored, components=components, extras=extras)

  return dataclasses.replace(
    task, train=train, test=test, score=score, jittable=False
  )


def _steps(
  task: Task, completions: Any, step_ids: Any, texts: list[list[str]]
) -> list[list[list[str]]]:
  """Returns the texts of the steps of each sample.

  Args:
    task: the task.
    completions: `[P, S, T]` token ids.
    step_ids: `[P, S, T]`, the step of each token; None if the task has no
      steps, which are then the lines of a completion.
    texts: P lists of S texts.
  """
  if step_ids is None:
    return [[text.splitlines() for text in of] for of in texts]

  def of_sample(ids: Any, numbers: Any) -> list[str]:
    is_text = ~np.isin(ids, task.eos_ids)
    return [
      task.decode(ids[(numbers == k) & is_text])
      for k in range(int(numbers.max(initial=-1)) + 1)
    ]

  return [
    [of_sample(*one) for one in zip(*of_problem, strict=True)]
    for of_problem in zip(completions, np.asarray(step_ids), strict=True)
  ]


def _texts(task: Task, completions: Any, lengths: Any) -> list[list[str]]:
  """Returns the texts of completions `[P, S, T]`, without an end token."""

  def text(ids: Any, length: int) -> str:
    ids = ids[:length]
    return task.decode(ids[~np.isin(ids, task.eos_ids)])

  return [
    [text(*one) for one in zip(*of_problem, strict=True)]
    for of_problem in zip(completions, lengths, strict=True)
  ]
