"""Queries run on sqlite: do they return what the reference returns?

`Item.meta` says on what: "database", the path of a sqlite file, or "schema", a
script that builds one in memory. The reference is a query. The completion's
query is what its last `<answer>`, or else its last code fence, or else all of
it holds: one statement, which may only read. Named parts, each in [0, 1]:

  execution  the same rows as the reference: the same multiset, and the same
             order if the reference has an ORDER BY outside of all parentheses
  judge      what a judge says, asked only if the execution differs; else 1
  syntax     it runs without an error
  schema     Jaccard index of the tables and columns read
  ngram      Jaccard index of the bigrams of SQL tokens
  format     the query stands in one `<answer>` or one code fence

  score = sum of weight * part / sum of weights,   verdict = execution

The weights recollected from the paper are 3 for execution, 2 for the judge, 1
for each other. With them a wrong query can have 6 of 9 and a right one, written
otherwise, 7 less what it lacks in `schema` and `ngram`: 5. Here execution
weighs 7, more than all others together, and weights that do not are refused.

A connection is read-only, its authorizer refuses everything but reading, the
rows, bytes, virtual machine steps and processor seconds of a query are capped,
and one that exceeds them is wrong, however busy the machine is: a policy cannot
hide by being slow. The clock only ends what gets no processor, and then the
verdict is unknown. A single function call is
not interrupted: lengths of values and patterns are limited, so it is short. It
is no process of its own: sorting and grouping can use gigabytes within these
limits, so queries of a policy belong in the workers of
`rewards.verifiers.pool`, whose memory is limited (temporary tables are kept in
memory to that end).

An order is compared with its ties. Fractions are compared to ten digits, whole
numbers to all, `1` equals `1.0`, text is compared as it stands, be it UTF-8 or
not; names of columns do not count,
their order does. Where the reference returns no rows, every query that returns
none from as many columns is right: the method's own weakness, so leave such
problems out.

Usage:
  item = Item("?", "```sql\\nSELECT 1\\n```", "SELECT 1", {"schema": ""})
  verify([item])[0].verdict == 1

Source: Pourreza et al. 2025, "Reasoning-SQL: Reinforcement Learning with SQL
Tailored Partial Rewards for Reasoning-Enhanced Text-to-SQL".
"""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import math
import pathlib
import re
import sqlite3
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from rewards.verifiers import Item, Outcome, answer_id, unscored
from rewards.verifiers.numbers import after_thoughts
from rl import choices

WEIGHTS = {
  "execution": 7.0,
  "judge": 2.0,
  "syntax": 1.0,
  "schema": 1.0,
  "ngram": 1.0,
  "format": 1.0,
}
Judge = Callable[[Item], float | None]

_EVERY = 100  # steps between two looks at the clock
_READING = (
  sqlite3.SQLITE_SELECT,
  sqlite3.SQLITE_READ,
  sqlite3.SQLITE_FUNCTION,
  sqlite3.SQLITE_RECURSIVE,
)
_FORBIDDEN = ("load_extension", "fts3_tokenizer", "random", "randomblob")
_FENCE = re.compile(r"```[A-Za-z]*\s(.*?)```", re.S)
_TOKEN = re.compile(
  r"--[^\n]*|/\*.*?(?:\*/|\Z)"
  r"|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\[\]]*\]|[^\W\d]\w*"
  r"|[0-9]+(?:\.[0-9]*)?|<>|[<>!=]=|\|\||[^\w\s]",
  re.S,
)


@dataclasses.dataclass(frozen=True)
class Limits:
  """What one query may use.

  Attributes:
    steps: of sqlite's virtual machine, about 50 million a second.
    processor: seconds of processor time.
    clock: seconds of the clock.
    rows: of the result.
    size: characters and bytes of the result, 8 for a number.
    value: bytes of any value on the way.
    query: characters of the query.
  """

  steps: int = 50_000_000
  processor: float = 3.0
  clock: float = 60.0
  rows: int = 10_000
  size: int = 10_000_000
  value: int = 100_000
  query: int = 10_000


@dataclasses.dataclass(frozen=True)
class Result:
  """What running a query gave.

  Attributes:
    rows: None if it did not run to its end within the limits.
    read: the tables and views, and their (table, column)s, that it reads.
    columns: how many a row has.
    error: why there are no rows; "" if there are.
    hung: whether the clock ended it.
  """

  rows: list[tuple[Any, ...]] | None
  read: frozenset[Any]
  columns: int = 0
  error: str = ""
  hung: bool = False


