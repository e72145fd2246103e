"""How a side speaks: one JSON object a line, over its standard streams.

  side    {"ready": facts}                      once it is built
  parent  {"run": 3, "prompts": 4}              a call, its number and settings
  side    {"seconds": ..., "cpu_seconds": ..., "peak_bytes": ..., "tokens": ...}
  parent  {"ask": "greedy", "folder": "..."}    a question, which is not timed
  side    {"tokens": [[5, 9, 2]]}

A side ends when its input does. What a library prints goes to the error stream,
so it cannot be taken for an answer.
"""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple


class Served(NamedTuple):
  """What a side can do.

  Attributes:
    facts: of what it is, for the report.
    call: `(number, **settings) -> counts`; finished when it returns. Its counts
      are JSON values, among them `tokens`, the useful ones that it made.
    asks: further functions by name, `(**settings) -> answer`.
  """

  facts: Mapping[str, Any]
  call: Callable[..., Mapping[str, Any]]
  asks: Mapping[str, Callable[..., Mapping[str, Any]]]


def serve(prepare: Callable[[dict[str, Any]], Served]) -> None:
  """Builds the side that the command line asks for and answers until the end.

  Args:
    prepare: from the job, the first word of the command line, to the side.
  """
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(2, 1)  # prints of libraries are no answers

  def answer(message: Mapping[str, Any]) -> None:
    answers.write(json.dumps(message) + "\n")
    answers.flush()

  served = prepare(json.loads(sys.argv[1]))
  answer({"ready": dict(served.facts)})
  for line in sys.stdin:
    request = json.loads(line)
    if "ask" in request:
      answer(served.asks[request.pop("ask")](**request))
      continue
    number = request.pop("run")
    start, cpu_start = time.perf_counter(), time.process_time()
    counts = served.call(number, **request)
    timed = {
      "seconds": time.perf_counter() - start,
      "cpu_seconds": time.process_time() - cpu_start,
      "peak_bytes": peak_bytes(),
    }
    answer({**counts, **timed})


def peak_bytes() -> int:
  """The most memory that this process has held."""
  unit = 1 if sys.platform == "darwin" else 1024
  return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
