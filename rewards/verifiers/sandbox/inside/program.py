"""The untrusted process: loads a program and calls its functions on request.

`tester.py` starts an interpreter with the text of this file and a call of
`main`. It sends requests over one pipe and reads replies from another; a
message is one line of JSON. Values of plain types (`encode`) are copied and
never pickled. Any other object stays in this process, and the tester gets a
number for it, by which requests refer to the object; number 0 is the program's
module. The program can replace everything in this process, but it can only
change replies that its own functions make.

  request {"do": "load", "source": text}
          {"do": "get", "of": number, "name": text}
          {"do": "set", "of": number, "name": text, "value": value}
          {"do": "call", "of": number, "args": list, "kwargs": dict}
          {"do": "next", "of": number}
  reply   {"value": value}
          {"raises": [names of the exception's class and its bases],
           "text": text}
"""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

REQUESTS, REPLIES = 3, 4  # file descriptors of the pipes

_MAX_INT = 1 << 62  # larger integers are sent in base 16, without a digit limit


def encode(value: Any, opaque: Callable[[Any], dict]) -> Any:
  """Returns a value in types of JSON: `(1, 2)` -> `{"tuple": [1, 2]}`.

  Numbers are exact. Instances of subclasses become instances of the base class,
  such as a Counter a dict, and methods that the program defined are not used.

  Args:
    value: None, bool, int, float, complex, str, bytes, bytearray, range, or a
      list, tuple, dict, set or frozenset of these; or any other object.
    opaque: function that returns the dict that stands for any other object.

  Returns:
    A value that `json.dumps` accepts.
  """
  if value is None or isinstance(value, bool):
    return value
  if isinstance(value, int):
    return int(value) if -_MAX_INT < value < _MAX_INT else {"int": hex(value)}
  if isinstance(value, float):
    return float(value)
  if isinstance(value, str):
    return str.__str__(value)
  if isinstance(value, list):
    return [encode(each, opaque) for each in list.__iter__(value)]
  if isinstance(value, dict):
    pairs = dict.items(value)
    return {"dict": [[encode(k, opaque), encode(v, opaque)] for k, v in pairs]}
  for kind in (tuple, set, frozenset):
    if isinstance(value, kind):
      return {
        kind.__name__: [encode(each, opaque) for each in kind.__iter__(value)]
      }
  if isinstance(value, (bytes, bytearray)):
    return {type(value).__name__: value.hex()}
  if isinstance(value, complex):
    return {"complex": [value.real, value.imag]}
  if isinstance(value, range):
    return {"range": [encode(each, opaque) for each in value.__reduce__()[1]]}
  return opaque(value)


def decode(value: Any, opaque: Callable[[str, Any], Any]) -> Any:
  """Returns the value that `encode` encoded: `{"tuple": [1, 2]}` -> `(1, 2)`.

  Args:
    value: a value that `json.loads` returned.
    opaque: function that returns the object for a dict `{kind: content}` which
      `encode` got from its argument `opaque`.

  Raises:
    ValueError, TypeError, KeyError: `encode` cannot have returned the value.
  """
  if isinstance(value, list):
    return [decode(each, opaque) for each in value]
  if not isinstance(value, dict):
    return value
  ((kind, content),) = value.items()
  if kind == "dict":
    return {decode(k, opaque): decode(v, opaque) for k, v in content}
  if kind == "int":
    return int(content, 16)
  if kind == "bytes":
    return bytes.fromhex(content)
  if kind == "bytearray":
    return bytearray.fromhex(content)
  if kind == "complex":
    return complex(*content)
  makers = {"tuple": tuple, "set": set, "frozenset": frozenset}
  if kind in makers:
    return makers[kind](decode(each, opaque) for each in content)
  if kind == "range":
    return range(*(decode(each, opaque) for each in content))
  return opaque(kind, content)


def main() -> None:
  """Answers requests until the tester closes the pipe."""
  objects: list[Any] = [types.ModuleType("solution")]
  numbers: dict[int, int] = {}  # id of an object -> its index in `objects`

  def refer(value: Any) -> dict:
    if id(value) not in numbers:
      numbers[id(value)] = len(objects)
      objects.append(value)
    kind = "iterator" if isinstance(value, Iterator) else "object"
    return {kind: numbers[id(value)]}

  def answer(request: dict) -> Any:
    action = request["do"]
    if action == "load":
      sys.modules["solution"] = objects[0]
      code = compile(
        request["source"], "solution.py", "exec", dont_inherit=True
      )
      exec(code, objects[0].__dict__)
      return None
    target = objects[request["of"]]
    if action == "get":
      return getattr(target, request["name"])
    if action == "next":
      return next(target)

    def resolve(_: str, number: int) -> Any:
      return objects[number]

    if action == "set":
      return setattr(target, request["name"], decode(request["value"], resolve))
    return target(
      *decode(request["args"], resolve), **decode(request["kwargs"], resolve)
    )

  requests, replies = os.fdopen(REQUESTS, "rb"), os.fdopen(REPLIES, "wb")
  # Processes that the program starts must not keep the tester's pipes open.
  os.set_inheritable(REQUESTS, False)
  os.set_inheritable(REPLIES, False)
  replies.write(b"ready\n")
  replies.flush()
  for line in requests:
    try:
      reply = json.dumps({"value": encode(answer(json.loads(line)), refer)})
    except BaseException as error:  # SystemExit too is sent to the tester
      names = [kind.__name__ for kind in type(error).__mro__]
      try:
        text = str.__str__(str(error))
      except BaseException:
        text = ""
      reply = json.dumps({"raises": names, "text": text})
    replies.write(reply.encode() + b"\n")
    replies.flush()