def extract(completion: str) -> tuple[str, bool]:
  """The completion's query, and whether it stood in one answer or one fence.

  What stands in thoughts is no answer.
  """
  completion = after_thoughts(completion)
  body, tag, _ = completion.rpartition("</answer>")
  if tag and "<answer>" in body:
    inside = body.rpartition("<answer>")[2]
    fences = _FENCE.findall(inside)
    return (fences[-1] if fences else inside).strip(), (
      completion.count("<answer>") == completion.count("</answer>") == 1
    )
  fences = _FENCE.findall(completion)
  return (fences[-1] if fences else completion).strip(), len(fences) == 1


def run(
  query: str, meta: Mapping[str, Any], limits: Limits | None = None
) -> Result:
  """Runs one reading statement on the database of an item.

  Args:
    query: SQL; anything else than one statement that reads is an error.
    meta: "database" or "schema", see the module.
    limits: what it may use; None is `Limits()`.

  Returns:
    The result.

  Raises:
    ValueError: `meta` has neither, or the database cannot be opened or built.
  """
  limits = limits or Limits()
  if len(query) > limits.query or "\0" in query:
    return Result(None, frozenset(), error="query too long, or with a null")
  connection, tables = _connect(meta)
  connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value)
  read: set[Any] = set()
  left = [limits.steps // _EVERY]
  spent = time.thread_time() + limits.processor
  deadline = time.monotonic() + limits.clock

  def authorize(action, first, second, database, source):
    if action == sqlite3.SQLITE_READ and first in tables:
      read.add(first)
      if second:
        read.add((first, second))
    if action == sqlite3.SQLITE_FUNCTION and second.lower() in _FORBIDDEN:
      return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY

  def tick():
    left[0] -= 1
    return (
      left[0] < 0 or time.thread_time() > spent or time.monotonic() > deadline
    )

  try:
    connection.set_authorizer(authorize)
    connection.set_progress_handler(tick, _EVERY)
    rows: list[tuple[Any, ...]] = []
    size = 0
    cursor = connection.execute(query)
    if cursor.description is None:
      return Result(None, frozenset(read), error="not a query")
    columns = len(cursor.description)
    for row in cursor:
      rows.append(row)
      size += sum(len(v) if isinstance(v, str | bytes) else 8 for v in row)
      if len(rows) > limits.rows or size > limits.size:
        return Result(None, frozenset(read), error="too many rows")
    return Result(rows, frozenset(read), columns)
  except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
    hung = time.monotonic() > deadline and time.thread_time() <= spent
    problem = str(error) or "no memory"
    return Result(None, frozenset(read), error=problem, hung=hung)
  finally:
    connection.close()


def parts(
  item: Item, judge: Judge | None = None, limits: Limits | None = None
) -> dict[str, float]:
  """The named parts of one item's score.

  Args:
    item: see the module.
    judge: says in [0, 1] how good a completion is whose execution differs, None
      if it cannot; without a judge there is no such part.
    limits: of each query.

  Returns:
    `{name: value}`.

  Raises:
    ValueError: nothing can be said: there is no database, the reference does
      not run, the clock ended the completion's query, or the judge is silent.
  """
  reference = str(item.reference)
  truth = run(reference, item.meta, limits)
  if truth.rows is None or not _tokens(reference):
    raise ValueError(f"the reference does not run: {truth.error or 'empty'}")
  query, formed = extract(str(item.completion))
  found = run(query, item.meta, limits)
  if found.hung:
    raise ValueError("the query was ended by the clock")
  runs = found.rows is not None and bool(_tokens(query))
  same = runs and _same(found, truth, _orders(reference))
  named = {
    "execution": float(same),
    "syntax": float(runs),
    "schema": jaccard(found.read, truth.read) if runs else 0.0,
    "ngram": jaccard(_bigrams(query), _bigrams(reference)),
    "format": float(formed),
  }
  if judge is not None:
    judged = 1.0 if same else judge(item)
    if judged is None:
      raise ValueError("judge: no readable score")
    named["judge"] = min(max(float(judged), 0.0), 1.0)
  return named


def verify(
  items: Sequence[Item],
  weights: Mapping[str, float] = WEIGHTS,
  judge: Judge | None = None,
  limits: Limits | None = None,
) -> list[Outcome]:
  """Runs each completion's query and its reference; see the module.

  Args:
    items: completions, references being queries.
    weights: `{part: weight}`; parts left out weigh nothing.
    judge, limits: as of `parts`.

  Returns:
    Outcomes in order; the answer is the query, the parts are those of `parts`.
    The verdict is -1, the score 0, where `parts` can say nothing.

  Raises:
    ValueError: an unknown part, a negative weight, or an execution that does
      not weigh more than all others together.
  """
  for name, weight in weights.items():
    if name not in WEIGHTS:
      raise ValueError(choices.unknown("part", name, WEIGHTS))
    if weight < 0:
      raise ValueError(f"the weight of {name} is {weight}; allowed: 0 or more")
  used = {n: w for n, w in weights.items() if judge or n != "judge"}
  execution = used.get("execution", 0.0)
  others = sum(used.values()) - execution
  if execution <= others:
    raise ValueError(
      f"execution weighs {execution}; allowed: more than {others}, the others' "
      "sum, or a wrong query could beat a right one"
    )
  return [_outcome(item, used, judge, limits) for item in items]


def jaccard(a: Collection[Any], b: Collection[Any]) -> float:
  """Shared over all, of sets; 1 of two empty ones."""
  union = len(set(a) | set(b))
  return len(set(a) & set(b)) / union if union else 1.0


def _outcome(
  item: Item,
  weights: Mapping[str, float],
  judge: Judge | None,
  limits: Limits | None,
) -> Outcome:
  query = extract(str(item.completion))[0]
  identity = answer_id(" ".join(_tokens(query))) if query else -1
  try:
    named = parts(item, judge, limits)
  except Exception as error:  # a judge is anybody's function
    return unscored(str(error).split("\n", 1)[0], query, identity)
  total = sum(weight * named[name] for name, weight in weights.items())
  score = total / sum(weights.values())
  return Outcome(score, int(named["execution"]), query, identity, named)


def _connect(meta: Mapping[str, Any]) -> tuple[sqlite3.Connection, set[str]]:
  """A connection that cannot write, and the tables and views that there are."""
  try:
    if "database" in meta:
      path = pathlib.Path(str(meta["database"])).resolve().as_uri()
      where = f"{path}?mode=ro&immutable=1"
    elif "schema" in meta:
      where = "file::memory:"
    else:
      raise ValueError('neither "database" nor "schema" in the item\'s meta')
    with contextlib.ExitStack() as opened:
      connection = sqlite3.connect(where, uri=True, cached_statements=0)
      opened.callback(connection.close)
      connection.text_factory = _text
      if "database" not in meta:
        connection.executescript(str(meta["schema"]))
      connection.execute("PRAGMA query_only=ON")
      connection.execute("PRAGMA temp_store=MEMORY")
      names = connection.execute("SELECT name FROM sqlite_master").fetchall()
      opened.pop_all()  # whoever asked closes it
  except (sqlite3.Error, OSError) as error:
    raise ValueError(f"no database: {error}") from error
  connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200)
  connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
  connection.setlimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50)
  connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
  connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
  return connection, {name for (name,) in names}


