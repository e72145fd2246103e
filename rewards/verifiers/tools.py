"""Scores tool calls in JSON by their similarity to the reference's calls.

Calls follow the thoughts, inside of `<tool_call>...</tool_call>` blocks, with
JSON objects in each block; text outside of the blocks is ignored. In a text
without this tag, the calls are the whole text after its thoughts, or its only
code fence: one object, several, or a list. If it does not begin like JSON, it
has no calls. A blank text, as after thoughts that do not end, is no answer and
scores 0, also where no tool is to be called. A call has a "name" and
"parameters" (or "arguments", an object or its JSON text; OpenAI's `{"function":
{...}}` is parsed as well). If one call cannot be parsed, all calls of the text
count as malformed, as in the authors' code. `1` and `1.0` are the same value,
`1` and `true` are different values, and the order of parameters does not count.

  R = format + correctness,   format in {0, 1},   correctness in [-3, 3]

  correctness = 6 * (J(names) + sum_r match(r)) / (1 + sum_r (1 + |r|)) - 3
  match(r) = J(parameter names) + number of parameters with equal values,
             0 without an assigned call of the same name

Here r runs over the calls of the reference, |r| is the number of parameters of
r, J is the Jaccard index of multisets, J(names) compares the names of all
calls, and match(r) compares r with the call of the completion that is assigned
to it.
If the reference has no calls, correctness is 0, as in the authors' code.

Deviation: the authors' code assigns calls one after another, each to the best
remaining call; this implementation maximizes the sum of the matches, so that
the order of calls does not count. The scores differ only for several calls of
one tool, where this implementation's score is the same or higher.

Usage:
  calls = '<tool_call>\\n{"name": "get", "parameters": {"a": 1}}\\n</tool_call>'
  verify([Item("?", calls, calls)])[0].verdict == 1

Source: Qian et al. 2025, "ToolRL: Reward is All Tool Learning Needs".
"""

from __future__ import annotations

import collections
import dataclasses
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import scipy.optimize

from rewards.verifiers import Item, Outcome, after_thoughts, answer_id, unscored
from rl import UsageError

BOUND = 3.0  # correctness lies in [-BOUND, BOUND]
MAX_CALLS = 256  # per text, which bounds the assignment; more are malformed
_TAG = re.compile(r"</?(?:think|tool_call|response)>")
_FENCE = re.compile(r"```[a-z]*\s(.*?)```", re.S)
_BETWEEN = re.compile(r"[\s,]*")
_JSON = re.compile(r"\{|\[\s*[{\]]")


@dataclasses.dataclass(frozen=True)
class Call:
  """One call of a tool.

  Attributes:
    name: name of the tool.
    parameters: `{name: value}`, with values as canonical JSON texts.
  """

  name: str
  parameters: Mapping[str, str]

  def key(self) -> str:
    """Returns a text that is the same for equal calls."""
    return json.dumps([self.name, sorted(self.parameters.items())])


def parse(text: str) -> list[Call] | None:
  """Parses the calls of a text.

  Args:
    text: a completion or a reference, with or without thoughts.

  Returns:
    The calls in order; `[]` for a text without calls, None if a call or tag is
    malformed.
  """
  text = after_thoughts(text)
  if "<tool_call>" in text or "</tool_call>" in text:
    preamble, *blocks = text.split("<tool_call>")
    closed = [block.split("</tool_call>") for block in blocks]
    if "</tool_call>" in preamble or any(len(block) != 2 for block in closed):
      return None
    return _calls("\n".join(block[0] for block in closed))
  text = _untagged(text)
  return _calls(text) if _JSON.match(text) else []


def format_score(completion: str, reference: str) -> float:
  """Returns 1 if the completion has the reference's tags in order, else 0.

  The tags are `<think>`, `<tool_call>`, `<response>` and their closing tags;
  only white space may be outside of them. If the reference has no tags, the
  completion must have none either; it must then contain a call if the reference
  does, and no call (nor a malformed one) if the reference does not.
  """
  tags = _TAG.findall(reference)
  if _TAG.findall(completion) != tags:
    return 0.0
  if not tags:
    calls = parse(completion)
    return float(bool(calls) if parse(reference) else calls == [])
  # Both texts have the same tags in the same order. A block reaches from an
  # opening tag to the next tag that closes it; tags inside of it are ignored.
  outside, closing = True, ""
  *pieces, rest = _TAG.split(completion)
  for piece, tag in zip(pieces, tags, strict=True):
    if not outside:
      outside = tag == closing
    elif piece.strip():
      return 0.0
    else:  # nothing closes a block that begins with a closing tag
      outside, closing = False, tag.replace("<", "</")
  return float(outside and not rest.strip())


