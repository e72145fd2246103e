"""The untrusted side: loads a program and calls its functions when asked.

`judge.py` starts this file's text in an interpreter of its own and talks to it
over two pipes, a line of JSON each way. Values travel as values, never as
pickled objects: what is not plain stays here and the judge gets its number.
The program can rewrite everything in this process; all it gains is to answer
in place of its own functions.

  request {"do": "load", "source"}; {"do": "get" | "set" | "call" | "next",
          "of": number, "name", "value", "args", "kwargs"}
  reply   {"value"}; or {"raises": [class names], "text"}
"""

from __future__ import annotations

import json
import os
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

REQUESTS, REPLIES = 3, 4  # file descriptors

_SMALL = 1 << 62


def encode(value: Any, opaque: Callable[[Any], dict]) -> Any:
  """A value as JSON: exact for numbers, and lists are not tuples.

  Subclasses become what they are built on: a named tuple is a tuple, a Counter
  a dict. So no `__eq__` of the program's travels.

  Args:
    value: None, bool, int, float, complex, str, bytes, range, and lists,
      tuples, dicts and sets of them.
    opaque: says what stands for anything else.

  Returns:
    What `json.dumps` takes.
  """
  if value is None or isinstance(value, bool):
    return value
  if isinstance(value, int):
    return int(value) if -_SMALL < value < _SMALL else {"int": hex(value)}
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
  """The value that `encode` wrote.

  Args:
    value: from `json.loads`.
    opaque: the object for a mark and what stands at it.

  Raises:
    ValueError, TypeError, KeyError: it is not of `encode`'s making.
  """
  if isinstance(value, list):
    return [decode(each, opaque) for each in value]
  if not isinstance(value, dict):
    return value
  ((mark, inside),) = value.items()
  if mark == "dict":
    return {decode(k, opaque): decode(v, opaque) for k, v in inside}
  if mark == "int":
    return int(inside, 16)
  if mark == "bytes":
    return bytes.fromhex(inside)
  if mark == "bytearray":
    return bytearray.fromhex(inside)
  if mark == "complex":
    return complex(*inside)
  makers = {"tuple": tuple, "set": set, "frozenset": frozenset}
  if mark in makers:
    return makers[mark](decode(each, opaque) for each in inside)
  if mark == "range":
    return range(*(decode(each, opaque) for each in inside))
  return opaque(mark, inside)


def main() -> None:
  """Answers requests until the judge hangs up."""
  objects: list[Any] = [types.ModuleType("solution")]
  numbers: dict[int, int] = {}

  def keep(value: Any) -> dict:
    if id(value) not in numbers:
      numbers[id(value)] = len(objects)
      objects.append(value)
    mark = "iterator" if isinstance(value, Iterator) else "object"
    return {mark: numbers[id(value)]}

  def answer(request: dict) -> Any:
    what = request["do"]
    if what == "load":
      sys.modules["solution"] = objects[0]
      code = compile(
        request["source"], "solution.py", "exec", dont_inherit=True
      )
      exec(code, objects[0].__dict__)
      return None
    it = objects[request["of"]]
    if what == "get":
      return getattr(it, request["name"])
    if what == "next":
      return next(it)

    def resolve(_: str, number: int) -> Any:
      return objects[number]

    if what == "set":
      return setattr(it, request["name"], decode(request["value"], resolve))
    return it(
      *decode(request["args"], resolve), **decode(request["kwargs"], resolve)
    )

  requests = os.fdopen(REQUESTS, "rb", closefd=False)
  replies = os.fdopen(REPLIES, "wb", closefd=False)
  # What the program starts must not keep the judge's pipes.
  os.set_inheritable(REQUESTS, False)
  os.set_inheritable(REPLIES, False)
  replies.write(b"ready\n")
  replies.flush()
  for line in requests:
    try:
      reply = json.dumps({"value": encode(answer(json.loads(line)), keep)})
    except BaseException as error:  # SystemExit is an answer too
      names = [kind.__name__ for kind in type(error).__mro__]
      try:
        text = str.__str__(str(error))
      except BaseException:
        text = ""
      reply = json.dumps({"raises": names, "text": text})
    replies.write(reply.encode() + b"\n")
    replies.flush()


if __name__ == "__main__":
  main()
