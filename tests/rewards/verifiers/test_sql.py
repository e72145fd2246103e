"""SQL: what equals what, what a query may do, and that parts cannot beat it."""

import dataclasses
import functools
import math
import os
import random
import sqlite3
import time
import types

import pytest

from rewards.verifiers import Item, sql

SCHEMA = """
CREATE TABLE city (name TEXT, country TEXT, people INTEGER, area REAL);
INSERT INTO city VALUES ('Rome', 'IT', 28, 1285.0), ('Milan', 'IT', 14, 181.5),
  ('Oslo', 'NO', 7, 454.0), ('Bergen', 'NO', 3, 465.0), ('Bern', 'CH', 1, NULL);
CREATE TABLE country (code TEXT, label TEXT);
INSERT INTO country VALUES ('IT', 'Italy'), ('NO', 'Norway');
CREATE VIEW small AS SELECT name FROM city WHERE people < 10;
"""
REFERENCE = "SELECT name FROM city WHERE people > 5 ORDER BY people DESC"


def fenced(query):
  return f"I look it up.\n```sql\n{query}\n```"


def item(query, reference=REFERENCE, **meta):
  return Item("Which?", fenced(query), reference, meta or {"schema": SCHEMA})


def parts(query, reference=REFERENCE):
  return sql.parts(item(query, reference))


def verdict(query, reference=REFERENCE):
  return sql.verify([item(query, reference)])[0].verdict


@pytest.mark.parametrize(
  ("query", "reference"),
  [
    ("SELECT name FROM city WHERE people>=7 ORDER BY -people;", REFERENCE),
    ("SELECT c.name FROM city AS c WHERE c.people > 5 ORDER BY 1 DESC",
     "SELECT name FROM city WHERE people > 5"),
    ("SELECT 14 * 2.0", "SELECT 28"),
    ("SELECT 0.1 + 0.2", "SELECT 0.3"),
    ("SELECT NULL", "SELECT area FROM city WHERE name = 'Bern'"),
    ("SELECT people AS n FROM city", "SELECT people FROM city"),
    ("WITH c AS (SELECT * FROM city) SELECT count(*) FROM c",
     "SELECT count(*) FROM city"),
    ("SELECT name FROM city WHERE name = 'none'",
     "SELECT label FROM country WHERE code = 'XX'"),
    ("SELECT country FROM city GROUP BY country",
     "SELECT DISTINCT country FROM (SELECT * FROM city ORDER BY name)"),
    ("/* hm */ SELECT count(*) -- all\nFROM city", "SELECT 5"),
  ],
)  # fmt: skip
@pytest.mark.worked_example("function:sql.verify")
def test_the_same_rows(query, reference):
  assert verdict(query, reference) == 1


@pytest.mark.parametrize(
  ("query", "reference"),
  [
    ("SELECT name FROM city WHERE people > 5 ORDER BY people", REFERENCE),
    ("SELECT country FROM city", "SELECT DISTINCT country FROM city"),
    ("SELECT DISTINCT country FROM city", "SELECT country FROM city"),
    ("SELECT people, name FROM city", "SELECT name, people FROM city"),
    ("SELECT '28'", "SELECT 28"),
    ("SELECT 'rome'", "SELECT 'Rome'"),
    ("SELECT 0", "SELECT NULL"),
    ("SELECT x'61'", "SELECT 'a'"),
    ("SELECT 0.3000001", "SELECT 0.3"),
    ("SELECT name FROM town", REFERENCE),
    ("SELECT name FROM city WHERE", REFERENCE),
    ("", "SELECT name FROM city WHERE 0"),
    ("REINDEX", "SELECT name FROM city WHERE 0"),
    ("SELECT 1, 2 WHERE 0", "SELECT name FROM city WHERE 0"),
    ("-- nothing", "SELECT name FROM city WHERE 0"),
    (";", "SELECT name FROM city WHERE 0"),
    ("SELECT 1; SELECT 1", "SELECT 1"),
    ("SELECT 1\0", "SELECT 1"),
  ],
)
@pytest.mark.worked_example("function:sql.verify")
def test_other_rows_or_none(query, reference):
  assert verdict(query, reference) == 0


