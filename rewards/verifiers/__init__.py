"""Verifiers: is the answer at the end of a text the reference's answer?

They run on the host, over text, and share one interface:

  verify(items: Sequence[Item]) -> list[Outcome]

one outcome per item, in order. A verifier never raises over what an item says:
a completion it cannot read is wrong, a reference it cannot read leaves the
verdict unknown (for `maths` and `numbers` only the same text is then right). An
attribute `note` of a verifier is a line for the notes of its tasks. `pool.Pool`
runs a verifier in processes that can be killed.

A function of one item becomes a verifier by `each`:

  @each
  def contains(completion, answer):
    return float(answer in completion)
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import inspect
import sys
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from typing import Any

_BY_NAME = (
  inspect.Parameter.POSITIONAL_OR_KEYWORD,
  inspect.Parameter.KEYWORD_ONLY,
)


@dataclasses.dataclass(frozen=True)
class Item:
  """One completion to judge.

  Attributes:
    prompt: what was asked.
    completion: what the policy wrote, special tokens removed.
    reference: the reference's answer.
    meta: whatever else a verifier needs (tests, constraints, row).
  """

  prompt: str
  completion: str
  reference: str
  meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Outcome:
  """What a verifier says of one item.

  Attributes:
    score: the graded score, in [0, 1]; 0 where the verdict is unknown.
    verdict: 1 right, 0 wrong, -1 unknown (fits int8).
    answer: the answer as it was read, empty if there is none.
    answer_id: equal answers have equal ids, -1 means no answer.
    parts: named terms of the score, for logs; empty if it has one.
    reason: why the verdict is unknown, in one line; else empty.
  """

  score: float
  verdict: int
  answer: str
  answer_id: int
  parts: Mapping[str, float] = dataclasses.field(default_factory=dict)
  reason: str = ""


def unscored(reason: str, answer: str = "", identity: int = -1) -> Outcome:
  """The outcome of an item of which nothing can be said: verdict -1."""
  return Outcome(0.0, -1, answer, identity, reason=reason)


def answer_id(value: Fraction | str) -> int:
  """A number of 31 bits for an answer, the same in every call and process.

  Samples of one prompt that are judged in several calls can thus vote together.
  Two different answers share an id with probability 2^-31.

  Args:
    value: what is compared: equal values have equal ids.

  Returns:
    An int32, never negative.
  """
  if isinstance(value, Fraction):  # in base 16 there is no limit of digits
    value = f"{value.numerator:x}/{value.denominator:x}"
  text = value.encode("utf-8", "backslashreplace")
  digest = hashlib.blake2b(text, digest_size=4).digest()
  return int.from_bytes(digest, "big") & 0x7FFFFFFF


class Each:
  """A verifier that asks a function about one item at a time; see `each`.

  Attributes:
    required: the names that the function must be given.
  """

  def __init__(self, function: Callable[..., float]):
    functools.update_wrapper(self, function)
    self._function = function
    parameters = inspect.signature(function).parameters.values()
    self._takes_all = any(p.kind is p.VAR_KEYWORD for p in parameters)
    named = [p for p in parameters if p.kind in _BY_NAME]
    self._names = [p.name for p in named]
    self.required = tuple(p.name for p in named if p.default is p.empty)
    for p in parameters:
      if p.kind not in (*_BY_NAME, p.VAR_KEYWORD):
        raise ValueError(
          f"each({getattr(function, '__name__', function)}): {p.name!r} cannot "
          "be given by name, as all is; allowed: def f(completion, answer)"
        )

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    return [self._judge(item) for item in items]

  def __reduce__(self) -> str | tuple:
    """Pickled by name where it stands in its function's place."""
    module = sys.modules.get(self.__module__)
    name = getattr(self, "__qualname__", "")
    if getattr(module, name, None) is self:
      return name
    return Each, (self._function,)

  def _judge(self, item: Item) -> Outcome:
    known = {
      **item.meta,
      "prompt": item.prompt,
      "completion": item.completion,
      "answer": item.reference,
    }
    if not self._takes_all:
      known = {name: known[name] for name in self._names if name in known}
    try:
      value = self._function(**known)
    except Exception as error:
      return unscored(f"{type(error).__name__}: {error}"[:200])
    try:
      score = float("nan" if isinstance(value, str) else value)
    except (TypeError, ValueError, OverflowError):
      score = float("nan")
    if not 0 <= score <= 1:
      said = f"{value!r}"[:100]
      return unscored(f"it returned {said}, not a number from 0 to 1")
    answer = str(item.completion).strip()
    identity = answer_id(answer) if answer else -1
    return Outcome(score, int(score == 1), answer, identity)


def each(function: Callable[..., float]) -> Each:
  """A verifier of a function that scores one item; a decorator.

  The function is given by name what it has parameters for: `prompt`,
  `completion`, `answer` (the reference) and the keys of `Item.meta`; with
  `**meta`, all of them. An item is unscored, with the reason, if the function
  raises or returns anything but a number from 0 to 1: it is then left out of
  training, so a completion that cannot be read must get 0 instead. Right is what
  has full marks; the answer that votes is the whole completion.

  Args:
    function: `(completion, answer, ...) -> score in [0, 1]`.

  Raises:
    ValueError: a parameter that cannot be given by name.
  """
  return Each(function)
