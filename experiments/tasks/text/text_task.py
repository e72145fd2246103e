r"""Text tasks: problems from a dataset, a tokenizer, and a verifier.

The file of a new task has about 40 lines; `experiments/tasks/README.md` shows
one in full. It reads examples and passes them to `build` with a verifier, a
function of `rewards.verifiers` that compares completions with the reference
answer:

  Example("2 + 3?", solution="2+3=5\n#### 5", answer="5")
    question   is the text of the prompt              (prompting.py)
    solution   is the completion of a demonstration   (TextTask.demonstrate)
    answer     is the verifier's reference            (TextTask.score)

This file has, in this order: `Example`, the settings that all text tasks share
(`TextOptions`), `build`, and `TextTask` with the methods of a task. All
functions read values of numpy arrays, so `jax.jit` cannot compile them.

Shapes: N problems of a dataset, P problems of a batch, S samples (completions)
per problem, L prompt tokens, T completion tokens, K steps of reasoning.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from experiments.data import epochs, json_lines, overlap
from experiments.tasks.task import Judged, Problems, Task, spec
from experiments.tasks.text import prompting
from models import tokenizer
from rewards.process import segmentation
from rewards.verifiers import Item, Outcome, equations
from rl import registry, types

Array = np.ndarray
Verify = Callable[[Sequence[Item]], list[Outcome]]

TOO_LONG = ("drop", "cut", "refuse")
TIMEOUT = "timeout"  # part of an `Outcome`: 1 if judging ran out of time
# Line j of the test file, counted from 0, is the problem with this id plus j.
# The id does not depend on the number of train problems, so that results of one
# test problem can be compared between runs. Ids of train problems begin at 0.
FIRST_TEST_ID = 2**30
# Outcome of a completion that has no end token or is blank: wrong, no answer.
NO_ANSWER = Outcome(score=0.0, verdict=0, answer="", answer_id=-1)


@dataclasses.dataclass(frozen=True)
class Example:
  """One problem of a dataset.

  Attributes:
    question: text of the question, stripped.
    solution: completion that demonstrations show, stripped and without EOS; ""
      if the dataset has none.
    answer: reference answer, in the form that the verifier reads: "5", and not
      "#### 5" (`write_answer` of `build` adds the mark).
    meta: further values that the verifier reads (tests, constraints).
  """

  question: str
  solution: str
  answer: str
  meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


# `(line, example) -> score`, the score of a line as a step of reasoning.
ScoreLine = Callable[[str, Example], float]


@dataclasses.dataclass(frozen=True)
class TextOptions:
  """Settings that all text tasks share, such as `gsm8k(thinking=False)`.

  Attributes:
    tokenizer: folder of a Hugging Face tokenizer or model. "" trains a
      byte-level BPE on the train split.
    vocab_size: largest number of tokens of the trained BPE.
    cache: local folder in which prepared data and the trained BPE are kept.
    prompt_length: L, the largest number of tokens of a prompt. None makes the
      task compute its default, and is allowed only in tasks that do (`gsm8k`).
    completion_length: T, the largest number of tokens of a completion, EOS
      included. None makes the task compute its default, as for `prompt_length`.
    chat: True makes prompts conversations, False makes them texts to be
      continued, "auto" makes them conversations where the tokenizer has a chat
      template.
    instruction: line after the question. None adds the task's own instruction
      with a tokenizer from a folder, and no instruction with the trained BPE,
      since a policy trained on nothing but the task cannot understand one.
    system: system turn of a conversation, or first line of a text.
    thinking: value of the chat template's variable `enable_thinking`. None
      leaves the variable undefined.
    special_tokens: texts of special tokens that become these tokens where they
      occur in a question or a solution, such as ("<think>", "</think>"). Other
      ones are ordinary text there, so that no line of a dataset ends a turn.
    too_long: what happens to a prompt of more than L tokens, in both splits.
      "drop" leaves the problem out, "refuse" raises an error, "cut" keeps the
      last L tokens (see `prompting.shorten`).
    steps: whether the lines of a completion are scored as steps of reasoning
      (see `TextTask.score_lines`).
    max_steps: K, the largest number of steps of reasoning. The lines from the
      K-th to the end of a completion are one step.

  Raises:
    ValueError: if a value is not allowed.
  """

  tokenizer: str = ""
  vocab_size: int = 2048
  cache: str = "~/.cache/extremum"
  prompt_length: int | None = 512
  completion_length: int | None = 512
  chat: bool | str = "auto"
  instruction: str | None = None
  system: str = ""
  thinking: bool | None = None
  special_tokens: tuple[str, ...] = ()
  too_long: str = "drop"
  steps: bool = False
  max_steps: int = 16

  def __post_init__(self) -> None:
    if isinstance(self.chat, str) and self.chat != "auto":
      allowed = ("True", "False", "auto")
      raise ValueError(registry.describe_unknown("chat", self.chat, allowed))
    if self.too_long not in TOO_LONG:
      raise ValueError(
        registry.describe_unknown("too_long", self.too_long, TOO_LONG)
      )
    for name in ("prompt_length", "completion_length", "max_steps"):
      value = getattr(self, name)
      if value is not None and value < 1:
        raise ValueError(f"{name}={value} must be at least 1")


def with_text_options(**defaults: Any) -> Callable[..., Callable[..., Task]]:
  """Returns a decorator that adds the settings of `TextOptions` to a factory.

  A factory is the function that builds a task. Example:

    @with_text_options(completion_length=1024)
    def math(options: TextOptions, dataset: str = "math") -> Task: ...

    math(dataset="math500", chat=False)  # calls the function above with
                                         # TextOptions(completion_length=1024,
                                         #             chat=False)

  The signature of the decorated factory has the parameters of the function,
  without `options`, and then all shared settings, so that `tasks.settings`
  lists them and `tasks.get` checks them.

  Args:
    **defaults: the task's defaults of shared settings, where they differ from
      those of `TextOptions`.
  """
  fields = {field.name: field for field in dataclasses.fields(TextOptions)}

  def decorate(make: Callable[..., Task]) -> Callable[..., Task]:
    @functools.wraps(make)
    def factory(**settings: Any) -> Task:
      shared = {
        name: settings.pop(name) for name in fields.keys() & settings.keys()
      }
      return make(TextOptions(**{**defaults, **shared}), **settings)

    # The first parameter of `make` is `options`.
    _, *parameters = inspect.signature(make).parameters.values()
    kind = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=kind) for parameter in parameters]
    for name, field in fields.items():
      default = defaults.get(name, field.default)
      annotation = field.type
      if default is not None:
        # A setting whose default is not None does not accept None, so that
        # `prompt_length=None` is refused where the task computes no length.
        annotation = annotation.removesuffix(" | None")
      parameters.append(
        inspect.Parameter(name, kind, default=default, annotation=annotation)
      )
    factory.__signature__ = inspect.Signature(parameters)
    return factory

  return decorate


def score_equations(line: str, example: Example) -> float:
  """Returns 1 if all equations of a line are true, -1 if one is false, else 0.

  `rewards.verifiers.equations` reads the equations.
  """
  del example  # an equation is true or false in any problem
  return equations.score(line)


def build(
  name: str,
  splits: Mapping[str, Sequence[Example]],
  options: TextOptions,
  verify: Verify,
  *,
  instruction: str = "",
  write_answer: Callable[[str], str] = str,
  parts: Sequence[str] = (),
  answer_mark: str = "",
  score_line: ScoreLine = score_equations,
  files: Mapping[str, os.PathLike] = MappingProxyType({}),
  description: str = "",
  notes: Sequence[str] = (),
) -> Task:
  """Builds a task from examples and a verifier.

  A train problem whose solution has more than T tokens is left out; a test
  problem is not, because an evaluation does not read solutions. Prompts of more
  than L tokens are treated as `options.too_long` says. `test(n)` returns the
  first n problems of the test split in a fixed random order. The task's `notes`
  count the problems that are left out or cut.

  Args:
    name: name of the dataset.
    splits: `{"train": examples, "test": examples}`. Without "train" the task is
      for evaluation alone.
    options: the shared settings, in which both lengths are numbers.
    verify: judges completions; see `rewards.verifiers`. Its attribute `note`,
      if it has one, is added to the task's notes.
    instruction: the task's own line after the question.
    write_answer: `answer -> completion`, the shortest completion with that
      answer: `"5" -> "#### 5"`. By default the completion is the answer itself.
    parts: names in `Outcome.parts` that are logged as components of the score.
      The value is 0 for an outcome without that part.
    answer_mark: text at which the answer of a completion begins, such as
      "####". With a mark, the task has the views "reference" and
      "bare_reference" (see `TextTask.reference_view`); "" makes no views.
    score_line: scores a line of a completion as a step, if `options.steps`.
    files: file of each split, named in error messages.
    description: settings that the task's name shows, such as "solution=plain".
    notes: further notes of the task.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: if a question is in both splits, the tokenizer cannot be used,
      no problem of a split remains, or a prompt is too long and `too_long` is
      "refuse".
  """
  questions = {
    split: [example.question for example in examples]
    for split, examples in splits.items()
  }
  overlap.check_disjoint(name, questions, files)

  template, end_ids = _load_template(splits, options, instruction)
  hf_tokenizer = template.tokenizer
  eos_id, pad_id = end_ids[0], hf_tokenizer.pad_token_id
  if pad_id is None:
    pad_id = eos_id  # lengths and masks tell padding from a real EOS

  # All N problems in tokens: first the train split, then the test split, each
  # in the order of its file.
  examples = [
    example for split in json_lines.SPLITS for example in splits.get(split, ())
  ]
  prompts = template.encode([example.question for example in examples])
  texts = [example.solution for example in examples]
  solutions = [[*ids, eos_id] for ids in template.encode_completions(texts)]
  # The id of a token in `special_tokens` need not be below the required size of
  # the vocabulary.
  vocab_size = max(
    tokenizer.required_vocab_size(hf_tokenizer, end_ids),
    1 + max(itertools.chain(*prompts, *solutions)),
  )

  # The problems that are used, as indices from 0 to N - 1.
  num_train = len(splits.get("train", ()))
  train_indices, test_indices, all_notes = _select_problems(
    name, num_train, prompts, solutions, options
  )
  verifier_note = getattr(verify, "note", "")
  if verifier_note:
    all_notes.append(f"{name}: {verifier_note}")
  all_notes += notes
  num_test = len(examples) - num_train
  ids = np.concatenate(
    [np.arange(num_train), FIRST_TEST_ID + np.arange(num_test)]
  )

  # Views need the tokens of reference answers; step scores need the tokens that
  # contain a line break.
  references: list[list[int]] = []
  if answer_mark:
    answers = [write_answer(example.answer) for example in examples]
    # They follow a thought, in texts of every kind.
    references = [
      [*ids, eos_id]
      for ids in tokenizer.encode_continuation(hf_tokenizer, answers)
    ]
  separators: tuple[int, ...] = ()
  if options.steps:
    separators = tokenizer.ids_containing(hf_tokenizer, "\n")
  text_task = TextTask(
    name=name,
    options=options,
    template=template,
    vocab_size=vocab_size,
    end_ids=end_ids,
    pad_id=pad_id,
    examples=examples,
    prompts=[
      prompting.shorten(ids, options.prompt_length, hf_tokenizer.bos_token_id)
      for ids in prompts
    ],
    solutions=solutions,
    ids=ids.astype(np.int32),
    train_indices=train_indices,
    test_indices=test_indices,
    verify=verify,
    write_answer=write_answer,
    parts=tuple(parts),
    separators=separators,
    score_line=score_line,
    answer_mark=answer_mark,
    references=references,
  )
  settings = [
    description,
    f"vocab_size={vocab_size}",
    "chat=True" if template.conversation else "",
  ]
  return Task(
    name=f"{name}({', '.join(filter(None, settings))})",
    vocab_size=vocab_size,
    eos_id=eos_id,
    stop_ids=end_ids[1:],
    pad_id=pad_id,
    prompt_length=options.prompt_length,
    completion_length=options.completion_length,
    train=text_task.train,
    test=text_task.test,
    score=text_task.score,
    demonstrate=text_task.demonstrate,
    gold=text_task.gold,
    decode=text_task.decode,
    encode=text_task.encode,
    encode_turns=template.encode_turns if template.conversation else None,
    encode_completion=text_task.encode_completion,
    questions=text_task.questions,
    records=text_task.records,
    judged_spec=text_task.judged_spec,
    jittable=False,
    notes=tuple(all_notes),
    fingerprints={
      "tokenizer": tokenizer.fingerprint(hf_tokenizer),
      "problems": _fingerprint(num_train, prompts, solutions, examples),
    },
  )


def _fingerprint(
  num_train: int,
  prompts: Sequence[list[int]],
  solutions: Sequence[list[int]],
  examples: Sequence[Example],
) -> str:
  """Returns 16 hex digits that change with the problems of the train split."""
  digest = hashlib.sha256()
  for i in range(num_train):
    parts = (prompts[i], solutions[i], examples[i].answer)
    digest.update(repr(parts).encode("utf-8", "backslashreplace"))
  return digest.hexdigest()[:16]


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class TextTask:
  """N problems in tokens, and the functions of a `Task` as methods.

  Each problem has an index from 0 to N - 1: first the train split, then the
  test split, each in the order of its file. `Problems.facts["row"]` `[P]` has
  the indices of a batch.

  Attributes:
    name: name of the dataset, for messages.
    options: the settings of all text tasks, with L, T and K.
    template: text around a question, and the tokenizer.
    vocab_size: number of token ids.
    end_ids: tokens that end a completion. The first of them ends
      demonstrations, and is called EOS below.
    pad_id: token that fills arrays up.
    examples: the N problems as texts.
    prompts: N lists of token ids, each cut to its last L tokens.
    solutions: N lists of token ids, each with EOS; some may exceed T.
    ids: `[N]` int32, identity of each problem (`Problems.ids`).
    train_indices, test_indices: indices of the problems that are used.
      `test_indices` has the order in which they are evaluated.
    verify: judges completions.
    write_answer: `answer -> completion`, as in `build`.
    parts: names of the parts of an outcome that are logged.
    separators: ids of the tokens that contain a line break; empty if there are
      no step scores.
    score_line: scores a line as a step of reasoning.
    answer_mark: text at which an answer begins; "" if there are no views.
    references: N lists of token ids, the results of `write_answer` with EOS;
      empty if there are no views.
  """

  name: str
  options: TextOptions
  template: prompting.Template
  vocab_size: int
  end_ids: tuple[int, ...]
  pad_id: int
  examples: Sequence[Example]
  prompts: Sequence[list[int]]
  solutions: Sequence[list[int]]
  ids: Array
  train_indices: Array
  test_indices: Array
  verify: Verify
  write_answer: Callable[[str], str]
  parts: tuple[str, ...]
  separators: tuple[int, ...]
  score_line: ScoreLine
  answer_mark: str
  references: Sequence[list[int]]

  # Problems.

  def train(self, key: Any, step: Any, n: int) -> Problems:
    """Returns the n problems of a training step, in shuffled epochs.

    Args:
      key, step, n: same as in `epochs.batch`.

    Raises:
      ValueError: if the task has no train split.
    """
    if not len(self.train_indices):
      raise ValueError(
        f"{self.name} has no train problems, only {len(self.test_indices)} to "
        "evaluate on; training needs a train file too"
      )
    return self._problems(epochs.batch(self.train_indices, key, step, n))

  def test(self, n: int) -> Problems:
    """Returns the first n held-out problems."""
    num_test = len(self.test_indices)
    if n > num_test:
      raise ValueError(
        f"n={n} test problems, but {self.name} has {num_test}; ask for 1 to "
        f"{num_test}"
      )
    return self._problems(self.test_indices[:n])

  def _problems(self, indices: Array) -> Problems:
    """Returns the problems with the indices `[P]` as arrays."""
    length = self.options.prompt_length
    tokens = np.full((len(indices), length), self.pad_id, np.int32)  # [P, L]
    mask = np.zeros(tokens.shape, bool)
    for i, index in enumerate(indices):
      start = length - len(self.prompts[index])  # padding is on the left
      tokens[i, start:], mask[i, start:] = self.prompts[index], True
    indices = np.asarray(indices, np.int32)
    return Problems(tokens, mask, ids=self.ids[indices], facts={"row": indices})

  # Texts and tokens.

  def encode(self, question: str) -> list[int]:
    """Returns the token ids of a prompt with this question."""
    return self.template.encode([question])[0]

  def encode_completion(self, text: str) -> list[int]:
    """Returns the token ids of a completion, EOS included."""
    return [*self.template.encode_completions([text])[0], self.end_ids[0]]

  def questions(self, problems: Problems) -> list[str]:
    """Returns the questions of P problems, without the template."""
    return [self.examples[i].question for i in problems.facts["row"]]

  def records(self, problems: Problems) -> list[Item]:
    """Returns question, reference and fields of P problems."""
    examples = [self.examples[i] for i in problems.facts["row"]]
    return [Item(e.question, "", e.answer, e.meta) for e in examples]

  def decode(self, ids: Any) -> str:
    """Returns the text of token ids, with special tokens but no padding.

    If the pad token is EOS, an EOS at the end is removed with the padding.
    """
    ids = np.asarray(ids)
    (positions,) = np.nonzero(ids != self.pad_id)
    if not len(positions):
      return ""
    # Padding is at both ends. A pad token between other tokens is a real EOS.
    unpadded = ids[positions[0] : positions[-1] + 1]
    return self.template.tokenizer.decode(
      unpadded.tolist(), clean_up_tokenization_spaces=False
    )

  def demonstrate(self, key: Any, problems: Problems) -> tuple[Array, Array]:
    """Returns the dataset's solutions `[P, T]` with EOS, and lengths `[P]`."""
    del key  # each problem has only one solution to choose from
    return self._pad([self.solutions[i] for i in problems.facts["row"]])

  def gold(self, problems: Problems) -> tuple[Array, Array]:
    """Returns completions `[P, T]` of the reference answers, and lengths `[P]`.

    A completion is the result of `write_answer` and EOS, without reasoning.
    """
    answers = [
      self.write_answer(self.examples[i].answer) for i in problems.facts["row"]
    ]
    rows = self.template.encode_completions(answers)
    return self._pad([[*ids, self.end_ids[0]] for ids in rows])

  def _pad(self, completions: Sequence[list[int]]) -> tuple[Array, Array]:
    """Returns completions as tokens `[P, T]`, and their lengths `[P]`."""
    lengths = np.array([len(ids) for ids in completions], np.int32)
    longest, limit = lengths.max(initial=0), self.options.completion_length
    if longest > limit:
      raise ValueError(
        f"completion_length={limit} is too small for a reference completion of "
        f"{longest} tokens; set completion_length to {longest} or more"
      )
    tokens = np.full((len(completions), limit), self.pad_id, np.int32)
    for i, ids in enumerate(completions):
      tokens[i, : lengths[i]] = ids
    return tokens, lengths

  # Scores.

  def score(
    self, problems: Problems, completions: Any, lengths: Any, finished: Any
  ) -> Judged:
    """Judges completions with the verifier.

    A completion that has no end token, a blank text, or thoughts that do not
    end, is wrong and has no answer; the verifier does not judge it. Without an
    end token it may be cut inside a number.

    `Judged.extras["timeout"]` is 1 where the verifier, or a program that it
    ran, ran out of time, and else 0.

    Args:
      problems: P problems.
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, number of tokens without padding.
      finished: `[P, S]` bool, whether an end token ends the completion.
    """
    completions, lengths = np.asarray(completions), np.asarray(lengths)
    grid = lengths.shape  # (P, S)
    texts = self._texts(completions, lengths)  # P * S
    outcomes = self._outcomes(problems, texts, np.asarray(finished).ravel())

    def as_array(values: Sequence[Any], dtype: Any) -> Array:
      return np.array(values, dtype).reshape(grid)

    verdicts = as_array([outcome.verdict for outcome in outcomes], np.int8)
    answer_ids = as_array([outcome.answer_id for outcome in outcomes], np.int32)
    parts = {
      name: as_array(
        [outcome.parts.get(name, 0.0) for outcome in outcomes], np.float32
      )
      for name in (*self.parts, TIMEOUT)
    }
    views = {}
    if self.answer_mark:
      # A thought is the text before the last mark, or all text without a mark.
      mark = self.answer_mark
      thoughts = [
        text.rpartition(mark)[0] if mark in text else text for text in texts
      ]
      views["reference"] = self.reference_view(
        problems, thoughts, self.options.completion_length
      )
      no_thoughts = [""] * len(problems.ids)
      views["bare_reference"] = self.reference_view(problems, no_thoughts, 0)
    steps = {}
    if self.options.steps:
      steps = self.score_lines(problems, completions, lengths, verdicts)
    return Judged(
      scores=as_array([outcome.score for outcome in outcomes], np.float32),
      correct=verdicts,
      answer_ids=answer_ids,
      scored=verdicts >= 0,
      components={
        "answered": (answer_ids >= 0).astype(np.float32),
        **{name: parts[name] for name in self.parts},
      },
      extras={TIMEOUT: parts[TIMEOUT]},
      views=views,
      **steps,
    )

  def judged_spec(self, P: int, S: int, T: int) -> Judged:
    """Returns the shapes and dtypes of the result of `score`."""
    values = spec(np.float32, P, S)
    K = self.options.max_steps
    steps, views = {}, {}
    if self.options.steps:
      steps = {
        "step_ids": spec(np.int32, P, S, T),
        "step_scores": spec(np.float32, P, S, K),
        "step_mask": spec(bool, P, S, K),
      }
    if self.answer_mark:
      limit = self.options.completion_length
      for name, samples, max_thought in (
        ("reference", S, limit),
        ("bare_reference", 1, 0),
      ):
        width = max_thought + max(map(len, self.references))
        views[name] = types.Tokens(
          prompts=spec(np.int32, P, self.options.prompt_length),
          prompt_mask=spec(bool, P, self.options.prompt_length),
          completions=spec(np.int32, P, samples, width),
          lengths=spec(np.int32, P, samples),
          mask=spec(bool, P, samples, width),
        )
    return Judged(
      scores=values,
      correct=spec(np.int8, P, S),
      answer_ids=spec(np.int32, P, S),
      scored=spec(bool, P, S),
      components=dict.fromkeys(("answered", *self.parts), values),
      extras={TIMEOUT: values},
      views=views,
      **steps,
    )

  def _texts(self, completions: Array, lengths: Array) -> list[str]:
    """Returns the P * S texts of completions `[P, S, T]`, without end token."""
    flat_completions = completions.reshape(lengths.size, -1)  # [P * S, T]
    return self._completion_texts(
      completion[:length]
      for completion, length in zip(
        flat_completions, lengths.ravel(), strict=True
      )
    )

  def _completion_texts(self, rows: Iterable[Array]) -> list[str]:
    """Returns parts of completions as texts, without end tokens."""
    return tokenizer.decode(self.template.tokenizer, rows, self.end_ids)

  def _outcomes(
    self, problems: Problems, texts: Sequence[str], finished: Array
  ) -> list[Outcome]:
    """Returns the outcomes of P * S texts.

    Args:
      problems: P problems.
      texts: P * S completions: first the S completions of the first problem.
      finished: `[P * S]` bool, whether an end token ends the completion.
    """
    indices = np.asarray(problems.facts["row"])  # [P]
    samples = len(texts) // len(indices)
    items = []
    for index, text in zip(np.repeat(indices, samples), texts, strict=True):
      example = self.examples[index]
      meta = {**example.meta, "row": int(index)}
      items.append(Item(example.question, text, example.answer, meta))
    judged = [
      i
      for i, item in enumerate(items)
      if finished[i] and item.completion.strip()
    ]
    outcomes = [NO_ANSWER] * len(items)
    # `rollouts.abstract_rollout` scores blank completions to learn the shapes
    # of a rollout. Such a call must not start a pool of worker processes.
    if judged:
      results = self.verify([items[i] for i in judged])
      for i, outcome in zip(judged, results, strict=True):
        outcomes[i] = outcome
    return outcomes

  def reference_view(
    self, problems: Problems, thoughts: Sequence[str], max_thought: int
  ) -> types.Tokens:
    r"""Returns texts in which the reference answer follows each thought.

    A view is a text whose likelihood the policy computes. In the view
    "reference" the reference answer replaces the answer of a sample. Example:
    the completion "2+3=6\n#### 6" has the thought "2+3=6\n"; with the reference
    answer 5 its view is "2+3=6\n#### 5" and EOS, and the mask is True on the
    tokens of "#### 5" and EOS. In the view "bare_reference" the answer follows
    the prompt, without a thought. Thought and answer are tokenized separately.

    Args:
      problems: P problems.
      thoughts: P * S texts: first the S thoughts of the first problem.
      max_thought: largest number of tokens of a thought; further tokens are cut
        off.

    Returns:
      Tokens with completions `[P, S, max_thought + R]`, where R is the number
      of tokens of the longest reference among all N problems.
    """
    samples = len(thoughts) // len(problems.ids)
    indices = np.repeat(np.asarray(problems.facts["row"]), samples)  # [P * S]
    width = max_thought + max(map(len, self.references))
    tokens = np.full((len(indices), width), self.pad_id, np.int32)
    lengths = np.zeros(len(indices), np.int32)
    mask = np.zeros(tokens.shape, bool)
    thought_ids = self.template.encode_completions(thoughts)
    for i, index in enumerate(indices):
      thought = thought_ids[i][:max_thought]
      ids = [*thought, *self.references[index]]
      tokens[i, : len(ids)], lengths[i] = ids, len(ids)
      mask[i, len(thought) : len(ids)] = True
    grid = len(problems.ids), samples  # (P, S)
    return types.Tokens(
      prompts=problems.prompts,
      prompt_mask=problems.prompt_mask,
      completions=tokens.reshape(*grid, width),
      lengths=lengths.reshape(grid),
      mask=mask.reshape(*grid, width),
    )

  def score_lines(
    self,
    problems: Problems,
    completions: Array,
    lengths: Array,
    verdicts: Array,
  ) -> dict[str, Array]:
    r"""Scores each line of a completion as a step of reasoning.

    `score_line` scores a line. In most tasks (`score_equations`) a line scores
    1 if all its equations are true, -1 if one is false, and 0 if it has no
    equation. The last line of a completion counts as its answer, whatever it
    contains: it scores 1, -1 or 0 if the verdict is right, wrong or unknown.
    The wrong completion

      "2+3=5\n5*2=11\nSo it is\n#### 11"

    scores 1, -1, 0, -1. `rewards.verifiers.equations` reads the equations and
    lists the limits of this score: the line `1 + 1 = 2`, for example, is true
    and useless, and scores 1. Lines before `</think>` are steps like the lines
    after it. Every token that contains a line break ends a line.

    Args:
      problems: P problems.
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, number of tokens without padding.
      verdicts: `[P, S]`, 1 right, 0 wrong, -1 unknown.

    Returns:
      A dict with "step_ids" `[P, S, T]`, and "step_scores" and "step_mask"
      `[P, S, K]`, as in `Judged`.
    """
    max_steps = self.options.max_steps
    # `rollouts.abstract_rollout` calls this with numpy arrays inside a trace,
    # where jax functions would otherwise return tracers without values.
    with jax.ensure_compile_time_eval():
      step_ids = segmentation.segment_steps(
        completions, lengths, self.separators, max_steps
      )
      mask = np.asarray(segmentation.step_mask(step_ids, max_steps))
      step_ids = np.asarray(step_ids)
    positions = np.argwhere(mask)  # of the lines, each (p, s, k)
    lines = self._completion_texts(
      completions[p, s][step_ids[p, s] == k] for p, s, k in positions
    )
    examples = [self.examples[i] for i in problems.facts["row"]]
    scores = np.zeros(mask.shape, np.float32)
    scores[mask] = [
      self.score_line(line, examples[p])
      for line, (p, _, _) in zip(lines, positions, strict=True)
    ]
    # Position in P, and position in S, of each sample that has a line.
    prompt, sample = np.nonzero(mask.any(-1))
    last_line = step_ids.max(-1)[prompt, sample]
    verdict = verdicts.astype(np.int32)[prompt, sample]
    # Verdict 1 scores 1, verdict 0 scores -1, and verdict -1 scores 0.
    answer_score = np.where(verdict < 0, 0, 2 * verdict - 1)
    scores[prompt, sample, last_line] = answer_score
    return {"step_ids": step_ids, "step_scores": scores, "step_mask": mask}