def test_an_empty_result_is_right_by_accident():
  """Tests that execution match accepts any query without rows, a known flaw."""
  assert verdict("SELECT 1 WHERE 0", "SELECT name FROM city WHERE 0") == 1


def test_order_counts_where_the_reference_orders():
  rows = "SELECT name FROM city"
  shuffled = rows + " ORDER BY name DESC"
  assert verdict(shuffled, rows + " ORDER BY name") == 0
  assert verdict(shuffled, rows) == 1
  assert verdict(shuffled, f"SELECT * FROM ({rows} ORDER BY name)") == 1
  assert verdict(shuffled, rows + " -- ORDER BY name") == 1
  assert verdict(shuffled, rows + " WHERE name <> 'ORDER BY'") == 1


def test_parts_of_the_reference_are_full():
  for reference in (
    REFERENCE,
    "SELECT 1",
    "SELECT count(*) FROM small",
    "SELECT label FROM country JOIN city ON code = country;",
  ):
    assert set(parts(reference, reference).values()) == {1.0}
    outcome = sql.verify([item(reference, reference)])[0]
    assert (outcome.score, outcome.verdict) == (1.0, 1)


def test_schema_linking_by_hand():
  # reference reads city, name, people; this reads city, name, country
  assert parts("SELECT name, country FROM city")["schema"] == 2 / 4 * 1.0 + 0.0
  assert parts("SELECT NAME FROM City x WHERE x.PEOPLE = 1")["schema"] == 1.0
  # a view reads its table as well: small, small.name, city, name, people
  assert parts("SELECT name FROM small")["schema"] == 3 / 5
  assert parts("SELECT code FROM country")["schema"] == 0.0
  assert parts("SELECT 1")["schema"] == 0.0
  assert parts("SELECT name, people FROM city WHERE")["schema"] == 0.0


def test_bigrams_by_hand():
  # start SELECT, SELECT 1, 1 end against start SELECT, SELECT 2, 2 end
  assert parts("SELECT 2", "SELECT 1")["ngram"] == 1 / 5
  assert parts("select\n1 ;", "SELECT 1")["ngram"] == 1.0
  assert parts("SELECT 'A'", "SELECT 'a'")["ngram"] == 1 / 5
  assert parts("", "SELECT 1")["ngram"] == 0.0


def test_jaccard_is_symmetric_and_bounded():
  generator = random.Random(0)
  for _ in range(100):
    a, b = (
      set(generator.choices("abcd", k=generator.randrange(4))) for _ in "ab"
    )
    value = sql.jaccard(a, b)
    assert value == sql.jaccard(b, a)
    assert 0 <= value <= 1
    assert (value == 1) == (a == b)


def test_where_the_query_stands():
  for completion, query, formed in (
    ("SELECT 1", "SELECT 1", False),
    ("a\n```sql\nSELECT 1\n```\nb", "SELECT 1", True),
    ("```\nSELECT 1\n```", "SELECT 1", True),
    ("```sql\nSELECT 2\n```\n```sql\nSELECT 1\n```", "SELECT 1", False),
    ("So: <answer>SELECT 1</answer>", "SELECT 1", True),
    ("<answer>\n```sql\nSELECT 1\n```\n</answer>", "SELECT 1", True),
    ("<answer>SELECT 2</answer><answer>SELECT 1</answer>", "SELECT 1", False),
    (
      "<answer>```\nSELECT 2\n```\n```\nSELECT 1\n```</answer>",
      "SELECT 1",
      True,
    ),
    ("", "", False),
  ):
    assert sql.extract(completion) == (query, formed)


