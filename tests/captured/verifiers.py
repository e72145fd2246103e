"""Records the verifiers on calls that the test suite makes, and the judges.

`verifier_cases.json` holds the calls; `captured/collect.py` says how it was
made.
"""

from __future__ import annotations

import contextlib
import functools
import http.server
import json
import threading
from collections.abc import Callable, Iterator
from typing import Any

from captured import code, collect

PACKAGE = "rewards.verifiers"
# Calls of branches that no call of the test suite reaches.
FURTHER_CALLS: dict[str, list[Any]] = {
  "ifbench.trigram_overlap": [
    [["a b c d", "a b c", percentage], {}] for percentage in (47, 48, 52, 53)
  ],
  "units.variables": [[[word], {}] for word in ("xzw", "zip", "abc", "mph")],
}


def items() -> dict[str, Callable[[], dict[str, Any]]]:
  cases = json.loads(collect.FILE.read_text())
  for name, calls in FURTHER_CALLS.items():
    cases[name] = cases.get(name, []) + calls
  built = {
    f"verifier:{name}": functools.partial(_verified, name, calls)
    for name, calls in cases.items()
    if code.has_function(name, PACKAGE)
  }
  built["judge:graded"] = _graded
  built["judge:preferences"] = _preferences
  built["judge:rubrics"] = _rubrics
  return built


def _verified(name: str, calls: list[Any]) -> dict[str, Any]:
  """The result of each call; an exception is recorded by its type."""
  function = code.function(name, PACKAGE)
  item = code.find("verifiers", "Item")
  results = {}
  for number, (args, kwargs) in enumerate(calls):
    args = [collect.decode(arg, item) for arg in args]
    kwargs = {key: collect.decode(kwargs[key], item) for key in kwargs}
    try:
      results[str(number)] = _reference(function(*args, **kwargs))
    except Exception as error:  # what a verifier refuses is recorded, too
      results[str(number)] = type(error).__name__
  return results


def _reference(value: Any) -> Any:
  """Returns sets and tuples as sorted lists, which always print alike."""
  if isinstance(value, set | frozenset):
    return sorted(map(str, value))
  if isinstance(value, tuple) and not hasattr(value, "_asdict"):
    return [_reference(part) for part in value]
  if isinstance(value, list):
    return [_reference(part) for part in value]
  if hasattr(value, "read") and isinstance(value.read, frozenset):
    return {  # the result of a query
      "rows": str(value.rows),
      "read": _reference(value.read),
      "columns": value.columns,
      "fails": bool(value.error),
    }
  return value


# Judges: a server on loopback that answers by rule.

_ANSWERS = (
  *("Paris", "Paris is the capital.", "Lyon", "", "  ", "Solution:"),
  *("It is Paris, I think.", "paris", "Marseille or Paris"),
)
_RUBRIC = [
  {"text": "names the city", "weight": 1.0},
  {"text": "is one word", "weight": 0.5},
  {"text": "is unsure", "weight": -0.5},
]


def _number(text: str) -> int:
  return sum(map(ord, text))


def _reply(messages: list[dict[str, str]]) -> str:
  """The judge's rule: a number made of the letters of what it is shown."""
  fields = json.loads(messages[-1]["content"])
  if "A" in fields:
    first, second = _number(fields["A"]), _number(fields["B"])
    better = "tie" if first % 5 == second % 5 else "AB"[first % 5 < second % 5]
    return json.dumps({"better": better})
  if "answers" in fields:
    return json.dumps({"rubric": [*_RUBRIC[:1], {"text": "new", "weight": 2}]})
  number = _number(fields["answer"])
  if isinstance(fields.get("criteria"), dict):
    return json.dumps(
      {key: (number + int(key)) % 2 == 0 for key in fields["criteria"]}
    )
  return "no score" if number % 7 == 3 else f"Score: {number % 11}"


class _Handler(http.server.BaseHTTPRequestHandler):
  def do_POST(self) -> None:
    size = int(self.headers["Content-Length"])
    messages = json.loads(self.rfile.read(size))["messages"]
    message = {"message": {"content": _reply(messages)}}
    body = json.dumps({"choices": [message]}).encode()
    self.send_response(200)
    self.send_header("Content-Length", str(len(body)))
    self.end_headers()
    self.wfile.write(body)

  def log_message(self, *_: Any) -> None:
    return


@contextlib.contextmanager
def _judge() -> Iterator[Any]:
  """An endpoint whose server answers by `_reply`."""
  server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), _Handler)
  threading.Thread(target=server.serve_forever, daemon=True).start()
  try:
    url = f"http://127.0.0.1:{server.server_address[1]}"
    yield code.function("judge.Endpoint", PACKAGE)(url, "rule", retries=0)
  finally:
    server.shutdown()


def _items() -> list[Any]:
  item = code.find("verifiers", "Item")
  meta = {"rubric": _RUBRIC}
  return [item("Capital?", answer, "Paris", meta) for answer in _ANSWERS]


def _graded() -> dict[str, Any]:
  graded = code.function("judge.graded", PACKAGE)
  with _judge() as judge:
    return {
      "defaults": graded(_items(), judge),
      "scale": graded(_items(), judge, low=1, high=10),
      "threshold": graded(_items(), judge, threshold=0.8),
    }


def _preferences() -> dict[str, Any]:
  preferences = code.function("judge.preferences", PACKAGE)
  with _judge() as judge:
    return {
      "both orders": preferences("Capital?", _ANSWERS, judge),
      "one order": preferences("Capital?", _ANSWERS, judge, swap=False),
    }


def _rubrics() -> dict[str, Any]:
  explicit, implicit, refine = (
    code.function(f"rubric.{name}", PACKAGE)
    for name in ("explicit", "implicit", "refine")
  )
  with _judge() as judge:
    scores = list(range(len(_ANSWERS)))
    return {
      "explicit": explicit(_items(), judge),
      "explicit threshold": explicit(_items(), judge, threshold=0.5),
      "implicit": implicit(_items(), judge),
      "implicit threshold": implicit(_items(), judge, threshold=0.8),
      "refined": refine("Capital?", _RUBRIC, _ANSWERS, scores, judge),
    }
