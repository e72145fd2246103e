r"""Text tasks: problems from a dataset, a tokenizer, and a verifier.

A task of one's own is a file of about 40 lines; `experiments/tasks/README.md`
has one in full. It reads examples and hands them to `build` with a verifier:

  Example("2 + 3?", solution="2+3=5\n#### 5", answer="5")
    question   becomes the prompt                   (prompting.py)
    solution   becomes the demonstration            (TextTask.demonstrate)
    answer     is what the verifier compares with   (TextTask.score)

This file has, in this order: `Example`, the settings that all text tasks share
(`TextOptions`), `build`, and `TextTask` with the methods of a task. Everything
here is numpy on the host; no function may run inside jit.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import os
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import jax
import numpy as np

from experiments.data import json_lines, overlap
from experiments.tasks.task import Judged, Problems, Task
from experiments.tasks.text import prompting
from models import tokenizer
from rewards.process import segmentation
from rewards.verifiers import Item, Outcome, equations
from rl import registry, types

Array = np.ndarray
Verify = Callable[[Sequence[Item]], list[Outcome]]

TOO_LONG = ("drop", "cut", "refuse")
TIMEOUT = "timeout"  # part of an `Outcome`: 1 if judging ran out of time
# Problem j of the test split has this id plus j, whether the train split is
# there or not, so that results of the same test problem can be compared.
FIRST_TEST_ID = 2**30
# Outcome of a completion that did not finish or is blank: wrong, no answer.
NO_ANSWER = Outcome(score=0.0, verdict=0, answer="", answer_id=-1)


@dataclasses.dataclass(frozen=True)
class Example:
  """One problem of a dataset.

  Attributes:
    question: text of the question, stripped.
    solution: completion that demonstrations show, stripped; "" if the dataset
      has none.
    answer: reference answer, in the form that the verifier reads.
    meta: further values that the verifier reads (tests, constraints).
  """

  question: str
  solution: str
  answer: str
  meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class TextOptions:
  """Settings that all text tasks share: `gsm8k(thinking=False)`.

  Attributes:
    tokenizer: folder of a Hugging Face tokenizer or model. "" trains a BPE on
      the train split.
    vocab_size: largest number of tokens of that BPE.
    cache: local folder for prepared data and that BPE, which are made once.
    prompt_length: L, the largest number of tokens of a prompt. None is for a
      task that computes its default (`gsm8k`).
    completion_length: T, the largest number of tokens of a completion. None is
      as for `prompt_length`.
    chat: True makes prompts conversations, False makes them texts to be
      continued, "auto" makes them conversations where the tokenizer has a chat
      template.
    instruction: line after the question. None takes the task's own with a
      tokenizer from a folder, and no instruction with the trained BPE, since a
      policy that reads the task's text alone cannot know what it asks.
    system: system turn of a conversation, or first line of a text.
    thinking: value of the chat template's variable `enable_thinking`. None
      leaves it undefined.
    too_long: what happens to a prompt of more than L tokens. "drop" leaves the
      problem out, "refuse" raises an error, "cut" keeps the last L tokens (see
      `prompting.shorten`).
    steps: whether the lines of a completion are scored as steps of reasoning
      (see `score_lines`).
    max_steps: K, the largest number of steps. What follows the K-th line
      belongs to it.

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
        raise ValueError(f"{name}={value} must be at least 1; nearest: 1")