def _load_template(
  splits: Mapping[str, Sequence[Example]],
  options: TextOptions,
  instruction: str,
) -> tuple[prompting.Template, tuple[int, ...]]:
  """Returns the template of prompts, with its tokenizer, and the end tokens.

  Without a tokenizer from a folder, a BPE is trained on the train examples.

  Args:
    splits: examples of each split.
    options: the shared settings.
    instruction: the task's own line after the question.
  """
  folder = options.tokenizer
  if not folder:
    texts = []
    for example in splits.get("train", ()):
      texts += [f"{example.question}\n", example.solution]
    folder = prompting.train_tokenizer(texts, options.vocab_size, options.cache)
    instruction = ""
  if options.instruction is not None:
    instruction = options.instruction
  hf_tokenizer = tokenizer.load(folder)
  template = prompting.Template(
    tokenizer=hf_tokenizer,
    conversation=prompting.is_conversation(hf_tokenizer, options.chat),
    instruction=instruction,
    system=options.system,
    thinking=options.thinking,
    special_tokens=tuple(options.special_tokens),
  )
  return template, prompting.end_ids(template, folder)


def _select_problems(
  name: str,
  num_train: int,
  prompts: Sequence[list[int]],
  solutions: Sequence[list[int]],
  options: TextOptions,
) -> tuple[Array, Array, list[str]]:
  """Selects the problems that are used, by the rules of `build`.

  Args:
    name: name of the dataset.
    num_train: number of train problems, which come before the test problems.
    prompts, solutions: N lists of token ids.
    options: has L, T and `too_long`.

  Returns:
    Indices of train problems, indices of test problems in the order in which
    they are evaluated, and a note for each split.
  """
  train = np.arange(num_train)
  test = np.arange(num_train, len(prompts))
  prompt_lengths = np.array([len(ids) for ids in prompts])
  solution_fits = np.array(
    [len(ids) <= options.completion_length for ids in solutions]
  )
  notes = []
  if len(train):
    train, note = _select_that_fit(
      name, "train", train, prompt_lengths, solution_fits, options
    )
    notes.append(note)
  if len(test):
    # The whole split is shuffled before the selection, so that a problem that
    # is left out does not change the order of the others.
    order = np.random.default_rng(0).permutation(test)
    # Solutions of test problems may have any length, so that the test problems
    # do not depend on T.
    every_solution_fits = np.ones_like(solution_fits)
    test, note = _select_that_fit(
      name, "test", test, prompt_lengths, every_solution_fits, options
    )
    test = order[np.isin(order, test)]
    notes.append(note)
  return train, test, notes


