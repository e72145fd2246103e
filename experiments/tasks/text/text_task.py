r"""Text tasks: problems from a dataset, a tokenizer, and a verifier.

The file of a new task has about 40 lines; `README.md` in this folder shows one
in full. It reads examples and passes them to `build` with a verifier, a
function of `rewards.verifiers` that compares completions with the reference
answer:

  Example("2 + 3?", solution="2+3=5\n#### 5", answer="5")
    question   is the text of the prompt              (prompting.py)
    solution   is the completion of a demonstration   (TextTask.demonstrate)
    answer     is the verifier's reference            (scoring.py)

`build` selects the problems, tokenizes them, and passes them to `TextTask`,
whose methods are the functions of a task. They read values of numpy arrays, so
`jax.jit` cannot compile them. `text_options.py` has the examples and settings.

Shapes: N problems of a dataset, P problems of a batch, S samples (completions)
per problem, L prompt tokens, T completion tokens.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

import numpy as np

from experiments.data import epochs, overlap, padding, split_files
from experiments.tasks.task import Problems, Task
from experiments.tasks.text import (
  length_limits,
  line_scores,
  prompting,
  reference_views,
  scoring,
)
from experiments.tasks.text.text_options import Example, TextOptions
from models import tokenizer
from rewards.verifiers import Item
from rl import UsageError

Array = np.ndarray

# Line j of the test file, counted from 0, is the problem with this id plus j.
# The id does not depend on the number of train problems, so that results of one
# test problem can be compared between runs. Ids of train problems begin at 0.
FIRST_TEST_ID = 2**30


def build(
  name: str,
  splits: Mapping[str, Sequence[Example]],
  options: TextOptions,
  verify: scoring.Verify,
  *,
  instruction: str = "",
  write_answer: Callable[[str], str] = str,
  parts: Sequence[str] = (),
  answer_mark: str = "",
  score_line: line_scores.ScoreLine = line_scores.score_equations,
  files: Mapping[str, os.PathLike] = MappingProxyType({}),
  description: str = "",
  notes: Sequence[str] = (),
) -> Task:
  """Builds a task from examples and a verifier.

  `length_limits` says which problems are used, and in which order `test(n)`
  returns them. The task's `notes` count the problems that are left out or cut.

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
      "bare_reference" (see `reference_views`); "" makes no views.
    score_line: scores a line of a completion as a step, if `options.steps`.
    files: file of each split, named in error messages.
    description: settings that the task's name shows, such as "solution=plain".
    notes: further notes of the task.

  Returns:
    The task, which is not jittable.

  Raises:
    UsageError: if a question is in both splits, the tokenizer cannot be used,
      no problem of a split remains, or a prompt is too long and `too_long` is
      "refuse".
  """
  questions = {
    split: [example.question for example in examples]
    for split, examples in splits.items()
  }
  overlap.check_disjoint(name, questions, files)

  template, end_ids = prompting.load_template(
    splits.get("train", ()), options, instruction
  )
  hf_tokenizer = template.tokenizer
  eos_id, pad_id = end_ids[0], hf_tokenizer.pad_token_id
  if pad_id is None:
    pad_id = eos_id  # lengths and masks tell padding from a real EOS

  # All N problems in tokens: first the train split, then the test split, each
  # in the order of its file.
  examples = [
    example for split in split_files.SPLITS for example in splits.get(split, ())
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
  indices = {"train": np.arange(num_train)}
  # The whole split is shuffled before the selection, so that a problem that is
  # left out does not change the order of the others.
  rng = np.random.default_rng(0)
  indices["test"] = rng.permutation(np.arange(num_train, len(examples)))
  all_notes = []
  for split in split_files.SPLITS:
    if len(indices[split]):
      indices[split], note = length_limits.select(
        name, split, indices[split], prompts, solutions, options
      )
      all_notes.append(note)
  verifier_note = getattr(verify, "note", "")
  if verifier_note:
    all_notes.append(f"{name}: {verifier_note}")
  all_notes += notes
  num_test = len(examples) - num_train
  ids = np.concatenate(
    [np.arange(num_train), FIRST_TEST_ID + np.arange(num_test)]
  )

  def decode(rows: Iterable[Array]) -> list[str]:
    return tokenizer.decode(hf_tokenizer, rows, end_ids)

  views, lines = None, None
  if answer_mark:
    answers = [write_answer(example.answer) for example in examples]
    # They follow a thought, in texts of every kind.
    references = tokenizer.encode_continuation(hf_tokenizer, answers)
    views = reference_views.ReferenceViews(
      mark=answer_mark,
      references=[[*ids, eos_id] for ids in references],
      encode=template.encode_completions,
      pad_id=pad_id,
      prompt_length=options.prompt_length,
      max_thought=options.completion_length,
    )
  if options.steps:
    lines = line_scores.LineScores(
      score_line=score_line,
      separators=tokenizer.ids_containing(hf_tokenizer, "\n"),
      max_steps=options.max_steps,
      decode=decode,
    )
  scorer = scoring.Scorer(
    examples, decode, verify, parts=tuple(parts), views=views, lines=lines
  )
  text_task = TextTask(
    name=name,
    options=options,
    template=template,
    end_ids=end_ids,
    pad_id=pad_id,
    examples=examples,
    prompts=[
      prompting.shorten(ids, options.prompt_length, hf_tokenizer.bos_token_id)
      for ids in prompts
    ],
    solutions=solutions,
    ids=ids.astype(np.int32),
    train_indices=indices["train"],
    test_indices=indices["test"],
    write_answer=write_answer,
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
    score=scorer.score,
    demonstrate=text_task.demonstrate,
    gold=text_task.gold,
    decode=text_task.decode,
    encode=text_task.encode,
    encode_turns=template.encode_turns if template.conversation else None,
    encode_completion=text_task.encode_completion,
    questions=text_task.questions,
    records=text_task.records,
    judged_spec=scorer.judged_spec,
    jittable=False,
    needs_end=True,
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
    options: the settings of all text tasks, with L and T.
    template: text around a question, and the tokenizer.
    end_ids: tokens that end a completion. The first of them ends
      demonstrations, and is called EOS below.
    pad_id: token that fills arrays up.
    examples: the N problems as texts.
    prompts: N lists of token ids, each cut to its last L tokens.
    solutions: N lists of token ids, each with EOS; some may exceed T.
    ids: `[N]` int32, identity of each problem (`Problems.ids`).
    train_indices, test_indices: indices of the problems that are used.
      `test_indices` has the order in which they are evaluated.
    write_answer: `answer -> completion`, as in `build`.
  """

  name: str
  options: TextOptions
  template: prompting.Template
  end_ids: tuple[int, ...]
  pad_id: int
  examples: Sequence[Example]
  prompts: Sequence[list[int]]
  solutions: Sequence[list[int]]
  ids: Array
  train_indices: Array
  test_indices: Array
  write_answer: Callable[[str], str]

  # Problems.

  def train(self, key: Any, step: Any, n: int) -> Problems:
    """Returns the n problems of a training step, in shuffled epochs.

    Args:
      key, step, n: same as in `epochs.batch`.

    Raises:
      UsageError: if the task has no train split.
    """
    if not len(self.train_indices):
      raise UsageError(
        f"{self.name} has no train problems, only {len(self.test_indices)} to "
        "evaluate on; training needs a train file too"
      )
    return self._problems(epochs.batch(self.train_indices, key, step, n))

  def test(self, n: int) -> Problems:
    """Returns the first n held-out problems."""
    num_test = len(self.test_indices)
    if n > num_test:
      raise UsageError(
        f"n={n} test problems, but {self.name} has {num_test}; ask for 1 to "
        f"{num_test}"
      )
    return self._problems(self.test_indices[:n])

  def _problems(self, indices: Array) -> Problems:
    """Returns the problems with the indices `[P]` as arrays."""
    prompts = [self.prompts[i] for i in indices]
    tokens, mask = padding.on_left(
      prompts, self.options.prompt_length, self.pad_id
    )
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
    longest = max(map(len, completions), default=0)
    limit = self.options.completion_length
    if longest > limit:
      raise UsageError(
        f"completion_length={limit} is too small for a reference completion of "
        f"{longest} tokens; set completion_length to {longest} or more"
      )
    return padding.on_right(completions, limit, self.pad_id)
