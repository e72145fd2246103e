"""Defines a task: problems, how completions are scored, and solutions.

A task is a value made of functions. A factory in a file of its own builds it
(`experiments/tasks/countdown.py` has `countdown(count=4)`), and
`experiments.tasks.get` finds the factory by name.

Shapes: P problems, S samples (completions) per problem, L prompt tokens, T
completion tokens, K steps of reasoning. A prompt is a problem in tokens.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import flax.struct
import jax
import jax.numpy as jnp
import numpy as np

from rewards.process.forest import StepChanges
from rewards.verifiers import Item
from rl import UsageError, registry, types
from rl.sampling import generation
from rl.sampling.environment import Environment

Array = jax.Array


@flax.struct.dataclass
class Problems:
  """A batch of P problems.

  Attributes:
    prompts: `[P, L]` int32 token ids, padded on the left with the task's
      `pad_id`.
    prompt_mask: `[P, L]` bool, True on real tokens.
    ids: `[P]` int32, identity of each problem. A problem has the same id in
      every batch. PRNG keys are derived from it, and statistics of a problem
      over training steps are stored under it.
    facts: `{name: [P, ...]}`, values that scoring needs (the target, the
      numbers, the index in the dataset). They are not part of the prompt.
  """

  prompts: Array
  prompt_mask: Array
  ids: Array
  facts: dict[str, Array]


@flax.struct.dataclass
class Judged:
  """The scores of `[P, S]` completions, and further results of scoring.

  Attributes:
    scores: `[P, S]` float32, the score of the task, which may be graded.
    correct: `[P, S]` int8, the verdict: 1 right, 0 wrong, -1 unknown.
    answer_ids: `[P, S]` int32, identity of the final answer, for majority
      votes: equal answers to a prompt have equal ids, and -1 is no answer.
    scored: `[P, S]` bool, False where there is no score (a time-out, a
      reference that cannot be read). Such samples are left out of training and
      of statistics, and do not count as 0. None: all samples are scored.
    components: `{name: [P, S]}`, named parts of the score, and other values to
      log.
    step_ids: `[P, S, T]` int32 or None, the step of reasoning of each token, -1
      on padding. The last step of a sample ends at its last token, also if the
      sample has no end token.
    step_scores: `[P, S, K]` float32 or None, the score of each step.
    step_mask: `[P, S, K]` bool or None, True for the steps that exist.
    extras: `{name: [P, S, ...]}`, values that methods read as "task/NAME":
      "preferences" `[P, S, S]` from a judge of pairs (entry i, j is 1 if sample
      i is better than sample j, 0.5 for a tie, and NaN if they were not
      compared), "durations" `[P, S, K]` in
      seconds.
    views: `{name: Tokens [P, S]}`, other texts whose likelihood the policy
      computes. "reference" has the reference answer after each sample's
      thought; "bare_reference" `[P, 1]` has the reference answer after the
      prompt, without a thought; "step_references" `[P, S M]` has it after the
      first 1, ..., M steps of each sample. The mask is True on the answer's
      tokens.
  """

  scores: Array
  correct: Array
  answer_ids: Array
  scored: Array | None = None
  components: dict[str, Array] = flax.struct.field(default_factory=dict)
  step_ids: Array | None = None
  step_scores: Array | None = None
  step_mask: Array | None = None
  extras: dict[str, Array] = flax.struct.field(default_factory=dict)
  views: dict[str, types.Tokens] = flax.struct.field(default_factory=dict)


def spec(dtype: Any, *shape: int) -> jax.ShapeDtypeStruct:
  """Returns the spec of one array, for `Task.judged_spec`."""
  return jax.ShapeDtypeStruct(shape, dtype)


@dataclasses.dataclass(frozen=True)
class Task:
  """Prompts, scores and solutions of one kind of problem.

  Attributes:
    name: the task with its settings, for logs.
    vocab_size: number of token ids, special tokens included.
    eos_id: token that ends a demonstration.
    pad_id: token that fills arrays up. It may equal `eos_id`, since lengths and
      masks distinguish padding from tokens.
    prompt_length: L.
    completion_length: T, enough tokens for the solution of every train problem.
    train: `(key, step, n) -> Problems`, the n problems of training step `step`.
      They depend on these arguments alone, so a run can resume at any step.
    test: `(n) -> Problems`, the first n of a fixed set of held-out problems,
      the same in every run. No training problem is among them.
    score: `(Problems, completions [P, S, T], lengths [P, S], finished [P, S])
      -> Judged`. `finished` is True where an end token ends the completion. A
      pure jittable function if `jittable`, else a function of numpy arrays.
    demonstrate: `(key, Problems) -> (completions [P, T], lengths [P])`, one
      solution per problem for supervised training, EOS included.
    decode: `(ids) -> str`, the tokens as text.
    gold: `(Problems) -> (completions [P, T], lengths [P])`, one completion per
      problem with the reference answer. The unit tests check that it is right.
    judged_spec: `(P, S, T) -> Judged`, the shapes and dtypes of what `score`
      returns for `[P, S, T]` completions, as `jax.ShapeDtypeStruct`. A task
      that is not jittable needs it for training; None: `score` is traced.
    jittable: whether `train`, `score`, `demonstrate` and `gold` may run inside
      `jax.jit`.
    notes: lines that a run prints, such as "7 problems left out".
    fingerprints: texts that change with what the task has read: "tokenizer"
      with the meaning of token ids, "problems" with the problems.
    stop_ids: further tokens that end a completion, besides `eos_id`.
    encode: `(question) -> ids`, the tokens of a prompt with this question. If
      it is None, a prompt is written as `decode` writes it: words with blanks
      between them, each of which is one token.
    encode_turns: `(turns) -> ids`, the tokens of a prompt that continues a
      conversation of turns `{"role": ..., "content": ...}`, the last one of the
      user. None if prompts are no conversations.
    encode_completion: `(text) -> ids`, the tokens of a completion, EOS
      included. None if texts are words as above.
    questions: `(Problems) -> texts`, one text per problem, from which `encode`
      makes its prompt. None if texts are words as above.
    records: `(Problems) -> items`, for each problem an `Item` without a
      completion: its question, its reference answer, and the fields of its line
      in a dataset. If it is None, the texts of the prompt and of `gold` are the
      question and the reference.
    answer_cue: token ids after which a completion states its answer, with which
      a sampler can force the policy to answer. () if there are none.
    word_ids: token ids of words in completions, as opposed to maths. () if the
      task does not tell them apart.
    needs_end: whether no verifier judges a completion without an end token.
    step_changes: `(ids) -> StepChanges`, other texts of a step of a completion,
      without EOS. None if the task has none.
    environment: what answers after each turn of the policy, from the facts of a
      problem. None: a completion is one turn.
  """

  name: str
  vocab_size: int
  eos_id: int
  pad_id: int
  prompt_length: int
  completion_length: int
  train: Callable[[Array, Any, int], Problems]
  test: Callable[[int], Problems]
  score: Callable[[Problems, Array, Array, Array], Judged]
  demonstrate: Callable[[Array, Problems], tuple[Array, Array]]
  decode: Callable[[Any], str]
  gold: Callable[[Problems], tuple[Array, Array]]
  judged_spec: Callable[[int, int, int], Judged] | None = None
  jittable: bool = True
  notes: tuple[str, ...] = ()
  fingerprints: Mapping[str, str] = dataclasses.field(
    default_factory=dict, hash=False
  )
  stop_ids: tuple[int, ...] = ()
  encode: Callable[[str], list[int]] | None = None
  encode_turns: Callable[[Sequence[dict[str, str]]], list[int]] | None = None
  encode_completion: Callable[[str], list[int]] | None = None
  questions: Callable[[Problems], list[str]] | None = None
  records: Callable[[Problems], list[Item]] | None = None
  answer_cue: tuple[int, ...] = ()
  word_ids: tuple[int, ...] = ()
  needs_end: bool = False
  step_changes: Callable[[Sequence[int]], StepChanges] | None = None
  environment: Environment | None = None

  def check(self) -> None:
    """Checks that the fields agree with each other, and with a problem.

    Raises:
      UsageError: a token is not in the vocabulary, or a prompt has another
        length.
    """
    prompts = np.asarray(self.test(1).prompts)
    largest = max(self.eos_id, self.pad_id, prompts.max())
    length = prompts.shape[-1]
    if largest >= self.vocab_size or length != self.prompt_length:
      raise UsageError(
        f"{self.name}: prompt_length = {self.prompt_length} must be the number "
        f"of tokens of a prompt, {length}, and vocab_size = {self.vocab_size} "
        f"above the token {largest} of eos_id, pad_id or a prompt"
      )
    # Sizes that differ, so that an axis in the wrong place does not fit.
    if self.jittable:
      self.judged_shapes(2, 3, self.completion_length)

  @property
  def eos_ids(self) -> tuple[int, ...]:
    """The tokens that end a completion; the first is `eos_id`."""
    return tuple(dict.fromkeys((self.eos_id, *self.stop_ids)))

  @property
  def advice_if_cut(self) -> str:
    """A line on samples, most of which the limit of tokens cuts."""
    score = " and score 0 without the verifier" if self.needs_end else ""
    return (
      f"over half of the samples are cut{score}; to let them end, raise "
      "rollout.max_tokens, or --max_tokens of a command"
    )

  def check_single_turn(self, purpose: str) -> None:
    """Checks that completions are one turn.

    Args:
      purpose: what needs it, such as "prefix_values".

    Raises:
      UsageError: the task is played in several turns.
    """
    if self.environment is not None:
      raise UsageError(
        f"{purpose} continues prefixes of completions, and {self.name} is "
        "played in several turns; choose a task of one turn, or a method that "
        "samples whole episodes"
      )

  def sampling(
    self, samples: int, max_tokens: int | None = None, **settings: Any
  ) -> generation.Sampling:
    """Returns settings of sampling, with the tokens of the task.

    Args:
      samples: number of completions per prompt.
      max_tokens: largest number of tokens of a completion; None means T.
      **settings: further fields of `generation.Sampling`.
    """
    if max_tokens is None:
      max_tokens = self.completion_length
    tokens = {"eos_ids": self.eos_ids, "pad_id": self.pad_id}
    return generation.Sampling(samples, max_tokens, **tokens, **settings)

  def judged_shapes(self, P: int, S: int, T: int) -> Judged:
    """Returns the shapes and dtypes of the scores of `[P, S, T]` completions.

    Raises:
      UsageError: the task is not jittable and does not declare them.
    """
    if self.judged_spec is not None:
      return self.judged_spec(P, S, T)
    if not self.jittable:
      raise UsageError(
        f"{self.name} is scored on the host and does not declare the shapes of "
        "its scores; set Task.judged_spec"
      )

    def score(key):
      problems = self.train(key, 0, P)
      completions = jnp.zeros((P, S, T), jnp.int32)
      lengths = jnp.zeros((P, S), jnp.int32)
      return self.score(problems, completions, lengths, lengths > 0)

    return jax.eval_shape(score, jax.random.key(0))

  def prompt_ids(self, text: str) -> list[int]:
    """Returns the tokens of the prompt with a text.

    Raises:
      UsageError: the texts of the task are words, and one is no token.
    """
    return self.encode(text) if self.encode else self._word_ids(text)

  def completion_ids(self, text: str) -> list[int]:
    """Returns the tokens of a completion with a text, EOS included.

    Raises:
      UsageError: the texts of the task are words, and one is no token.
    """
    if self.encode_completion:
      return self.encode_completion(text)
    ids = self._word_ids(text)
    # `decode` writes EOS as a word.
    return ids if ids[-1:] == [self.eos_id] else [*ids, self.eos_id]

  def prompt_texts(self, problems: Problems) -> list[str]:
    """Returns the texts of P problems that `prompt_ids` reads."""
    if self.questions:
      return self.questions(problems)
    masks = np.asarray(problems.prompt_mask)
    return [
      self.decode(ids[mask])
      for ids, mask in zip(np.asarray(problems.prompts), masks, strict=True)
    ]

  def text_of(self, ids: Array) -> str:
    """Returns tokens of a completion as text, without end tokens."""
    ids = np.asarray(ids)
    return self.decode(ids[~np.isin(ids, self.eos_ids)])

  def items(self, problems: Problems) -> list[Item]:
    """Returns an item without a completion for each of P problems."""
    if self.records:
      return self.records(problems)
    completions, lengths = map(np.asarray, self.gold(problems))
    references = [
      self.text_of(ids[:length])
      for ids, length in zip(completions, lengths, strict=True)
    ]
    questions = self.prompt_texts(problems)
    return [Item(q, "", r) for q, r in zip(questions, references, strict=True)]

  def _word_ids(self, text: str) -> list[int]:
    """Returns one token per word: the token that `decode` turns into it."""
    for word in text.split():
      registry.check_known("token", word, self._id_by_word)
    return [self._id_by_word[word] for word in text.split()]

  @functools.cached_property
  def _id_by_word(self) -> dict[str, int]:
    words = {self.decode([i]): i for i in range(self.vocab_size)}
    words.pop("", None)
    return words
