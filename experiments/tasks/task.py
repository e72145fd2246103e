"""What a task is: problems, how they are scored, and how one solves them.

A task is a value made of functions, built by a factory in a file of its own
(`experiments/tasks/countdown.py` -> `countdown(count=4)`), and found by name
through `experiments.tasks.get`.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

import flax.struct
import jax

from rl import types

Array = jax.Array


@flax.struct.dataclass
class Problems:
  """A batch of P problems.

  Attributes:
    prompts: `[P, L]` int32, left-padded with the task's `pad_id`.
    prompt_mask: `[P, L]` bool, True on real tokens.
    ids: `[P]` int32, identity of the problem; the same problem has the same id
      in every batch. Randomness and history are keyed by it.
    facts: `{name: [P, ...]}`, what scoring needs to know (target, numbers, row
      of the dataset). Never shown to the policy.
  """

  prompts: Array
  prompt_mask: Array
  ids: Array
  facts: dict[str, Array]


@flax.struct.dataclass
class Judged:
  """What a task says of `[P, S]` completions.

  Attributes:
    scores: `[P, S]` float32, graded outcome.
    correct: `[P, S]` int8: 1 right, 0 wrong, -1 unknown.
    answer_ids: `[P, S]` int32, the final answer as a class: equal answers to a
      prompt have equal ids, -1 means no answer. For majority voting.
    scored: `[P, S]` bool, False where no score could be found (a time-out, an
      unreadable reference); such samples are left out, never taken for 0. None:
      all are scored.
    components: `{name: [P, S]}`, named parts worth logging.
    step_ids: `[P, S, T]` int32 or None, reasoning step of each token, -1
      outside. A truncated row's last token ends its last step.
    step_scores, step_mask: `[P, S, K]` float32 and bool, or None.
    extras: `{name: [P, S, ...]}`, what else the task knows of a sample:
      "preferences" `[P, S, S]` of a pairwise judge (1 the first is better, 0.5
      a tie), "durations" `[P, S, K]` in seconds. Methods read "task/NAME".
    views: `{name: Tokens [P, S]}`, other texts to score: "reference", the
      reference answer after each sample's thought, its tokens in the mask;
      "bare_reference" `[P, 1]`, after the prompt alone.
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


@dataclasses.dataclass(frozen=True)
class Task:
  """Prompts, rendering, scoring and solutions of one kind of problem.

  Attributes:
    name: the task with its settings, for logs.
    vocab_size: ids run from 0 to `vocab_size - 1`, specials included.
    eos_id: ends a demonstration.
    pad_id: fills up; lengths and masks say what is real, so it may be an EOS.
    prompt_length: L, static.
    completion_length: T that lets every reference solution finish.
    train: `(key, step, n) -> Problems`, the n problems of training step `step`:
      a pure function of its arguments, so a run can resume anywhere.
    test: `(n) -> Problems`, the first n of a fixed held-out set, disjoint from
      every training problem and the same in every run.
    score: `(Problems, completions [P, S, T], lengths [P, S], finished [P, S])
      -> Judged`. Pure and jittable when `jittable`, else numpy on the host.
    demonstrate: `(key, Problems) -> (completions [P, T], lengths [P])`, one
      reference solution each, EOS included. Jittable when `jittable`.
    decode: `(ids) -> str`, what a person reads.
    jittable: whether `train`, `score` and `demonstrate` may run inside jit.
    gold: `(Problems) -> (completions [P, T], lengths [P])`, a solution that
      scores full marks: the contract tests use it.
    notes: what a reader of results must know ("7 of 7473 left out").
    stop_ids: further tokens that end a completion.
    encode: `(question) -> ids` of its prompt, template and all. None: each word
      is a token, as `decode` writes them.
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
  jittable: bool = True
  notes: tuple[str, ...] = ()
  stop_ids: tuple[int, ...] = ()
  encode: Callable[[str], list[int]] | None = None

  @property
  def eos_ids(self) -> tuple[int, ...]:
    """All tokens that end a completion, a demonstration's first."""
    others = (i for i in self.stop_ids if i != self.eos_id)
    return (self.eos_id, *dict.fromkeys(others))


def supervised_tokens(
  problems: Problems, completions: Array, lengths: Array
) -> types.Tokens:
  """Demonstrations `[P, T]` as `Tokens` with one sample slot per prompt."""
  positions = jax.numpy.arange(completions.shape[-1])
  mask = positions < lengths[:, None]
  return types.Tokens(
    prompts=problems.prompts,
    prompt_mask=problems.prompt_mask,
    completions=completions[:, None],
    lengths=lengths[:, None],
    mask=mask[:, None],
  )