def _select_that_fit(
  name: str,
  split: str,
  indices: Array,
  prompt_lengths: Array,
  solution_fits: Array,
  options: TextOptions,
) -> tuple[Array, str]:
  """Selects the problems of one split that are used.

  Args:
    name: name of the dataset.
    split: "train" or "test".
    indices: indices of all problems of the split.
    prompt_lengths: `[N]`, number of tokens of each prompt.
    solution_fits: `[N]` bool, False for a solution that is too long.
    options: has L and `too_long`.

  Returns:
    The indices of the problems that are used, and a note that counts the used
    problems, the others, and the prompts that are cut.
  """
  limit = options.prompt_length
  lengths = prompt_lengths[indices]
  prompt_is_long = lengths > limit
  if options.too_long == "refuse" and prompt_is_long.any():
    raise ValueError(
      f"{prompt_is_long.sum()} prompts of {name} {split} are longer than "
      f"prompt_length={limit}; the longest has {lengths.max()} tokens: set "
      f"prompt_length={lengths.max()}, or too_long='drop' or 'cut'"
    )
  fits = solution_fits[indices]
  if options.too_long == "drop":
    fits = fits & ~prompt_is_long
  selected = indices[fits]
  if not len(selected):
    limits = f"prompt_length={limit}"
    if split == "train":
      limits += f" and completion_length={options.completion_length}"
    raise ValueError(
      f"no {split} problem of {name} fits into {limits}; set a larger length"
    )
  num_dropped = len(indices) - len(selected)
  note = (
    f"{name} {split}: {len(selected)} problems, {num_dropped} too long and "
    "left out"
  )
  num_cut = int((prompt_is_long & fits).sum())
  if num_cut:
    note += f", {num_cut} prompts cut to {limit} tokens"
  return selected, note