@pytest.mark.parametrize(
  "query",
  [
    "INSERT INTO city VALUES ('X', 'Y', 1, 1)",
    "UPDATE city SET people = 0",
    "DELETE FROM city",
    "DROP TABLE city",
    "CREATE TABLE t (a)",
    "CREATE TEMP TABLE t (a)",
    "ATTACH 'other.db' AS other",
    "DETACH main",
    "VACUUM INTO 'copy.db'",
    "PRAGMA query_only = OFF",
    "PRAGMA writable_schema = ON",
    "SELECT * FROM pragma_table_info('city')",
    "BEGIN",
    "SELECT load_extension('x')",
    "SELECT fts3_tokenizer('simple')",
    "SELECT random()",
    "ANALYZE",
    "REINDEX",
  ],
)
def test_only_reading_is_allowed(tmp_path, query, monkeypatch):
  monkeypatch.chdir(tmp_path)
  path = tmp_path / "towns.db"
  with sqlite3.connect(path) as connection:
    connection.executescript(SCHEMA)
  connection.close()
  before, listed = path.read_bytes(), sorted(os.listdir(tmp_path))
  result = sql.run(query, {"database": str(path)})
  assert result.rows is None
  assert result.error
  assert path.read_bytes() == before
  assert sorted(os.listdir(tmp_path)) == listed
  assert sql.verify([item(query, database=str(path))])[0].verdict == 0
  assert sql.verify([item(REFERENCE, database=str(path))])[0].verdict == 1


ENDLESS = (
  "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) "
  "SELECT count(*) FROM n"
)


def test_endless_and_huge_queries_are_wrong_and_bounded():
  wide = ", ".join(["city"] * 12)
  for query in (
    ENDLESS,
    ENDLESS.replace("count(*)", "x"),
    f"SELECT count(*) FROM {', '.join(f'city c{i}' for i in range(14))}",
    f"SELECT 1 FROM {wide}",
    "SELECT zeroblob(1000000000)",
    "SELECT replace(hex(zeroblob(50000)), '0', hex(zeroblob(50000)))",
    "SELECT printf('%.*c', 99999999, 'x')",
    "SELECT " + "(" * 4000 + "1" + ")" * 4000,
    "SELECT 1" + " UNION SELECT 1" * 600,
    "SELECT '" + "a" * 10**5 + "'",
  ):
    start = time.process_time()
    assert verdict(query) == 0, query[:60]
    assert time.process_time() - start < 8


def test_the_clock_leaves_the_verdict_unknown_and_nothing_else_does():
  clock = sql.Limits(steps=10**12, processor=60, clock=0.2)
  outcome = sql.verify([item(ENDLESS)], limits=clock)[0]
  assert (outcome.verdict, outcome.score) == (-1, 0.0)
  assert "clock" in outcome.reason
  steps = sql.Limits(steps=10**6, processor=60)
  assert sql.verify([item(ENDLESS)], limits=steps)[0].verdict == 0
  seconds = sql.Limits(steps=10**12, processor=0.2)
  assert sql.verify([item(ENDLESS)], limits=seconds)[0].verdict == 0


def test_a_policy_cannot_hide_by_being_slow():
  """Few steps, each of them slow: still wrong, not unknown."""
  slow = (
    "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n) SELECT "
    "count(replace(hex(zeroblob(40000)), '00', printf('%d', x % 10))) FROM n"
  )
  limits = sql.Limits(processor=0.3)
  start = time.process_time()
  outcome = sql.verify([item(slow)], limits=limits)[0]
  assert outcome.verdict == 0
  assert time.process_time() - start < 8


def nested(levels, body="SELECT a.x FROM {0} a, {0} b"):
  """A query whose preparation copies 2^levels common table expressions."""
  parts = ["c0(x) AS (SELECT 1)"]
  for i in range(levels):
    parts.append(f"c{i + 1}(x) AS ({body.format(f'c{i}')})")
  return f"WITH {', '.join(parts)} SELECT count(*) FROM c{levels}"


WIDE = "printf('%.*c', 400000000, 'x')"