def with_text_options(**defaults: Any) -> Callable[..., Callable[..., Task]]:
  """Decorator of a task's factory that adds the settings of `TextOptions`.

    @with_text_options(completion_length=1024)
    def math(options: TextOptions, dataset: str = "math") -> Task: ...

    math(dataset="math500", chat=False)  # calls the function above with
                                         # TextOptions(completion_length=1024,
                                         #             chat=False)

  The factory's signature shows the function's parameters and then all shared
  settings, so that `tasks.settings` lists them and `tasks.get` checks them.

  Args:
    **defaults: the task's defaults of shared settings, where they differ.
  """
  fields = {field.name: field for field in dataclasses.fields(TextOptions)}

  def decorate(make: Callable[..., Task]) -> Callable[..., Task]:
    @functools.wraps(make)
    def factory(**settings: Any) -> Task:
      shared = {
        name: settings.pop(name) for name in fields.keys() & settings.keys()
      }
      return make(TextOptions(**{**defaults, **shared}), **settings)

    _, *parameters = inspect.signature(make).parameters.values()
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [parameter.replace(kind=keyword) for parameter in parameters]
    for name, field in fields.items():
      default = defaults.get(name, field.default)
      annotation = field.type
      if default is not None:
        # None stands for a default that the task computes, so it is allowed
        # only where it is the default.
        annotation = annotation.removesuffix(" | None")
      parameters.append(
        inspect.Parameter(name, keyword, default=default, annotation=annotation)
      )
    factory.__signature__ = inspect.Signature(parameters)
    return factory

  return decorate


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
  files: Mapping[str, os.PathLike] = MappingProxyType({}),
  description: str = "",
  notes: Sequence[str] = (),
) -> Task:
  """Builds a task from examples and a verifier.

  Train problems whose solution has more than T tokens are left out. The test
  problems are those of the test split in a fixed random order, and `test(n)`
  returns the first n. The task's `notes` count what was left out.

  Args:
    name: name of the dataset.
    splits: `{"train": examples, "test": examples}`. Without "train" it is a
      task for evaluation alone.
    options: the shared settings. Neither length is None.
    verify: judges completions; see `rewards.verifiers`. Its attribute `note`,
      if it has one, is added to the task's notes.
    instruction: the task's own line after the question.
    write_answer: `answer -> completion`, the shortest completion with that
      answer: `"5" -> "#### 5"`. By default it is the answer itself.
    parts: names in `Outcome.parts` that are logged as components. A part that
      an outcome lacks is 0.
    answer_mark: text that an answer begins with, such as "####". With a mark,
      the task has the views "reference" and "bare_reference"; see
      `TextTask.reference_view`.
    files: file of each split, for messages.
    description: settings that belong to the task's name, "solution=plain".
    notes: further notes.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: if a question is in both splits, the tokenizer cannot be used,
      no problem of a split fits into L and T, or a prompt is too long and
      `too_long` is "refuse".
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

  # All problems in tokens: N = train + test, in the order of the files.
  examples = [x for split in json_lines.SPLITS for x in splits.get(split, ())]
  prompts = template.encode([example.question for example in examples])
  solutions = _encode_ended(
    hf_tokenizer, [example.solution for example in examples], eos_id
  )
  # A text may spell out a special token beyond the size of the vocabulary.
  vocab_size = max(
    tokenizer.required_vocab_size(hf_tokenizer, end_ids),
    1 + max(max(ids, default=0) for ids in (*prompts, *solutions)),
  )

  # The problems that fit, as indices from 0 to N - 1.
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

  # Tokens that only views and step scores need.
  references: list[list[int]] = []
  if answer_mark:
    answers = [write_answer(example.answer) for example in examples]
    references = _encode_ended(hf_tokenizer, answers, eos_id)
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
    jittable=False,
    notes=tuple(all_notes),
  )


@dataclasses.dataclass(frozen=True, eq=False)  # hashed by identity
class TextTask:
  """N problems in tokens, and the methods of a `Task` over them.

  A problem is known by its index from 0 to N - 1, which is
  `Problems.facts["row"]`: first the train split, then the test split.

  Attributes:
    name: name of the dataset, for messages.
    options: the settings of all text tasks, with L, T and K.
    template: text around a question, and the tokenizer.
    vocab_size: number of token ids.
    end_ids: tokens that end a completion; demonstrations end with the first.
    pad_id: token that fills arrays up.
    examples: N texts.
    prompts: N lists of token ids; those of the selected problems have at most
      L.
    solutions: N lists of token ids, EOS included.
    ids: `[N]` int32, identity of each problem.
    train_indices, test_indices: problems that fit; `test_indices` in the order
      in which they are evaluated.
    verify: judges completions.
    write_answer: `answer -> completion`.
    parts: parts of an outcome that are logged.
    separators: tokens that contain a line break; empty without step scores.
    answer_mark: text that an answer begins with; "" if there are no views.
    references: N lists of token ids of the written answers, EOS included; empty
      if there are no views.
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
  answer_mark: str
  references: Sequence[list[int]]

  # Problems.

  def train(self, key: Any, step: Any, n: int) -> Problems:
    """Returns the n problems of a training step.

    Training reads one endless sequence of shuffled epochs; step s has entries
    s * n to s * n + n - 1.
    """
    if not len(self.train_indices):
      raise ValueError(
        f"{self.name} has no train problems, only {len(self.test_indices)} to "
        "evaluate on; training needs a train file too"
      )
    entries = int(step) * n + np.arange(n)
    return self._problems(_shuffled_epochs(self.train_indices, key, entries))

  def test(self, n: int) -> Problems:
    """Returns the first n held-out problems."""
    size = len(self.test_indices)
    if n > size:
      raise ValueError(
        f"n={n} test problems, but {self.name} has {size}; ask for 1 to {size}"
      )
    return self._problems(self.test_indices[:n])

  def _problems(self, indices: Array) -> Problems:
    """The problems with these indices `[P]`, prompts padded on the left."""
    length = self.options.prompt_length
    tokens = np.full((len(indices), length), self.pad_id, np.int32)  # [P, L]
    mask = np.zeros(tokens.shape, bool)
    for i, index in enumerate(indices):
      start = length - len(self.prompts[index])
      tokens[i, start:], mask[i, start:] = self.prompts[index], True
    indices = np.asarray(indices, np.int32)
    return Problems(tokens, mask, ids=self.ids[indices], facts={"row": indices})

  # Texts and tokens.

  def encode(self, question: str) -> list[int]:
    """Returns the token ids of a prompt with this question."""
    return self.template.encode([question])[0]

  def decode(self, ids: Any) -> str:
    """Returns the text of token ids, special tokens included, without padding."""
    ids = np.asarray(ids)
    (real,) = np.nonzero(ids != self.pad_id)
    # Padding is at the ends; within, the pad token may also be a real EOS.
    inside = ids[real[0] : real[-1] + 1] if len(real) else ids[:0]
    return self.template.tokenizer.decode(
      inside.tolist(), clean_up_tokenization_spaces=False
    )

  def demonstrate(self, key: Any, problems: Problems) -> tuple[Array, Array]:
    """Returns the dataset's solutions."""
    del key  # there is one solution per problem
    return self._pad([self.solutions[i] for i in problems.facts["row"]])

  def gold(self, problems: Problems) -> tuple[Array, Array]:
    """Returns the shortest completions with the reference answers."""
    answers = [
      self.write_answer(self.examples[i].answer) for i in problems.facts["row"]
    ]
    return self._pad(
      _encode_ended(self.template.tokenizer, answers, self.end_ids[0])
    )

  def _pad(self, completions: Sequence[list[int]]) -> tuple[Array, Array]:
    """Completions as tokens `[P, T]`, and their lengths `[P]`."""
    lengths = np.array([len(ids) for ids in completions], np.int32)
    longest, limit = lengths.max(initial=0), self.options.completion_length
    if longest > limit:
      raise ValueError(
        f"completion_length={limit} cuts a solution of {longest} tokens; "
        f"allowed: {longest} or more"
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

    A completion that did not finish has no answer, since it may be cut inside a
    number. It is wrong, as a blank one is, and the verifier does not see it.

    `Judged.extras["timeout"]` is 1 where the verifier, or a program that it
    ran, ran out of time.

    Args:
      problems: P problems.
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, real tokens.
      finished: `[P, S]`, whether the completion ended by itself.
    """
    completions, lengths = np.asarray(completions), np.asarray(lengths)
    grid = lengths.shape  # (P, S)
    texts = self._texts(completions, lengths)  # P * S
    outcomes = self._outcomes(problems, texts, np.asarray(finished).ravel())

    def as_array(values: Sequence[Any], dtype: Any) -> Array:
      return np.array(values, dtype).reshape(grid)

    verdicts = as_array([o.verdict for o in outcomes], np.int8)
    answer_ids = as_array([o.answer_id for o in outcomes], np.int32)
    parts = {
      name: as_array([o.parts.get(name, 0.0) for o in outcomes], np.float32)
      for name in (*self.parts, TIMEOUT)
    }
    views = {}
    if self.answer_mark:
      mark = self.answer_mark
      thoughts = [x.rpartition(mark)[0] if mark in x else x for x in texts]
      views["reference"] = self.reference_view(
        problems, thoughts, self.options.completion_length
      )
      no_thoughts = [""] * len(problems.ids)
      views["bare_reference"] = self.reference_view(problems, no_thoughts, 0)
    steps = {}
    if self.options.steps:
      steps = self.score_lines(completions, lengths, verdicts)
    return Judged(
      scores=as_array([o.score for o in outcomes], np.float32),
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

  def _texts(self, completions: Array, lengths: Array) -> list[str]:
    """The P * S texts of completions `[P, S, T]`, without their end token."""
    rows = completions.reshape(lengths.size, -1)  # [P * S, T]
    tokens = []
    for row, length in zip(rows, lengths.ravel(), strict=True):
      ids = row[:length]
      # The tokenizer drops special tokens alone, and an end token of a
      # generation config need not be special.
      if len(ids) and ids[-1] in self.end_ids:
        ids = ids[:-1]
      tokens.append(ids)
    return tokenizer.decode(self.template.tokenizer, tokens, self.vocab_size)

  def _outcomes(
    self, problems: Problems, texts: Sequence[str], finished: Array
  ) -> list[Outcome]:
    """The outcomes of P * S texts; S texts of a problem follow each other."""
    indices = np.asarray(problems.facts["row"])  # [P]
    samples = len(texts) // len(indices)
    items = []
    for index, text in zip(np.repeat(indices, samples), texts, strict=True):
      example = self.examples[index]
      meta = {**example.meta, "row": int(index)}
      items.append(Item(example.question, text, example.answer, meta))
    judged = [i for i, text in enumerate(texts) if finished[i] and text.strip()]
    outcomes = [NO_ANSWER] * len(items)
    # The shapes of a rollout are computed by a call with blank completions,
    # which must not start a pool of worker processes.
    if judged:
      results = self.verify([items[i] for i in judged])
      for i, outcome in zip(judged, results, strict=True):
        outcomes[i] = outcome
    return outcomes

  def reference_view(
    self, problems: Problems, thoughts: Sequence[str], max_thought: int
  ) -> types.Tokens:
    """Returns the reference answer after each thought, for its likelihood.

    The view "reference" puts it in place of the answer of a sample: of the
    completion "2+3=6\n#### 6" the thought is "2+3=6\n", and with the reference
    5 the view is "2+3=6\n#### 5" with EOS. Its mask holds "#### 5" and EOS. The
    view "bare_reference" has the answer after the prompt alone, without a
    thought. Thought and answer are tokenized anew, each by itself.

    Args:
      problems: P problems.
      thoughts: P * S texts before the answer.
      max_thought: largest number of tokens of a thought; the rest is cut off.

    Returns:
      Completions `[P, S, max_thought + longest reference]`.
    """
    samples = len(thoughts) // len(problems.ids)
    indices = np.repeat(np.asarray(problems.facts["row"]), samples)  # [P * S]
    width = max_thought + max(map(len, self.references))
    tokens = np.full((len(indices), width), self.pad_id, np.int32)
    lengths = np.zeros(len(indices), np.int32)
    mask = np.zeros(tokens.shape, bool)
    thought_ids = tokenizer.encode(self.template.tokenizer, thoughts)
    for i, index in enumerate(indices):
      thought = thought_ids[i][:max_thought]
      ids = [*thought, *self.references[index]]
      tokens[i, : len(ids)], lengths[i] = ids, len(ids)
      mask[i, len(thought) : len(ids)] = True
    grid = len(problems.ids), samples  # (P, S)
    return types.Tokens(
      problems.prompts,
      problems.prompt_mask,
      tokens.reshape(*grid, width),
      lengths.reshape(grid),
      mask.reshape(*grid, width),
    )

  def score_lines(
    self, completions: Array, lengths: Array, verdicts: Array
  ) -> dict[str, Array]:
    r"""Scores each line of a completion as a step of reasoning.

    A line scores 1 if all its equations are true, -1 if one is false, and 0 if
    it has none. The last line, which has the answer, scores 1 or -1 by the
    verdict, and 0 if that is unknown. The wrong completion

      "2+3=5\n5*2=11\nSo it is\n#### 11"

    scores 1, -1, 0, -1. `rewards.verifiers.equations` reads the equations and
    says what this score cannot see: the line `1 + 1 = 2` is true and useless,
    and scores 1. Lines before `</think>` are steps like the others.

    Args:
      completions: `[P, S, T]` token ids.
      lengths: `[P, S]`, real tokens.
      verdicts: `[P, S]`, 1 right, 0 wrong, -1 unknown.

    Returns:
      `step_ids` `[P, S, T]`, `step_scores` and `step_mask` `[P, S, K]`.
    """
    max_steps = self.options.max_steps
    # The shapes of a rollout are computed by calling this inside a trace, where
    # jax functions would otherwise return tracers without values.
    with jax.ensure_compile_time_eval():
      step_ids = segmentation.segment_steps(
        completions, lengths, self.separators, max_steps
      )
      mask = np.asarray(segmentation.step_mask(step_ids, max_steps))
      step_ids = np.asarray(step_ids)
    lines = tokenizer.decode(
      self.template.tokenizer,
      [completions[p, s][step_ids[p, s] == k] for p, s, k in np.argwhere(mask)],
      self.vocab_size,
    )
    scores = np.zeros(mask.shape, np.float32)
    scores[mask] = [equations.score(line) for line in lines]
    p, s = np.nonzero(mask.any(-1))  # samples that have a line
    last = step_ids.max(-1)[p, s]
    verdict = verdicts.astype(np.int32)[p, s]
    scores[p, s, last] = np.where(verdict < 0, 0, 2 * verdict - 1)
    return {"step_ids": step_ids, "step_scores": scores, "step_mask": mask}


def _load_template(
  splits: Mapping[str, Sequence[Example]],
  options: TextOptions,
  instruction: str,
) -> tuple[prompting.Template, tuple[int, ...]]:
  """Returns the template with its tokenizer, and the end tokens."""
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
    hf_tokenizer,
    prompting.is_conversation(hf_tokenizer, options.chat),
    instruction,
    options.system,
    options.thinking,
  )
  return template, prompting.end_ids(template, folder)


def _encode_ended(
  hf_tokenizer: tokenizer.Tokenizer, texts: Sequence[str], eos_id: int
) -> list[list[int]]:
  """Token ids of each text, and EOS after them."""
  return [[*ids, eos_id] for ids in tokenizer.encode(hf_tokenizer, texts)]


def _select_problems(
  name: str,
  num_train: int,
  prompts: Sequence[list[int]],
  solutions: Sequence[list[int]],
  options: TextOptions,
) -> tuple[Array, Array, list[str]]:
  """Selects the problems that fit into L and T.

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
    # Solutions of any length fit: the test set must not change with T.
    any_length = np.ones_like(solution_fits)
    test, note = _select_that_fit(
      name, "test", test, prompt_lengths, any_length, options
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
  """Selects the problems of a split that fit, and counts the others in a note.

  Args:
    name: name of the dataset.
    split: "train" or "test".
    indices: problems of the split.
    prompt_lengths: `[N]`, tokens of each prompt.
    solution_fits: `[N]` bool.
    options: has L and `too_long`.
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
    raise ValueError(
      f"no {split} problem of {name} fits; allow a longer prompt_length or "
      "completion_length"
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


def _shuffled_epochs(indices: Array, key: Any, entries: Array) -> Array:
  """Returns some entries of an endless sequence of permutations of `indices`.

  Every epoch has each index once. An entry does not need the ones before it, so
  a run can resume at any step.
  """
  seed = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
  picked = np.empty(len(entries), indices.dtype)
  epochs, positions = np.divmod(entries, len(indices))
  for epoch in np.unique(epochs):
    order = np.random.default_rng([*seed, int(epoch)]).permutation(indices)
    in_epoch = epochs == epoch
    picked[in_epoch] = order[positions[in_epoch]]
  return picked
