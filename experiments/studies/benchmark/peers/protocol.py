"""Messages between a side and the benchmark, which is its parent process.

A side is a process that runs one implementation: this project or a peer.

Each message is one JSON object on one line of standard input or output:

  side    {}                                    when the side is built
  parent  {"run": 3}                            a call, by its number
  side    {"seconds": ..., "cpu_seconds": ..., "peak_bytes": ..., "tokens": ...}
  parent  {"ask": "greedy", "folder": "..."}    a question, which is not timed
  side    {"tokens": [[5, 9, 2]]}

A side ends when its standard input ends. What a library prints goes to
standard error, so that it is never read as an answer.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np


class Requests:
  """The requests that the parent process sends to this side."""

  def __init__(self) -> None:
    """Takes over standard output, so that libraries print no answers."""
    self._answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # What libraries print goes to standard error.
    self.asks: Mapping[str, Callable[..., Mapping[str, Any]]] = {}

  def answer(self, message: Mapping[str, Any]) -> None:
    """Sends a message to the parent process."""
    self._answers.write(json.dumps(message) + "\n")
    self._answers.flush()

  def begin(self) -> int:
    """Answers questions until a call is requested; returns its number."""
    for line in sys.stdin:
      request = json.loads(line)
      if "run" in request:
        self._start = time.perf_counter(), time.process_time()
        return request["run"]
      self.answer(self.asks[request.pop("ask")](**request))
    sys.exit()

  def end(self, counts: Mapping[str, Any]) -> None:
    """Answers a call with its counts and its time; its work is finished."""
    start, cpu_start = self._start
    timed = {
      "seconds": time.perf_counter() - start,
      "cpu_seconds": time.process_time() - cpu_start,
      "peak_bytes": peak_bytes(),
    }
    self.answer({**counts, **timed})


class Served(NamedTuple):
  """The functions that a side serves.

  Attributes:
    asks: untimed functions `(**settings) -> answer`, by name of the question.
    call: timed function `number -> counts`, which returns when all its work is
      finished. The counts are JSON values; `tokens` is the number of completion
      tokens up to and including EOS, `lengths` that of each completion.
    train: for a trainer that runs a loop of its own, a function of the
      requests. Its hooks call `begin` and `end` around each iteration.
  """

  asks: Mapping[str, Callable[..., Mapping[str, Any]]]
  call: Callable[[int], Mapping[str, Any]] | None = None
  train: Callable[[Requests], None] | None = None


def serve(prepare: Callable[[dict[str, Any]], Served]) -> None:
  """Builds a side and answers requests until standard input ends.

  `prepare` is a function from the job to the side. The job is the first
  argument of the command line, as JSON.
  """
  requests = Requests()
  served = prepare(json.loads(sys.argv[1]))
  requests.asks = served.asks
  requests.answer({})
  if served.train:
    served.train(requests)
    raise RuntimeError("the trainer ended without being stopped")
  while True:
    requests.end(served.call(requests.begin()))


def read_prompts(job: Mapping[str, Any]) -> np.ndarray:
  """Returns the prompts of a job, `[P, L]` int32."""
  return np.load(job["prompts"])[: job.get("count")]


def largest_change(read: Callable[[], Any]) -> Callable[[], dict[str, float]]:
  """Returns a question: how far has an entry of a parameter moved since asked?

  `read` returns a copy of the parameter, an array of numpy or torch.
  """
  last = read()

  def changed() -> dict[str, float]:
    nonlocal last
    previous, last = last, read()
    return {"largest": float(abs(last - previous).max())}

  return changed


def peak_bytes() -> int:
  """Returns the largest memory that this process has used so far."""
  # macOS reports bytes, Linux KiB.
  unit = 1 if sys.platform == "darwin" else 1024
  return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