@pytest.mark.parametrize(
  "query",
  [
    f"SELECT {' || '.join([WIDE] * 9)}",
    "SELECT printf('%.' || '400000000' || 'c', 'x') "
    "|| format('%.*c', 4e8, 'x')",
    nested(18),
    nested(18, "SELECT x FROM {0} UNION ALL SELECT x FROM {0}"),
    nested(18, "SELECT (SELECT x FROM [{0}]) + (SELECT x FROM `{0}`)"),
    nested(18).replace(" AS (SELECT a", " AS NOT MATERIALIZED (SELECT a"),
  ],
)
def test_what_sqlite_does_not_interrupt_is_wrong_and_short(query):
  start = time.process_time()
  outcome = sql.verify([item(query)])[0]
  assert (outcome.verdict, outcome.parts["syntax"]) == (0, 0.0)
  assert time.process_time() - start < 0.5


def test_views_that_are_copied_too_often_are_refused():
  views = "CREATE VIEW v0(x) AS SELECT 1;"
  for i in range(18):
    views += f"CREATE VIEW v{i + 1} AS SELECT a.x FROM v{i} a, v{i} b;"
  start = time.process_time()
  result = sql.run("SELECT * FROM v18", {"schema": views})
  assert "refer to one another" in result.error
  assert time.process_time() - start < 0.5
  assert sql.run("SELECT * FROM v3", {"schema": views}).rows == [(1,)]


def test_a_query_that_ends_after_its_time_is_wrong():
  limits = sql.Limits(processor=1e-9)
  result = sql.run("SELECT 1", {"schema": ""}, limits)
  assert (result.rows, result.error) == (None, "too slow")


def test_time_limits_are_positive_and_finite():
  for name in ("processor", "clock"):
    for seconds in (0.0, -1.0, float("nan"), float("inf")):
      with pytest.raises(ValueError, match=f"{name} is {seconds}.*finite"):
        sql.Limits(**{name: seconds})


def test_the_documented_limits():
  assert dataclasses.asdict(sql.Limits()) == {
    "steps": 50_000_000,
    "processor": 3.0,
    "clock": 60.0,
    "rows": 10_000,
    "size": 10_000_000,
    "value": 100_000,
    "query": 10_000,
  }
  assert sql.Limits(processor=0.5, clock=0.5) != sql.Limits()
  refused = sql.run("SELECT 1\0", {"schema": ""})
  problem = "query too long, or with a null"
  assert refused == sql.Result(None, frozenset(), 0, problem, hung=False)
  for value, name in ((sql.Limits(), "rows"), (refused, "error")):
    with pytest.raises(dataclasses.FrozenInstanceError):
      setattr(value, name, 1)


@pytest.mark.parametrize(
  ("query", "limits", "runs"),
  [
    ("SELECT 1", {"query": 8}, True),
    ("SELECT 11", {"query": 8}, False),
    ("SELECT 1 UNION SELECT 2", {"rows": 2}, True),
    ("SELECT 1 UNION SELECT 2 UNION SELECT 3", {"rows": 2}, False),
    # 3 characters, 2 bytes, and 8 for each number, in two rows.
    ("SELECT 'abc', 1 UNION ALL SELECT x'0102', 2.5", {"size": 21}, True),
    ("SELECT 'abc', 1 UNION ALL SELECT x'0102', 2.5", {"size": 20}, False),
    ("SELECT printf('%50d', 1)", {"value": 50}, True),
    ("SELECT 'a' LIKE '" + "a" * 200 + "'", {}, True),
    ("SELECT 'a' LIKE '" + "a" * 201 + "'", {}, False),
    (" UNION ALL ".join(["SELECT 1"] * 50), {}, True),
    (" UNION ALL ".join(["SELECT 1"] * 51), {}, False),
    ("SELECT " + ", ".join("1" * 500), {}, True),
    ("SELECT " + ", ".join("1" * 501), {}, False),
    ("SELECT 1 AS", {}, False),
  ],
)
def test_a_limit_that_is_just_reached(query, limits, runs):
  result = sql.run(query, {"schema": ""}, sql.Limits(**limits))
  assert (result.rows is not None) == runs
  assert bool(result.error) != runs


