"""A verifier that does what a completion says, for tests of worker pools.

It is a module of its own because workers import the verifier by its name.
"""

import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time

from rewards.verifiers import Item, Outcome, answer_id
from rewards.verifiers.pool import Pool

__all__ = ["Broken", "Pool", "Unsendable", "act", "of", "pids"]


def act(items):
  """Does what a completion says; the verdict is 1 if it comes back."""
  (item,) = items
  what, _, argument = item.completion.partition(" ")
  if what == "hang":
    time.sleep(1000)
  elif what == "spin":  # C code that holds the interpreter's lock
    9 ** (9**9)
  elif what == "child":  # a grandchild, which must not stay
    child = subprocess.Popen(["sleep", "1000"])
    pathlib.Path(argument).write_text(str(child.pid))
    time.sleep(1000)
  elif what == "kill":
    os.kill(os.getpid(), signal.SIGKILL)
  elif what == "once" and not os.path.exists(argument):
    pathlib.Path(argument).touch()
    os.kill(os.getpid(), signal.SIGKILL)
  elif what == "exit":
    os._exit(0)
  elif what == "segfault":
    ctypes.string_at(0)
  elif what == "memory":
    bytearray(50 << 30)
  elif what == "raise":
    raise ValueError("no")
  elif what == "garbage":
    return ["right"]
  elif what == "none":
    return []
  elif what == "score":
    return [Outcome(float(argument), 1, "", 0)]
  elif what == "verdict":
    return [Outcome(1.0, int(argument), "", 0)]
  elif what == "identity":
    return [Outcome(1.0, 1, "", int(argument))]
  elif what == "part":
    return [Outcome(1.0, 1, "", 0, parts={"x": float(argument)})]
  elif what == "pid":
    return [Outcome(1.0, 1, str(os.getpid()), 0)]
  elif what == "stdin":
    return [Outcome(1.0, 1, sys.stdin.read(), 0)]
  return [Outcome(1.0, 1, item.completion, answer_id(item.completion))]


class Unsendable:
  """A value of an item whose pickling raises an error of the given kind."""

  def __init__(self, error):
    self.error = error

  def __reduce__(self):
    raise self.error


class Broken:
  """A verifier that no worker can load."""

  def __reduce__(self):
    return (_refuse, ())


def _refuse():
  if "rewards.verifiers.pool" in sys.modules and sys.argv[0] == "-c":
    raise OSError("no such verifier")


def of(*completions):
  return [Item("?", completion, "!") for completion in completions]


def pids(pool):
  return [worker._process.pid for worker in pool._workers]
