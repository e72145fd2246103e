"""Verifiers: judge the completion of a prompt, as text, and give a verdict.

Most compare the answer of the completion with a reference answer; others run
its code, check constraints, or ask a judge. They run on the host, not on the
accelerator, and share one interface:

  verify(items: Sequence[Item]) -> list[Outcome]

with one outcome per item, in order. A verifier judges what follows the thoughts
(`<think>...</think>`) of a completion: `Item` splits them off, so that no
verifier reads them by mistake. Thoughts that do not end leave no answer, which
is wrong. A verifier never raises because of the content of an item. A
completion that it cannot parse is wrong. If it cannot parse the reference, the
verdict is unknown, except that `maths` and `numbers` then accept the same text
only. A verifier may have an attribute `note`: a line that the tasks that use it
add to their notes. `pool.Pool` runs a verifier in processes that can be killed.

`each` turns a function of one item into a verifier. The function receives the
reference as `answer`:

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

from rl import UsageError, registry
from rl.errors import locate

_BY_NAME = (  # kinds of parameters that can be passed by name
  inspect.Parameter.POSITIONAL_OR_KEYWORD,
  inspect.Parameter.KEYWORD_ONLY,
)


# The tags around thoughts.
THOUGHT_START, THOUGHT_END = "<think>", "</think>"
# Distance from 0 and from 1 up to which a score counts as 0 and as 1: a few
# units in the last place of float32, in which a verifier may add up a score.
_ROUNDING = 5e-7


def after_thoughts(text: str) -> str:
  """Returns the text after the last `</think>`; "" if the thoughts do not end.

  The thoughts do not end if a `<think>` has no `</think>` after it. A text
  without these tags is returned unchanged. `<think>` may be missing, because
  some chat templates put it into the prompt.
  """
  text = text.rpartition(THOUGHT_END)[2]
  return "" if THOUGHT_START in text else text


@dataclasses.dataclass(frozen=True)
class Item:
  """One completion to judge.

  An item is made of the whole text of the policy, as `completion`, and splits
  it where its thoughts end; see `after_thoughts`. The text "<think>2?</think>4"
  has the thoughts "<think>2?</think>" and the completion "4"; "<think>4" has
  the thoughts "<think>4" and the completion "".

  Attributes:
    prompt: the prompt.
    completion: text of the policy after its thoughts, without special tokens.
    reference: the reference answer; "" if the verifier needs none.
    meta: further inputs, under the names that the verifier reads, such as
      "tests" or "constraints".
    thoughts: text of the policy up to the end of its thoughts, with the tags;
      "" if there are none. The thoughts and the completion of which an item is
      made are one text, so that `dataclasses.replace` keeps the thoughts.
  """

  prompt: str
  completion: str
  reference: str
  meta: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  thoughts: str = ""

  def __post_init__(self):
    if isinstance(self.completion, str):
      text = self.text
      completion = after_thoughts(text)
      thoughts = text[: len(text) - len(completion)]
      object.__setattr__(self, "completion", completion)
      object.__setattr__(self, "thoughts", thoughts)

  @property
  def text(self) -> str:
    """The text of the policy with its thoughts."""
    return f"{self.thoughts}{self.completion}"


@dataclasses.dataclass(frozen=True)
class Outcome:
  """The result of a verifier for one item.

  Attributes:
    score: graded score in [0, 1]; 0 if the verdict is unknown. A score that
      differs from 0 or 1 by rounding error only becomes 0 or 1; see
      `round_ends`.
    verdict: 1 is right, 0 is wrong, -1 is unknown (fits int8).
    answer: the answer as found in the completion; "" if there is none.
    answer_id: a number by which answers are compared, as in a majority vote;
      -1 if there is no answer. See the function `answer_id`.
    parts: named numbers for the logs, such as the parts of the score.
    reason: one line on why the verdict is unknown; "" if it is known.
  """

  score: float
  verdict: int
  answer: str
  answer_id: int
  parts: Mapping[str, float] = dataclasses.field(default_factory=dict)
  reason: str = ""

  def __post_init__(self):
    object.__setattr__(self, "score", round_ends(self.score))


def round_ends(score: float) -> float:
  """Returns 0 or 1 for a score that differs from it by rounding error only.

  The sum 0.7 + 0.2 + 0.1 is 1 less 1e-16, and twenty times 1/20 are more than
  1. Both are 1 here, as are all scores at most 5e-7 from 1; the same holds for
  0. Other scores are returned unchanged.
  """
  for end in (0.0, 1.0):
    if score != end and abs(score - end) <= _ROUNDING:
      return end
  return score


def unscored(reason: str, answer: str = "", identity: int = -1) -> Outcome:
  """Returns the outcome of an item whose verdict is unknown, with score 0.

  Args:
    reason: one line on why the verdict is unknown.
    answer: the answer as found in the completion.
    identity: the `answer_id` of the outcome; -1 if there is no answer.
  """
  return Outcome(0.0, -1, answer, identity, reason=reason)


def unscored_error(error: Exception, verify: Callable[..., Any]) -> Outcome:
  """Returns the outcome of an item for which a verifier raised an exception."""
  file = registry.source_file(verify)
  place = locate(error, [file])
  where = f" ({place})" if place.file == file else ""
  return unscored(f"{type(error).__name__}: {error}"[:200] + where)


def answer_id(value: Fraction | str) -> int:
  """Returns a 31-bit hash of an answer, the same in every call and process.

  Completions of one prompt that are judged in several calls can thus take part
  in one majority vote. Two different answers have the same id with probability
  2^-31.

  Args:
    value: the answer. Equal values of one type have equal ids.

  Returns:
    An integer from 0 to 2^31 - 1.
  """
  if isinstance(value, Fraction):
    # Python limits the number of digits in base 10, not in base 16.
    value = f"{value.numerator:x}/{value.denominator:x}"
  text = value.encode("utf-8", "backslashreplace")
  digest = hashlib.blake2b(text, digest_size=4).digest()
  return int.from_bytes(digest, "big") & 0x7FFFFFFF


class Each:
  """A verifier that calls a function for one item at a time; see `each`.

  Attributes:
    required: names of the function's parameters that have no default.
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
        raise UsageError(
          f"each({getattr(function, '__name__', function)}): the parameter "
          f"{p.name!r} cannot be passed by name; use a signature such as "
          "f(completion, answer)."
        )

  def __call__(self, items: Sequence[Item]) -> list[Outcome]:
    return [self._judge(item) for item in items]

  def __reduce__(self) -> str | tuple:
    """Pickles by name if `each` was used as a decorator, else by function."""
    module = sys.modules.get(self.__module__)
    name = getattr(self, "__qualname__", "")
    if getattr(module, name, None) is self:
      return name
    return Each, (self._function,)

  def _judge(self, item: Item) -> Outcome:
    answer = str(item.completion).strip()
    if not answer:
      return Outcome(0.0, 0, "", -1)
    arguments = {  # keys of `meta` do not replace the fields of the item
      **item.meta,
      "prompt": item.prompt,
      "completion": item.completion,
      "answer": item.reference,
      "thoughts": item.thoughts,
    }
    if not self._takes_all:
      arguments = {
        name: arguments[name] for name in self._names if name in arguments
      }
    try:
      value = self._function(**arguments)
    except Exception as error:
      return unscored_error(error, self._function)
    try:  # NaN stands for anything but a number
      score = round_ends(float("nan" if isinstance(value, str) else value))
    except (TypeError, ValueError, OverflowError):
      score = float("nan")
    if not 0 <= score <= 1:
      value_text = f"{value!r}"[:100]
      return unscored(
        f"the verifier returned {value_text}, not a number from 0 to 1"
      )
    return Outcome(score, int(score == 1), answer, answer_id(answer))


def each(function: Callable[..., float]) -> Each:
  """Decorator that turns a function of one item into a verifier.

  The function receives by name the arguments that it has parameters for:
  `prompt`, `completion` (what follows the thoughts), `thoughts` (what precedes
  it), `answer` (the reference) and the keys of `Item.meta`; with a parameter
  `**meta` it receives all of them. A blank completion, also one whose thoughts
  do not end, is wrong without a call. If the function raises, or returns
  anything but a number in [0, 1], the verdict is unknown, and training leaves
  the completion out. So return 0 for a completion that cannot be parsed. Else
  the verdict is 1 if the score is 1 up to rounding (`round_ends`), and 0 if it
  is lower. The answer for majority votes is the whole completion.

  Args:
    function: `(completion, answer, ...) -> score in [0, 1]`.

  Returns:
    The verifier.

  Raises:
    UsageError: a parameter cannot be passed by name.
  """
  return Each(function)