@pytest.mark.parametrize(
  ("values", "width"),
  [
    ((), 0),
    (("%d",), 0),
    (("%51d", 1), 51),
    (("%1d%51d", 1, 1), 51),
    (("%51d%1d", 1, 1), 51),
    (("%.51f", 1), 51),
    (("%d%*d", 1, 51, 1), 51),
    (("%d%*d", 1, -51, "x"), 51),
    (("%*d", 1, b"x", None, math.inf, "51"), 51),
    (("%d", 51), 0),  # no value is a width
    (("%" + "9" * 25 + "d", 1), 10**20 - 1),
  ],
)
def test_the_widest_width_of_a_format(values, width):
  """SQLite would write so many characters before it refuses them."""
  sql._check_widths(values, width)
  if width:
    with pytest.raises(ValueError, match=f"a width above {width - 1}"):
      sql._check_widths(values, width - 1)


class Connection(sqlite3.Connection):
  """A connection that keeps its limits and its handler when it is closed."""

  closed = ()
  KINDS = types.SimpleNamespace(
    length=sqlite3.SQLITE_LIMIT_LENGTH,
    columns=sqlite3.SQLITE_LIMIT_COLUMN,
    pattern=sqlite3.SQLITE_LIMIT_LIKE_PATTERN_LENGTH,
    depth=sqlite3.SQLITE_LIMIT_EXPR_DEPTH,
    selects=sqlite3.SQLITE_LIMIT_COMPOUND_SELECT,
    attached=sqlite3.SQLITE_LIMIT_ATTACHED,
    threads=sqlite3.SQLITE_LIMIT_WORKER_THREADS,
  )

  def set_progress_handler(self, handler, steps):
    self.handler = handler, steps
    super().set_progress_handler(handler, steps)

  def close(self):
    kinds = vars(self.KINDS).items()
    self.limits = {name: self.getlimit(kind) for name, kind in kinds}
    Connection.closed.append(self)
    super().close()


@pytest.fixture
def closed(monkeypatch):
  """The connections that were closed."""
  connections = []
  monkeypatch.setattr(Connection, "closed", connections)
  connect = functools.partial(sqlite3.connect, factory=Connection)
  monkeypatch.setattr(sql.sqlite3, "connect", connect)
  return connections


def test_the_limits_of_a_connection(closed):
  sql.run("SELECT 1", {"schema": ""}, sql.Limits(value=70))
  connection, formatter = closed
  assert connection.limits == {
    "length": 70,
    "columns": 500,
    "pattern": 200,
    "depth": 200,
    "selects": 50,
    "attached": 0,
    "threads": 0,
  }
  assert formatter.limits["length"] == 70


def test_steps_are_counted_by_the_hundred(closed):
  limits = sql.Limits(steps=1000, processor=1e6, clock=1e6)
  sql.run("SELECT 1", {"schema": ""}, limits)
  handler, steps = closed[0].handler
  assert steps == 100
  assert [handler() for _ in range(11)] == [False] * 10 + [True]


@pytest.fixture
def clocks(monkeypatch):
  """The time of the clock and of the processor, which stand still."""
  values = types.SimpleNamespace(clock=500.0, processor=50.0)
  times = types.SimpleNamespace(
    monotonic=lambda: values.clock, thread_time=lambda: values.processor
  )
  monkeypatch.setattr(sql, "time", times)
  return values


TIMES = sql.Limits(processor=4.0, clock=16.0)


def test_time_is_up_after_the_limit(closed, clocks):
  sql.run("SELECT 1", {"schema": ""}, TIMES)
  handler, _ = closed[0].handler
  for clock, processor, is_over in (
    (516.0, 54.0, False),
    (516.1, 54.0, True),
    (516.0, 54.1, True),
  ):
    clocks.clock, clocks.processor = clock, processor
    assert handler() == is_over


