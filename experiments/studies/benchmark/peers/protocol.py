"""Messages between a side and the benchmark, which is its parent process.

A side is a process that runs one implementation: this project or a peer.

Each message is one JSON object on one line of standard input or output:

  side    {"ready": facts}                      when the side is built
  parent  {"run": 3, "prompts": 4}              a call: its number and settings
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


class Served(NamedTuple):
  """The functions that a side serves.

  Attributes:
    facts: versions and settings of the side.
    call: timed function `(number, **settings) -> counts`, which returns when
      all its work is finished. The counts are JSON values; `tokens` is the
      number of completion tokens up to and including EOS.
    asks: untimed functions `(**settings) -> answer`, by name of the question.
  """

  facts: Mapping[str, Any]
  call: Callable[..., Mapping[str, Any]]
  asks: Mapping[str, Callable[..., Mapping[str, Any]]]


def serve(prepare: Callable[[dict[str, Any]], Served]) -> None:
  """Builds a side and answers requests until standard input ends.

  Args:
    prepare: function from the job to the side. The job is the first argument
      of the command line, as JSON.
  """
  answers = os.fdopen(os.dup(1), "w")
  os.dup2(
    2, 1
  )  # What libraries print to standard output goes to standard error.

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
  """Returns the largest memory that this process has used so far."""
  # macOS reports bytes, Linux KiB.
  unit = 1 if sys.platform == "darwin" else 1024
  return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