def correctness(
  calls: Sequence[Call] | None, reference: Sequence[Call]
) -> float:
  """Returns the similarity to the reference's calls, from -3 to 3.

  Args:
    calls: calls from `parse`. None (malformed) and `[]` score -3.
    reference: the true calls. `[]` scores 0, whatever `calls` is.
  """
  if not reference:
    return 0.0
  if not calls:
    return -BOUND
  score = jaccard((c.name for c in calls), (c.name for c in reference))
  matches = np.array([[_match(c, r) for c in calls] for r in reference])
  rows, columns = scipy.optimize.linear_sum_assignment(matches, maximize=True)
  score += float(matches[rows, columns].sum())
  max_score = 1 + sum(1 + len(call.parameters) for call in reference)
  return 2 * BOUND * score / max_score - BOUND


def verify(items: Sequence[Item]) -> list[Outcome]:
  """Compares each completion's calls with its reference's.

  Args:
    items: completions, with references that are texts with the true calls. A
      reference without calls means that no tool is to be called.

  Returns:
    One outcome per item. The verdict is 1 if both texts have the same multiset
    of calls, which may be empty. The score is R scaled to [0, 1],
    `(R + 3) / 7`, or the format alone if the reference has no calls. The
    answer is the calls as JSON, the parts are the two parts of R. The
    verdict is -1 if the reference cannot be parsed.
  """
  return [_outcome(item) for item in items]


def jaccard(a: Iterable[str], b: Iterable[str]) -> float:
  """Returns the Jaccard index of two multisets; 1 if both are empty."""
  left, right = collections.Counter(a), collections.Counter(b)
  union = (left | right).total()
  return (left & right).total() / union if union else 1.0


def _outcome(item: Item) -> Outcome:
  completion, reference = str(item.completion), str(item.reference)
  truth = parse(reference)
  if truth is None:
    return unscored("the reference's calls cannot be read")
  is_blank = not completion.strip()
  calls = None if is_blank else parse(completion)
  format_term = 0.0 if is_blank else format_score(item.text, reference)
  parts = {"format": format_term, "correctness": correctness(calls, truth)}
  score = format_term
  if truth:
    score = (sum(parts.values()) + BOUND) / (1 + 2 * BOUND)
  if calls is None:
    return Outcome(score=score, verdict=0, answer="", answer_id=-1, parts=parts)
  keys = sorted(call.key() for call in calls)
  same = keys == sorted(call.key() for call in truth)
  answer = "[" + ", ".join(keys) + "]"
  return Outcome(score, int(same), answer, answer_id(answer), parts)


def _match(call: Call, truth: Call) -> float:
  if call.name != truth.name:
    return 0.0
  equal = call.parameters.items() & truth.parameters.items()
  return jaccard(list(call.parameters), list(truth.parameters)) + len(equal)


def _untagged(text: str) -> str:
  """Returns the text, or its only code fence's content."""
  text = text.strip()
  fences = _FENCE.findall(text)
  return fences[0].strip() if len(fences) == 1 else text


def _calls(text: str) -> list[Call] | None:
  """Parses a text of JSON values as calls; None if it has other text."""
  decoder = json.JSONDecoder(**_STRICT)
  calls: list[Call] = []
  position = _BETWEEN.match(text).end()
  try:
    while position < len(text):
      value, position = decoder.raw_decode(text, position)
      values = value if isinstance(value, list) else [value]
      calls += [_call(value) for value in values]
      if len(calls) > MAX_CALLS:
        return None
      position = _BETWEEN.match(text, position).end()
  except (ValueError, KeyError, TypeError, RecursionError):
    return None
  return calls


def _call(value: Any) -> Call:
  """Builds a call; raises UsageError, KeyError or TypeError if it is none."""
  value = value.get("function", value) if isinstance(value, dict) else value
  if not isinstance(value["name"], str):
    raise TypeError(value["name"])
  key = "parameters" if "parameters" in value else "arguments"
  parameters = value.get(key, {})
  if isinstance(parameters, str):
    parameters = json.loads(parameters, **_STRICT)
  if not isinstance(parameters, dict):
    raise TypeError(parameters)
  canonical = {k: json.dumps(_canonical(v)) for k, v in parameters.items()}
  return Call(value["name"], canonical)


def _canonical(value: Any) -> Any:
  """Returns a JSON value with sorted keys and integral floats as integers."""
  if isinstance(value, dict):
    return {key: _canonical(value[key]) for key in sorted(value)}
  if isinstance(value, list):
    return [_canonical(each) for each in value]
  if isinstance(value, float) and value.is_integer():
    return int(value)
  return value


def _refuse(constant: str) -> None:
  raise UsageError(constant)


def _without_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
  if len(dict(pairs)) < len(pairs):
    raise UsageError("A JSON object has the same key twice.")
  return dict(pairs)


_STRICT = {
  "parse_constant": _refuse,  # NaN and Infinity
  "object_pairs_hook": _without_duplicates,
}