@pytest.mark.parametrize(
  ("clock", "processor", "error", "hung"),
  [
    (516.0, 54.0, "", False),
    (516.0, 54.1, "too slow", False),
    # An error after the limit of the clock may be due to the machine.
    (516.0, 54.0, "no such function: fail", False),
    (516.1, 54.0, "no such function: fail", True),
    (516.1, 54.1, "no such function: fail", False),
  ],
)
def test_what_ended_a_query(clocks, monkeypatch, clock, processor, error, hung):
  query = "SELECT fail()" if "function" in error else "SELECT 1"

  class Late(sqlite3.Connection):
    """A connection whose query takes until the given time."""

    def execute(self, text, *arguments):
      if text == query:
        self.set_progress_handler(None, 0)
        clocks.clock, clocks.processor = clock, processor
      return super().execute(text, *arguments)

  connect = functools.partial(sqlite3.connect, factory=Late)
  monkeypatch.setattr(sql.sqlite3, "connect", connect)
  result = sql.run(query, {"schema": ""}, TIMES)
  assert (result.error, result.hung) == (error, hung)


def copying(count, more=""):
  """A query with `100 * count + 1` copies of common table expressions.

  Names next to a point and the name's own recursion do not count.
  """
  a = "a(x) AS (SELECT 1 UNION ALL SELECT a.x FROM a WHERE 0)"
  b = f"b AS MATERIALIZED (SELECT {'+'.join(['(SELECT x FROM a)'] * 99)})"
  outside = "+".join(["(SELECT 1 FROM b)"] * count)
  return f"WITH RECURSIVE {a}, {b} SELECT {outside} + c.b, b.c FROM a{more}"


def test_copies_are_counted_by_hand(monkeypatch):
  """Each of 7 references to `b` is a copy of it and of its 99 `a`."""
  for limit, is_refused in ((702, False), (701, False), (700, True)):
    monkeypatch.setattr(sql, "_MAX_COPIES", limit)
    result = sql.run(copying(7), {"schema": ""})
    assert ("refer to one another" in result.error) == is_refused
  # A query may have 10 000 copies.
  monkeypatch.undo()
  for levels, is_refused in ((12, False), (13, True)):
    result = sql.run(nested(levels), {"schema": ""})
    assert ("refer to one another" in result.error) == is_refused


def test_views_with_a_list_of_columns_are_copied_too():
  views = "CREATE VIEW v0 (x) AS SELECT 1;"
  for i in range(13):
    views += f"CREATE VIEW v{i + 1} (x) AS SELECT a.x FROM v{i} a, v{i} b;"
  assert (
    "refer to one another"
    in sql.run("SELECT * FROM v13", {"schema": views}).error
  )
  assert sql.run("SELECT * FROM v3", {"schema": views}).rows == [(1,)]


def test_order_after_and_inside_of_parentheses():
  rows = "SELECT name FROM city WHERE ((people > 0) AND (1))"
  assert verdict(f"{rows} ORDER BY name DESC", f"{rows} ORDER BY name") == 0
  ordered = "SELECT name FROM (SELECT name, (1) FROM city ORDER BY name)"
  assert verdict("SELECT name FROM city ORDER BY name DESC", ordered) == 1


def test_weights_at_their_bounds():
  wrong = item("SELECT name FROM city")
  named = parts("SELECT name FROM city")
  weights = {"execution": 1.0, "syntax": 0.0, "schema": 0.5, "ngram": 0.25}
  (outcome,) = sql.verify([wrong], weights=weights)
  sum_ = 0.5 * named["schema"] + 0.25 * named["ngram"]
  assert outcome.score == pytest.approx(sum_ / 1.75)
  for refused in ({}, {"syntax": 0.5}, {"execution": 1.0, "syntax": 1.0}):
    with pytest.raises(ValueError, match="it must be more than"):
      sql.verify([], weights=refused)


@pytest.mark.parametrize(
  ("value", "score"), [(9, 1.0), (1, 1.0), (0.25, 0.25), (0, 0.0), (-3, 0.0)]
)
def test_the_score_of_a_judge_is_clipped(value, score):
  wrong = item("SELECT name FROM city")
  assert sql.parts(wrong, judge=lambda _: value)["judge"] == score
  assert sql.parts(item(REFERENCE), judge=lambda _: value)["judge"] == 1.0


