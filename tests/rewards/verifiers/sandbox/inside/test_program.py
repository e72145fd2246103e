"""The program process: how values are written, and replies to requests."""

import json
import os
import pathlib

import pytest
from helpers import program_starter

from rewards.verifiers.sandbox.inside import program


def refuse(*arguments):
  raise AssertionError(f"not of a plain type: {arguments}")


@pytest.mark.parametrize(
  ("value", "encoded"),
  [
    (None, None),
    (True, True),
    (3, 3),
    (2**62 - 1, 2**62 - 1),
    (2**62, {"int": "0x4000000000000000"}),
    (1 - 2**62, 1 - 2**62),
    (-(2**62), {"int": "-0x4000000000000000"}),
    (-0.5, -0.5),
    ("a", "a"),
    ([1, [2]], [1, [2]]),
    ({1: "a", (2,): None}, {"dict": [[1, "a"], [{"tuple": [2]}, None]]}),
    ((1, (2,)), {"tuple": [1, {"tuple": [2]}]}),
    ({(1,)}, {"set": [{"tuple": [1]}]}),
    (frozenset({1}), {"frozenset": [1]}),
    (b"\xff\x01", {"bytes": "ff01"}),
    (bytearray(b"\xff\x01"), {"bytearray": "ff01"}),
    (1 - 2j, {"complex": [1.0, -2.0]}),
    (range(1, 2**62, 3), {"range": [1, {"int": "0x4000000000000000"}, 3]}),
  ],
)
def test_values_and_their_codes(value, encoded):
  result = program.encode(value, refuse)
  assert result == encoded
  assert type(result) is type(encoded)
  decoded = program.decode(json.loads(json.dumps(encoded)), refuse)
  assert decoded == value
  assert type(decoded) is type(value)


def test_other_objects_are_passed_on():
  a, b = object(), object()
  numbers = {id(a): 7, id(b): 8}
  values = [a, (b,), {"k": a}, {b}, 1]
  encoded = program.encode(values, lambda x: {"object": numbers[id(x)]})
  assert encoded == [
    {"object": 7},
    {"tuple": [{"object": 8}]},
    {"dict": [["k", {"object": 7}]]},
    {"set": [{"object": 8}]},
    1,
  ]
  objects = {7: a, 8: b}

  def find(kind, number):
    assert kind == "object"
    return objects[number]

  assert program.decode(encoded, find) == values


# `inheritable` shows whether a process that it starts would get the pipes.
SOURCE = """
import os
class Box:
  def __init__(self, side, color="red"): self.side, self.color = side, color
  def grow(self, by): return self.side + by
def count(n): yield from range(n)
def fail(): raise KeyError("no")
def inheritable(): return [os.get_inheritable(each) for each in (3, 4)]
def typed(x: fail): pass
"""


def test_requests_and_replies():
  """Objects are numbered in the order of their first appearance."""
  dialogue = [
    ({"do": "load", "source": SOURCE}, None),
    ({"do": "get", "of": 0, "name": "Box"}, {"object": 1}),
    (
      {"do": "call", "of": 1, "args": [2], "kwargs": {"dict": []}},
      {"object": 2},
    ),
    ({"do": "get", "of": 2, "name": "color"}, "red"),
    ({"do": "set", "of": 2, "name": "side", "value": {"tuple": [5]}}, None),
    ({"do": "get", "of": 2, "name": "side"}, {"tuple": [5]}),
    ({"do": "set", "of": 2, "name": "side", "value": 5}, None),
    ({"do": "get", "of": 2, "name": "grow"}, {"object": 3}),
    (
      {"do": "call", "of": 3, "args": [], "kwargs": {"dict": [["by", 4]]}},
      9,
    ),
    ({"do": "get", "of": 0, "name": "Box"}, {"object": 1}),
    # The object itself is an argument and comes back as a value.
    (
      {
        "do": "call",
        "of": 1,
        "args": [{"object": 2}],
        "kwargs": {"dict": [["color", {"object": 1}]]},
      },
      {"object": 4},
    ),
    ({"do": "get", "of": 4, "name": "side"}, {"object": 2}),
    ({"do": "get", "of": 4, "name": "color"}, {"object": 1}),
    ({"do": "get", "of": 0, "name": "count"}, {"object": 5}),
    (
      {"do": "call", "of": 5, "args": [1], "kwargs": {"dict": []}},
      {"iterator": 6},
    ),
    ({"do": "next", "of": 6}, 0),
    ({"do": "next", "of": 6}, ["StopIteration", ""]),
    ({"do": "get", "of": 0, "name": "fail"}, {"object": 7}),
    (
      {"do": "call", "of": 7, "args": [], "kwargs": {"dict": []}},
      ["KeyError", "'no'"],
    ),
    ({"do": "get", "of": 0, "name": "inheritable"}, {"object": 8}),
    (
      {"do": "call", "of": 8, "args": [], "kwargs": {"dict": []}},
      [False, False],
    ),
    # Annotations are values, as `program.py`'s own future imports do not count.
    ({"do": "get", "of": 0, "name": "typed"}, {"object": 9}),
    (
      {"do": "get", "of": 9, "name": "__annotations__"},
      {"dict": [["x", {"object": 7}]]},
    ),
    ({"do": "load", "source": "raise SystemExit(3)"}, ["SystemExit", "3"]),
  ]
  requests, theirs = os.pipe()
  replies, ours = os.pipe()
  source = pathlib.Path(program.__file__).read_text() + "main()\n"
  pid = program_starter.start(["-c", source], {3: requests, 4: ours})
  os.close(requests)
  os.close(ours)
  with os.fdopen(theirs, "wb") as writer, os.fdopen(replies, "rb") as reader:
    assert reader.readline() == b"ready\n"
    for request, expected in dialogue:
      writer.write(json.dumps(request).encode() + b"\n")
      writer.flush()
      reply = json.loads(reader.readline())
      if "raises" in reply:
        assert expected == [reply["raises"][0], reply["text"]], request
        assert reply["raises"][-2:] == ["BaseException", "object"]
      else:
        assert reply == {"value": expected}, request
  # It ends when the tester closes the pipe.
  assert os.waitpid(pid, 0)[1] == 0