def _same(found: Result, truth: Result, ordered: bool) -> bool:
  if found.columns != truth.columns:
    return False
  left, right = (
    [tuple(map(_rounded, row)) for row in result.rows or ()]
    for result in (found, truth)
  )
  if ordered:
    return left == right
  return collections.Counter(left) == collections.Counter(right)


def _rounded(value: Any) -> Any:
  if not isinstance(value, float) or not math.isfinite(value):
    return value
  if 1e10 <= abs(value) < 2**53:  # ten digits are less than the whole number
    return round(value)
  return float(f"{value:.10g}")


def _text(stored: bytes) -> str:
  return stored.decode("utf-8", "surrogateescape")


def _tokens(query: str) -> list[str]:
  """SQL tokens, in small letters outside of quotation marks."""
  tokens = _TOKEN.findall(query)
  tokens = [t for t in tokens if t[:2] not in ("--", "/*")]
  tokens = [t if t[0] in "'\"`[" else t.lower() for t in tokens]
  return tokens[:-1] if tokens[-1:] == [";"] else tokens


def _bigrams(query: str) -> set[tuple[str, str]]:
  tokens = ["", *_tokens(query), ""]
  return set(itertools.pairwise(tokens)) - {("", "")}


def _orders(query: str) -> bool:
  """Whether ORDER BY stands outside of all parentheses."""
  depth, before = 0, ""
  for token in _tokens(query):
    if token in "()":
      depth += 1 if token == "(" else -1
    elif depth == 0 and (before, token) == ("order", "by"):
      return True
    before = token
  return False