def test_formats_and_common_table_expressions_are_those_of_sqlite():
  formats = "'%.2f|%5d|%-5s|%s|%d%%', 3.14159, 42, 'ab', NULL, '7'"
  for call in ("printf", "format"):
    rows = sql.run(f"SELECT {call}({formats})", {"schema": ""}).rows
    assert rows == [("3.14|   42|ab   ||7%",)]
  assert sql.run("SELECT printf('%*d', 5, 3)", {"schema": ""}).rows == [
    ("    3",)
  ]
  assert sql.run(nested(8), {"schema": ""}).rows == [(1,)]


def test_what_cannot_be_judged_is_unknown(tmp_path):
  missing = str(tmp_path / "none.db")
  broken = tmp_path / "broken.db"
  broken.write_bytes(b"no database" * 100)
  for case in (
    item(REFERENCE, "SELECT nothing FROM nowhere"),
    item(REFERENCE, ""),
    item(REFERENCE, "DELETE FROM city"),
    item(REFERENCE, ENDLESS),
    item(REFERENCE, database=missing),
    item(REFERENCE, database=str(broken)),
    item(REFERENCE, schema="CREATE TABLE ("),
    Item("?", fenced(REFERENCE), REFERENCE, {"nothing": 1}),
  ):
    outcome = sql.verify([case])[0]
    assert (outcome.verdict, outcome.score) == (-1, 0.0)
    assert outcome.reason
  assert not os.path.exists(missing)


def test_queries_of_one_database_do_not_see_each_other():
  items = [item(q) for q in ("DROP TABLE city", REFERENCE, "DELETE FROM city")]
  assert [o.verdict for o in sql.verify([*items, item(REFERENCE)])] == [
    0,
    1,
    0,
    1,
  ]


WRONG = [
  "SELECT name FROM city WHERE people > 5 ORDER BY people",  # all parts but one
  "SELECT name, people FROM city",
  "SELECT name FROM city",
  "SELECT 1",
  "",
  "name city people",
  REFERENCE + " LIMIT 1",
  REFERENCE.replace("5", "50"),
  (REFERENCE + " ") * 300,
]
RIGHT = (
  "WITH a AS (SELECT c.*, label FROM city c "
  "LEFT JOIN country ON code = country) "
  "SELECT a.name FROM a WHERE NOT coalesce(people, 0) <= 5 ORDER BY -people"
)


def test_no_wrong_query_beats_a_right_one():
  right = sql.verify([Item("?", RIGHT, REFERENCE, {"schema": SCHEMA})])[0]
  assert right.verdict == 1
  texts = [fenced(query) for query in WRONG]
  texts += [
    "",
    "Which?",
    "```sql\n```",
    ";" * 100,
    "SELECT " * 14_000,
    "x" * 10**5,
  ]
  for text in texts:
    wrong = sql.verify([Item("Which?", text, REFERENCE, {"schema": SCHEMA})])[0]
    assert wrong.verdict == 0
    assert wrong.score < right.score < 1


def test_the_weights_sum_by_hand_and_execution_outweighs_the_rest():
  named = parts("SELECT name FROM city")
  others = named["syntax"] + named["schema"] + named["ngram"] + named["format"]
  assert named["execution"] == 0.0
  results = sql.verify([item("SELECT name FROM city")])[0]
  assert results.score == pytest.approx(others / 11)
  assert results.parts == named
  assert sql.WEIGHTS["execution"] > sum(sql.WEIGHTS.values()) / 2
  alone = sql.verify(
    [item("SELECT name FROM city")], weights={"execution": 1.0}
  )
  assert alone[0].score == 0.0


def test_weights_that_could_be_gamed_are_refused():
  recollected = {**dict.fromkeys(sql.WEIGHTS, 1.0), "execution": 3.0}
  with pytest.raises(ValueError, match=r"execution is 3.0; it must be more"):
    sql.verify([], weights=recollected)
  with pytest.raises(ValueError, match="did you mean 'execution'"):
    sql.verify([], weights={"exection": 1.0})
  with pytest.raises(ValueError, match="must be 0 or more"):
    sql.verify([], weights={"execution": 1.0, "ngram": -1.0})


