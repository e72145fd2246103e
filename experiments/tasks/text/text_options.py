"""Examples and settings, from which the file of a text task builds the task.

An `Example` is a problem as texts. `TextOptions` has the settings that all text
tasks share, and `with_text_options` adds them to the function that builds a
task, so that `gsm8k(thinking=False)` is a call of it.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from experiments.tasks.task import Task
from rl import UsageError, registry

TOO_LONG = ("drop", "cut", "refuse")


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
      (see `line_scores`).
    max_steps: K, the largest number of steps of reasoning. The lines from the
      K-th to the end of a completion are one step.

  Raises:
    UsageError: if a value is not allowed.
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
      raise UsageError(registry.describe_unknown("chat", self.chat, allowed))
    registry.check_known("too_long", self.too_long, TOO_LONG)
    for name in ("prompt_length", "completion_length", "max_steps"):
      value = getattr(self, name)
      if value is not None and value < 1:
        raise UsageError(f"{name}={value} must be at least 1")


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
