"""Runs SQL queries on sqlite and compares their rows with the reference's.

`Item.meta` holds the data: "database", the path of a sqlite file, or "schema",
a script that builds a database in memory. The reference is a query. The query
of the completion is the content of its last `<answer>`, or else of its last
code fence, or else the whole text: one statement that only reads. The score
combines named parts, each in [0, 1]:

  execution  1 for the same rows as the reference: the same multiset, and the
             same order if the reference has an ORDER BY outside of parentheses
  judge      1 if `execution` is 1, else the score of a judge, a function that
             is called only then; there is no such part without a judge
  syntax     1 if the query runs without an error and within the limits
  schema     Jaccard index of the tables and columns that the query and the
             reference read; 0 if the query does not run
  ngram      Jaccard index of the bigrams of SQL tokens of both queries
  format     1 if the completion has one `<answer>`, or no `<answer>` and one
             code fence

  score = sum of weight * part / sum of weights,   verdict = execution

Deviation: the paper's weights, as recalled, are 3 for execution, 2 for the
judge and 1 for each other part. With them a wrong query can get 6 of 9 points,
as many as a right query in another format that shares no name or bigram with
the reference. Here execution weighs 7, and `verify` requires that it weighs
more than all other parts together.

A connection is read-only, and its authorizer refuses everything but reading.
The rows, bytes, virtual machine steps and processor seconds of a query are
limited. A query that exceeds them is wrong, however busy the machine is, so a
policy gains nothing by being slow. The wall-clock limit only ends queries that
get no processor time; their verdict is unknown. sqlite interrupts neither a
single function call nor the preparation of a statement. So there are limits on
the lengths of values and patterns, on widths in formats of `printf`, on the
number of columns, and on the number of times that common table expressions and
views are copied into a statement. A query that used too much processor time is
wrong even if it ended. Queries run in this process: sorting and grouping can
use gigabytes within these limits. So run queries of a policy in the workers of
`rewards.verifiers.pool`, whose memory is limited (temporary tables are kept in
memory for this reason).

An order is compared up to ties. Fractions are compared to ten digits, integers
exactly; `1` equals `1.0`. Text is compared without normalization, valid UTF-8
or not. Names of columns do not count, their order does. If the reference
returns no rows, every query that returns none from as many columns is right;
leave such problems out.

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
from rl import UsageError, registry

WEIGHTS = {
  "execution": 7.0,
  "judge": 2.0,
  "syntax": 1.0,
  "schema": 1.0,
  "ngram": 1.0,
  "format": 1.0,
}
Judge = Callable[[Item], float | None]

_STEPS_PER_CHECK = 100  # virtual machine steps between two checks of the limits
_READING = (
  sqlite3.SQLITE_SELECT,
  sqlite3.SQLITE_READ,
  sqlite3.SQLITE_FUNCTION,
  sqlite3.SQLITE_RECURSIVE,
)
_FORBIDDEN = ("load_extension", "fts3_tokenizer", "random", "randomblob")
_WIDTH = re.compile(r"[0-9]+")
_MAX_COLUMNS = 500
_MAX_COPIES = 10_000  # copies of common table expressions and views
_FENCE = re.compile(r"```[A-Za-z]*\s(.*?)```", re.S)
_TOKEN = re.compile(
  r"--[^\n]*|/\*.*?(?:\*/|\Z)"
  r"|'(?:[^']|'')*'|\"[^\"]*\"|`[^`]*`|\[[^\[\]]*\]|[^\W\d]\w*"
  r"|[0-9]+(?:\.[0-9]*)?|<>|[<>!=]=|\|\||[^\w\s]",
  re.S,
)


@dataclasses.dataclass(frozen=True)
class Limits:
  """Limits of one query.

  Attributes:
    steps: number of steps of sqlite's virtual machine; it makes about 50
      million steps per second.
    processor: seconds of processor time.
    clock: wall-clock seconds.
    rows: number of rows of the result.
    size: characters and bytes of the result, with 8 for a number.
    value: bytes of any intermediate value.
    query: characters of the query.
  """

  steps: int = 50_000_000
  processor: float = 3.0
  clock: float = 60.0
  rows: int = 10_000
  size: int = 10_000_000
  value: int = 100_000
  query: int = 10_000

  def __post_init__(self):
    for name in ("processor", "clock"):
      value = getattr(self, name)
      if not 0 < value < math.inf:  # NaN is refused too
        raise UsageError(f"{name} is {value!r}; it must be positive and finite")


@dataclasses.dataclass(frozen=True)
class Result:
  """The result of a query.

  Attributes:
    rows: the rows; None if the query did not end within the limits.
    read: the tables and views that the query reads, and their (table, column)s.
    columns: number of columns of a row.
    error: why there are no rows, else "".
    hung: whether the wall-clock limit ended the query.
  """

  rows: list[tuple[Any, ...]] | None
  read: frozenset[Any]
  columns: int = 0
  error: str = ""
  hung: bool = False


def extract(completion: str) -> tuple[str, bool]:
  """Returns the completion's query and whether its format is right.

  The format is right with one `<answer>`, or with no `<answer>` and one code
  fence.
  """
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
    query: SQL; anything but one statement that reads gives a result with an
      error.
    meta: "database" or "schema", see the module.
    limits: limits of the query; None means `Limits()`.

  Returns:
    The rows, or the reason why there are none.

  Raises:
    UsageError: `meta` has neither key, or the database cannot be opened or
      built.
  """
  limits = limits or Limits()
  if len(query) > limits.query or "\0" in query:
    return Result(None, frozenset(), error="query too long, or with a null")
  connection, tables, views = _connect(meta)
  if _copies(query, views) > _MAX_COPIES:
    connection.close()
    problem = "common table expressions that refer to one another too often"
    return Result(None, frozenset(), error=problem)
  connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value)
  connection.setlimit(sqlite3.SQLITE_LIMIT_COLUMN, _MAX_COLUMNS)
  read: set[Any] = set()
  checks_left = [limits.steps // _STEPS_PER_CHECK]
  processor_deadline = time.thread_time() + limits.processor
  deadline = time.monotonic() + limits.clock

  def authorize(action, first, second, database, source):
    if action == sqlite3.SQLITE_READ and first in tables:
      read.add(first)
      if second:
        read.add((first, second))
    if action == sqlite3.SQLITE_FUNCTION and second.lower() in _FORBIDDEN:
      return sqlite3.SQLITE_DENY
    return sqlite3.SQLITE_OK if action in _READING else sqlite3.SQLITE_DENY

  def is_over():
    checks_left[0] -= 1
    return (
      checks_left[0] < 0
      or time.thread_time() > processor_deadline
      or time.monotonic() > deadline
    )

  formatter = sqlite3.connect(":memory:", cached_statements=0)
  formatter.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, limits.value)
  formatter.text_factory = _text

  def printf(*values):
    _check_widths(values, limits.value)
    slots = ", ".join("?" * len(values))
    return formatter.execute(f"SELECT printf({slots})", values).fetchone()[0]

  try:
    for name in ("printf", "format"):
      connection.create_function(name, -1, printf, deterministic=True)
    connection.set_authorizer(authorize)
    connection.set_progress_handler(is_over, _STEPS_PER_CHECK)
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
    # sqlite does not interrupt a single function call.
    if time.thread_time() > processor_deadline:
      return Result(None, frozenset(read), error="too slow")
    return Result(rows, frozenset(read), columns)
  except (sqlite3.Error, sqlite3.Warning, ValueError, MemoryError) as error:
    hung = (
      time.monotonic() > deadline and time.thread_time() <= processor_deadline
    )
    problem = str(error) or "no memory"
    return Result(None, frozenset(read), error=problem, hung=hung)
  finally:
    connection.close()
    formatter.close()