def test_the_judge_is_asked_only_where_the_execution_differs():
  requested = []

  def judge(case, value):
    requested.append(case)
    return value

  right, wrong = item(REFERENCE), item("SELECT name FROM city")
  half = functools.partial(judge, value=0.5)
  results = sql.verify([right, wrong], judge=half)
  unmodified = sql.parts(wrong)
  assert requested == [wrong]
  assert results[0].score == 1.0
  assert results[1].score == pytest.approx(
    (sum(unmodified.values()) + 2 * 0.5) / 13
  )
  assert (
    sql.verify([wrong], judge=functools.partial(judge, value=9))[0].score < 0.5
  )
  silent = functools.partial(judge, value=None)
  assert sql.verify([wrong], judge=silent)[0].verdict == -1

  def broken(case):
    raise RuntimeError("no answer")

  assert sql.verify([wrong], judge=broken)[0].reason == "no answer"


def test_never_raises_and_takes_a_short_time():
  texts = [None, 3, "\ud800", "\x00", "```sql " * 15_000, "/*" * 50_000]
  texts += [
    "'" * 99_999,
    '"' * 99_999,
    "[" * 10**5,
    "-- " * 33_000,
    "(" * 10**5,
  ]
  texts += ["<answer>" * 12_000, "</answer>" * 11_000, "SELECT 1," * 11_000]
  for text in texts:
    start = time.process_time()
    assert (
      sql.verify([Item("?", text, REFERENCE, {"schema": SCHEMA})])[0].verdict
      == 0
    )
    assert (
      sql.verify([Item("?", "SELECT 1", text, {"schema": ""})])[0].verdict < 1
    )
    assert time.process_time() - start < 2
  assert sql.verify([]) == []


def test_equal_queries_vote_together():
  texts = ["SELECT 1", "select  1;", fenced("SELECT 1 -- one"), "SELECT 2", ""]
  items = [Item("?", text, "SELECT 1", {"schema": ""}) for text in texts]
  ids = [o.answer_id for o in sql.verify(items)]
  assert ids[0] == ids[1] == ids[2] >= 0
  assert ids[3] != ids[0]
  assert ids[4] == -1


@pytest.mark.parametrize(
  ("query", "reference", "same"),
  [
    ("SELECT 12345678901", "SELECT 12345678901.0", True),
    ("SELECT 12345678901", "SELECT 12345678902.0", False),
    ("SELECT -9007199254740991", "SELECT -9007199254740991.0", True),
    ("SELECT 12345678901.000002", "SELECT 12345678901.0", True),
    ("SELECT 0.1 + 0.2", "SELECT 0.3", True),
    ("SELECT 0.3001", "SELECT 0.3", False),
    ("SELECT 1e300", "SELECT 1e300", True),
    # Above 2^53 a float is no integer, and ten digits count.
    ("SELECT 1e16", "SELECT 10000000000000002.0", True),
    ("SELECT 9e999", "SELECT 9e999", True),
    ("SELECT 9e999", "SELECT -9e999", False),
  ],
)
def test_large_numbers(query, reference, same):
  assert verdict(query, reference) == same


def test_text_need_not_be_utf_8():
  latin = "SELECT CAST(x'4de962' AS TEXT)"
  assert verdict(latin, latin) == 1
  assert verdict("SELECT CAST(x'4de863' AS TEXT)", latin) == 0
  assert verdict("SELECT 'Mb'", latin) == 0


@pytest.mark.worked_example("function:sql.verify")
def test_the_score_of_a_query_without_the_condition():
  """Syntax and format 1, execution 0; 2 of 3 names, 4 of 14 bigrams."""
  result = sql.verify([item("SELECT name FROM city"), item(REFERENCE)])
  # A sum with weight 7 of the execution and 1 of the others, over 11.
  expected = (1 + 1 + 2 / 3 + 4 / 14) / 11
  assert result[0].score == pytest.approx(expected)
  assert [each.verdict for each in result] == [0, 1]
  assert result[1].score == 1
