"""Asks a judge about the samples of a run, for any task.

`config.judge` names a model on an OpenAI-compatible server, or a policy that
answers in the same process (`policy_judge`), and questions of `rewards.judged`
by name. Between sampling and the update the host asks the
questions about all training samples. The answer to the question NAME is the
component NAME of the score, which `reward(NAME=term(""))` pays. The comparisons
of pairs are the extra "task/preferences". Scores of steps replace the step
scores of the task, so that min-form and every other process reward read them;
the component NAME is then the mean over the steps, and "task_steps" that of the
task. The answer of a reference that the judge has written is read by the task,
and the component is 1 for the samples with the same answer.

A sample without an answer to one of the questions is left out of training, and
is counted in `judge/unanswered_frac`; it does not count as 0. A prompt whose
samples are all blank gets 0 without a request. A step about which the judge has
no answer at all ends the run. Held-out samples are not judged. The
continuations that a sampler such as `prefix_values` draws are judged too, at
their cost, although nothing reads these answers.

Shapes: P problems, S samples per problem, T completion tokens, K steps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import ml_collections
import numpy as np

from experiments.cli import cache_folders, errors
from experiments.cli import spec as calls
from experiments.data import padding, pretrained
from experiments.tasks.task import Judged, Problems, Task, spec
from experiments.training import workdirs
from rewards import judged as questions_to_judges
from rewards.agreement import votes
from rewards.judged import Question, base
from rewards.verifiers import Item, judge_cache, llm_judge
from rl import UsageError

# Key of `Problems.facts`: whether the samples of a problem are judged.
_IS_JUDGED = "is_judged"
# Keys of `Judged.extras`: comparisons of pairs, and the share of the questions
# about a sample that have no answer.
PREFERENCES, UNANSWERED = "preferences", "unanswered"
# Component with the mean of the task's own step scores, where a judge has
# scored the steps.
TASK_STEPS = "task_steps"


def check(settings: ml_collections.ConfigDict) -> None:
  """Checks `config.judge`, without a request.

  Raises:
    UsageError: a value is not allowed.
  """
  if not settings:
    return
  if bool(settings.url) == bool(settings.policy):
    raise UsageError(
      f"judge.url = {settings.url!r} and judge.policy = {settings.policy!r}; "
      "exactly one of them must name a judge: the URL of a server, or a policy "
      "(a model folder, a pretrained model, or the workdir of a run)"
    )
  if settings.policy:
    folder = pretrained.resolve(settings.policy)
    if not workdirs.is_run(folder):
      # Imported here, since it loads transformers.
      from models import hf

      hf.load_config(folder)
  else:
    make_endpoint(settings)
  if settings.workers < 1:
    raise UsageError(f"judge.workers = {settings.workers} must be at least 1")
  if not settings.questions:
    raise UsageError(
      "judge.questions is empty; name at least one, such as "
      "{'quality': 'grade()'}"
    )
  questions = make_questions(settings)
  names = [name for name, question in questions.items() if question.embeds]
  if settings.policy and names:
    raise UsageError(
      f"judge.questions: {' and '.join(names)} ask for embeddings, which a "
      "policy has not; name a server by judge.url"
    )
  for about, what in (
    (base.PAIRS, "table of preferences"),
    (base.STEPS, "score of each step"),
  ):
    names = [name for name, q in questions.items() if q.about == about]
    if len(names) > 1:
      raise UsageError(
        f"judge.questions: {' and '.join(names)} are both about {about}; a run "
        f"has one {what}"
      )


# Advice for a command whose output cannot be written.
KEPT_REPLIES = (
  "the judge's replies are kept, so that the same command asks nothing again"
)


def make_endpoint(settings: ml_collections.ConfigDict) -> llm_judge.Endpoint:
  """Returns the server of `config.judge`.

  Raises:
    UsageError: a setting is not allowed, or the environment has no key.
  """
  try:
    return llm_judge.Endpoint(
      url=settings.url,
      model=settings.model,
      key_variable=settings.key_variable,
      temperature=settings.temperature,
      max_tokens=settings.max_tokens,
      timeout=settings.timeout,
      retries=settings.retries,
    )
  except UsageError as error:
    raise UsageError(f"judge: {error}") from None


def make_questions(
  settings: ml_collections.ConfigDict,
) -> dict[str, Question]:
  """Returns the questions of `config.judge`, by name.

  Raises:
    UsageError: a question or one of its settings is unknown.
  """
  questions = {}
  for name, text in settings.questions.items():
    if not name.isidentifier():
      raise UsageError(
        f"judge.questions: the name {name!r} must be letters, digits and _, "
        "such as quality"
      )
    called, arguments = calls.parse(text, f"judge.questions.{name}")
    questions[name] = questions_to_judges.get(called, **arguments)
  return questions


def make_judge(
  settings: ml_collections.ConfigDict, build: Callable | None = None
) -> llm_judge.Complete:
  """Returns the judge of `config.judge`, with its replies on disk.

  Args:
    settings: `config.judge`.
    build: `experiments.training.build.build`, for a judge that is a run.
  """
  # What a reply depends on besides the messages.
  if settings.policy:
    # Imported here, since it loads transformers.
    from experiments.training import policy_judge

    complete = policy_judge.PolicyJudge(
      settings.policy,
      settings.temperature,
      settings.max_tokens,
      settings.workers,
      build=build,
    )
    identity = [complete.identity, settings.temperature, settings.max_tokens]
    name = " ".join(map(str, identity))
    return judge_cache.CachedJudge(
      complete, name, settings.cache or _default_cache()
    )
  return keep_replies(make_endpoint(settings), settings.cache)


def keep_replies(
  endpoint: llm_judge.Endpoint, file: str = ""
) -> judge_cache.CachedJudge:
  """Returns a server whose replies are kept on disk.

  Args:
    endpoint: the server.
    file: the file of replies; "" is the one in the user's cache.
  """
  fields = ("url", "model", "temperature", "max_tokens")
  name = " ".join(str(getattr(endpoint, field)) for field in fields)
  return judge_cache.CachedJudge(endpoint, name, file or _default_cache())


def _default_cache() -> str:
  return str(cache_folders.of_judges() / "replies.sqlite")


def judged_task(
  task: Task,
  questions: dict[str, Question],
  complete: llm_judge.Complete,
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

  def read_answers(problems: Problems, texts: list[str]) -> np.ndarray:
    """Returns the ids of the answers of P texts, -1 for none, `[P]`."""
    ids = [_completion_ids(task, text) for text in texts]
    width = max(task.completion_length, *map(len, ids))
    padded = padding.on_right(ids, width, task.pad_id)
    completions, lengths = (array[:, None] for array in padded)
    judged = score_samples(problems, completions, lengths, lengths > 0)
    return np.asarray(judged.answer_ids)[:, 0]

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
    judged = jax.device_get(
      score_samples(problems, completions, lengths, finished)
    )
    groups = []
    if is_judged.any():
      groups = _groups(task, problems, completions, lengths, judged)
    # A group of blank completions is not worth a request; its answers are 0.
    chosen = [
      i
      for i, group in enumerate(groups)
      if is_judged[i] and any(item.text.strip() for item in group)
    ]
    groups = [groups[i] for i in chosen]
    scored = judged.scored
    scored = np.ones(lengths.shape, bool) if scored is None else scored
    components, extras = dict(judged.components), dict(judged.extras)
    unanswered = np.zeros(lengths.shape, np.float32)
    for name, question in questions.items():
      values = np.zeros(_shape(name, question, judged, components), np.float32)
      if len(chosen):
        answers = question.ask(groups, complete, workers)
        if question.about == base.PROMPTS:
          texts = [""] * len(is_judged)
          for i, text in zip(chosen, answers, strict=True):
            texts[i] = text
          answers = _agreement(texts, read_answers(problems, texts), judged)
          answers = answers[chosen]
        # The longest sample may have fewer than K steps.
        values[chosen, ..., : answers.shape[-1]] = answers
      has_value = ~np.isnan(values)
      if question.about == base.PAIRS:
        extras[PREFERENCES] = values
        # A sample without any comparison is left out, unless it is alone.
        samples = lengths.shape[1]
        is_other = ~np.eye(samples, dtype=bool)
        is_alone = samples == 1
        has_value = (has_value & is_other).any(-1) | is_alone
      elif question.about == base.STEPS:
        mask = np.asarray(judged.step_mask)
        components[TASK_STEPS] = _mean_of_steps(judged.step_scores, mask)
        values = np.where(mask & has_value, values, 0.0)
        components[name] = _mean_of_steps(values, mask)
        judged = judged.replace(step_scores=values)
        has_value = (has_value | ~mask).all(-1)
      else:
        components[name] = np.where(has_value, values, 0.0)
      if len(chosen) and not has_value[chosen].any():
        raise errors.RunError(
          f"the judge has no answer to the question {name!r} about any of the "
          f"{has_value[chosen].size} samples of a step; check that the server "
          "runs, its URL, the name of its model, its key, and what it replies"
        )
      scored = scored & has_value
      unanswered += ~has_value / len(questions)
    extras[UNANSWERED] = unanswered
    return judged.replace(scored=scored, components=components, extras=extras)

  def judged_spec(P: int, S: int, T: int) -> Judged:
    judged = task.judged_shapes(P, S, T)
    values = spec(np.float32, P, S)
    components, extras = dict(judged.components), dict(judged.extras)
    for name, question in questions.items():
      shape = _shape(name, question, judged, components)
      if question.about == base.PAIRS:
        extras[PREFERENCES] = spec(np.float32, *shape)
        continue
      components[name] = values
      if question.about == base.STEPS:
        components[TASK_STEPS] = values
        judged = judged.replace(step_scores=spec(np.float32, *shape))
    return judged.replace(
      scored=spec(bool, P, S),
      components=components,
      extras={**extras, UNANSWERED: values},
    )

  return dataclasses.replace(
    task,
    train=train,
    test=test,
    score=score,
    judged_spec=judged_spec,
    jittable=False,
  )


def _shape(
  name: str, question: Question, judged: Judged, components: Mapping[str, Any]
) -> tuple[int, ...]:
  """Returns the shape of the answers to a question."""
  if name in components:
    raise UsageError(
      f"judge.questions: the task has a component {name!r}; choose another name"
    )
  P, S = judged.scores.shape
  if question.about == base.PAIRS:
    return P, S, S
  if question.about == base.STEPS:
    if judged.step_mask is None:
      raise UsageError(
        "judge.questions: one is about steps, and the task has none; a text "
        "task has them with steps=True, such as config.task = "
        "'jsonl(steps=True)'"
      )
    return judged.step_mask.shape
  return P, S


def _completion_ids(task: Task, text: str) -> list[int]:
  """Returns the tokens of a completion; none if the task cannot write it."""
  try:
    return task.completion_ids(text)
  except UsageError:  # a word that is no token of the task
    return []


def _agreement(
  texts: list[str],  # P references
  answer_ids: np.ndarray,  # [P], ids of their answers, -1 for none
  judged: Judged,  # scores of the samples
) -> np.ndarray:
  """Returns 1 for samples with the answer of their reference, `[P, S]`."""
  agrees = np.asarray(votes.agreement(judged.answer_ids, answer_ids))
  has_reference = np.array([bool(text) for text in texts])
  # The samples of a prompt with the reference "" are NaN.
  return np.where(has_reference[:, None], agrees, np.nan)


def _mean_of_steps(values: Any, mask: np.ndarray) -> np.ndarray:
  """Returns the mean over the steps of each sample, 0 without steps."""
  counts = np.maximum(mask.sum(-1), 1)
  sums = np.where(mask, values, 0.0).sum(-1, dtype=np.float32)
  return (sums / counts).astype(np.float32)


def _groups(
  task: Task, problems: Problems, completions: Any, lengths: Any, judged: Judged
) -> list[list[Item]]:
  """Returns the S samples of each of P problems as items."""
  completions, lengths = np.asarray(completions), np.asarray(lengths)

  def item_of(blank: Item, p: int, s: int) -> Item:
    ids = completions[p, s, : lengths[p, s]]
    text = task.text_of(ids)
    steps = text.splitlines()  # if the task has no steps
    if judged.step_ids is not None:
      numbers = np.asarray(judged.step_ids)[p, s, : lengths[p, s]]
      count = int(numbers.max(initial=-1)) + 1
      steps = [task.text_of(ids[numbers == k]) for k in range(count)]
    # These are added to the fields of the problem.
    fields = {
      "steps": steps,
      "correct": int(judged.correct[p, s]),
      "score": float(judged.scores[p, s]),
    }
    return dataclasses.replace(
      blank, completion=text, meta={**blank.meta, **fields}
    )

  return [
    [item_of(blank, p, s) for s in range(lengths.shape[1])]
    for p, blank in enumerate(task.items(problems))
  ]