def parts(
  item: Item, judge: Judge | None = None, limits: Limits | None = None
) -> dict[str, float]:
  """Computes the named parts of one item's score.

  Args:
    item: completion, reference and database; see the module.
    judge: function that is called with an item whose rows differ from the
      reference's, and returns a score, which is clipped to [0, 1], or None if
      it cannot judge. Without a judge there is no part "judge".
    limits: limits of each query.

  Returns:
    `{name: value}`.

  Raises:
    UsageError: the verdict is unknown: there is no database, the reference does
      not run, the wall-clock limit ended the completion's query, or the judge
      gives no score.
  """
  reference = str(item.reference)
  truth = run(reference, item.meta, limits)
  if truth.rows is None or not _tokens(reference):
    raise UsageError(f"the reference does not run: {truth.error or 'empty'}")
  query, formed = extract(str(item.completion))
  result = run(query, item.meta, limits)
  if result.hung:
    raise UsageError("the query was ended by the clock")
  runs = result.rows is not None and bool(_tokens(query))
  same = runs and _same(result, truth, _orders(reference))
  named = {
    "execution": float(same),
    "syntax": float(runs),
    "schema": jaccard(result.read, truth.read) if runs else 0.0,
    "ngram": jaccard(_bigrams(query), _bigrams(reference)),
    "format": float(formed),
  }
  if judge is not None:
    judged = 1.0 if same else judge(item)
    if judged is None:
      raise UsageError("judge: no readable score")
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
    items: completions; references are queries.
    weights: `{part: weight}`; the weight of other parts is 0.
    judge: function that scores wrong queries, same as in `parts`.
    limits: limits of each query; None means `Limits()`.

  Returns:
    Outcomes in order. The answer is the query, the parts are those of `parts`.
    The verdict is -1 if `parts` raises.

  Raises:
    UsageError: a part is unknown, a weight is negative, or execution does not
      weigh more than all others together.
  """
  for name, weight in weights.items():
    registry.check_known("part", name, WEIGHTS)
    if weight < 0:
      raise UsageError(
        f"The weight of {name} is {weight}; it must be 0 or more."
      )
  used = {n: w for n, w in weights.items() if judge or n != "judge"}
  execution = used.get("execution", 0.0)
  others = sum(used.values()) - execution
  if execution <= others:
    raise UsageError(
      f"The weight of execution is {execution}; it must be more than {others}, "
      "the sum of the other weights, or a wrong query could beat a right one."
    )
  return [_outcome(item, used, judge, limits) for item in items]


def jaccard(a: Collection[Any], b: Collection[Any]) -> float:
  """Returns |a intersection b| / |a union b| of sets; 1 if both are empty."""
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
  except Exception as error:  # a judge may raise anything
    return unscored(str(error).partition("\n")[0], query, identity)
  total = sum(weight * named[name] for name, weight in weights.items())
  score = total / sum(weights.values())
  return Outcome(score, int(named["execution"]), query, identity, named)


def _connect(
  meta: Mapping[str, Any],
) -> tuple[sqlite3.Connection, set[str], list[str]]:
  """Returns a read-only connection, names in its schema, and SQL of views."""
  try:
    if "database" in meta:
      path = pathlib.Path(str(meta["database"])).resolve().as_uri()
      where = f"{path}?mode=ro&immutable=1"
    elif "schema" in meta:
      where = "file::memory:"
    else:
      raise UsageError('neither "database" nor "schema" in the item\'s meta')
    with contextlib.ExitStack() as opened:
      connection = sqlite3.connect(where, uri=True, cached_statements=0)
      opened.callback(connection.close)
      connection.text_factory = _text
      if "database" not in meta:
        connection.executescript(str(meta["schema"]))
      connection.execute("PRAGMA query_only=ON")
      connection.execute("PRAGMA temp_store=MEMORY")
      definitions = connection.execute(
        "SELECT name, type, sql FROM sqlite_master"
      ).fetchall()
      opened.pop_all()  # the caller closes the connection
  except (sqlite3.Error, OSError) as error:
    raise UsageError(f"no database: {error}") from error
  connection.setlimit(sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH, 200)
  connection.setlimit(sqlite3.SQLITE_LIMIT_EXPR_DEPTH, 200)
  connection.setlimit(sqlite3.SQLITE_LIMIT_COMPOUND_SELECT, 50)
  connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
  connection.setlimit(sqlite3.SQLITE_LIMIT_WORKER_THREADS, 0)
  views = [text for _, kind, text in definitions if kind == "view"]
  return connection, {name for name, _, _ in definitions}, views


def _check_widths(values: Sequence[Any], limit: int) -> None:
  """Raises UsageError if a format may print more than `limit` characters."""
  # sqlite writes the number of characters that the precision of `%c` gives
  # before it checks the limit of a value's length.
  text = str(values[0]) if values else ""
  widths = [int(width[:20]) for width in _WIDTH.findall(text)]
  if "*" in text:  # Any of the values can be a width.
    for value in values[1:]:
      with contextlib.suppress(TypeError, ValueError, OverflowError):
        widths.append(abs(int(float(value))))
  if max(widths, default=0) > limit:
    raise UsageError(f"a width above {limit}")


def _copies(query: str, views: Sequence[str]) -> int:
  """Returns a bound on the copies of common table expressions and views."""
  tokens = _names_of(query)
  texts = [(tokens, span) for span in _definitions(tokens)]
  for view in views:
    words = _names_of(view)
    start = words.index("as")
    name = words[start - 1] if words[start - 1] != ")" else ""
    if not name:  # a view with a list of columns
      name = words[words.index("(") - 1]
    texts.append((words, (name, start, len(words))))
  names = {name for _, (name, _, _) in texts}
  # Each word that is one of the names counts as a reference, unless it is next
  # to a point, or before a bracket or AS.
  references: dict[str, collections.Counter[str]] = {}
  for words, (name, start, end) in texts:
    counts = _references(words[start:end], names - {name})
    references[name] = references.get(name, collections.Counter()) | counts
  sizes: dict[str, int] = {}

  # sqlite copies the text of each reference while it prepares a statement, so
  # definitions that each refer twice to the one before are copied 2^n times.
  def size(name: str, path: tuple[str, ...]) -> int:
    if name in path or len(path) > 100:  # recursive
      return 1
    if name not in sizes:
      inner = references[name].items()
      # Beyond the limit the number does not matter.
      sizes[name] = min(
        1 + sum(count * size(other, (*path, name)) for other, count in inner),
        10 * _MAX_COPIES,
      )
    return sizes[name]

  inside = {i for _, a, b in _definitions(tokens) for i in range(a, b)}
  outside = [token for i, token in enumerate(tokens) if i not in inside]
  counts = _references(outside, names)
  return sum(count * size(name, ()) for name, count in counts.items())


def _names_of(query: str) -> list[str]:
  """The tokens of a query in lower case, names without quotation marks."""
  return [
    token[1:-1].lower() if token[0] in "'\"`[" else token
    for token in _tokens(query)
  ]


def _definitions(tokens: Sequence[str]) -> list[tuple[str, int, int]]:
  """Name, start and end of each `name AS (...)` and `name (...) AS (...)`."""
  opened: list[int] = []
  closed_by: dict[int, int] = {}
  for place, token in enumerate(tokens):
    if token == "(":
      opened.append(place)
    elif token == ")" and opened:
      closed_by[place] = opened.pop()
  ends = {start: end for end, start in closed_by.items()}
  definitions = []
  for place, token in enumerate(tokens):
    if token != "as" or not place:
      continue
    start = place + 1
    while start < len(tokens) and tokens[start] in ("not", "materialized"):
      start += 1
    if start not in ends:
      continue
    before = place - 1
    if before in closed_by:
      before = closed_by[before] - 1
    if before >= 0:
      definitions.append((tokens[before], start, ends[start]))
  return definitions


def _references(
  tokens: Sequence[str], names: Collection[str]
) -> collections.Counter[str]:
  """Number of occurrences of each name in a text, except next to a point."""
  padded = ["", *tokens, ""]
  return collections.Counter(
    token
    for before, token, after in zip(padded, tokens, padded[2:], strict=False)
    if token in names and before != "." and after not in (".", "as", "(")
  )


def _same(result: Result, truth: Result, ordered: bool) -> bool:
  """Returns True if the rows are equal, with their order if `ordered`."""
  if result.columns != truth.columns:
    return False
  left, right = (
    [tuple(map(_rounded, row)) for row in table.rows or ()]
    for table in (result, truth)
  )
  if ordered:
    return left == right
  return collections.Counter(left) == collections.Counter(right)


def _rounded(value: Any) -> Any:
  """Rounds a float to ten digits, but not in its integer part."""
  if not isinstance(value, float) or not math.isfinite(value):
    return value
  if 1e10 <= abs(value) < 2**53:  # ten digits would cut off the integer part
    return round(value)
  return float(f"{value:.10g}")


def _text(stored: bytes) -> str:
  """Decodes a text of sqlite, also one that is not valid UTF-8."""
  return stored.decode("utf-8", "surrogateescape")


def _tokens(query: str) -> list[str]:
  """SQL tokens, in lower case outside of quotation marks."""
  tokens = _TOKEN.findall(query)
  tokens = [t for t in tokens if t[:2] not in ("--", "/*")]
  tokens = [t if t[0] in "'\"`[" else t.lower() for t in tokens]
  return tokens[:-1] if tokens[-1:] == [";"] else tokens


def _bigrams(query: str) -> set[tuple[str, str]]:
  tokens = ["", *_tokens(query), ""]
  return set(itertools.pairwise(tokens))


def _orders(query: str) -> bool:
  """Returns True if ORDER BY is outside of all parentheses."""
  depth, before = 0, ""
  for token in _tokens(query):
    if token in "()":
      depth += 1 if token == "(" else -1
    elif depth == 0 and (before, token) == ("order", "by"):
      return True
    before = token
  return False
