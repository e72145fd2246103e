"""Text to SQL: queries that return the same rows as the reference, on SQLite.

A line of the data has a question, a database and the reference query:

  {"question": "Which pears are ripe?",
   "schema": "CREATE TABLE pears (name TEXT, ripe INT); INSERT INTO ...",
   "query": "SELECT name FROM pears WHERE ripe"}

The database is made by the script under "schema", or is the file under
"database", whose path is relative to the folder of the data (which must be
local, not in a bucket). A hint may be under "evidence", as in BIRD. To convert
lines of Spider and BIRD to this form, add the file of their database as
"database" (for the `db_id` "pets" it is "database/pets/pets.sqlite"), and in
BIRD rename `SQL` to "query".

The prompt shows the statements that create the tables, without their rows, then
the hint and the question:

  CREATE TABLE pears (name TEXT, ripe INT);

  Which pears are ripe?

`rewards.verifiers.sql` runs the query of the completion and the reference query
in worker processes. A completion is right if its query returns the same rows,
in the same order if the reference query orders them. The score is a weighted
sum of this result ("execution") and of partial rewards ("syntax", "schema",
"ngram", "format"); each is logged as a component.

A problem is left out if its reference query fails or returns no rows, since
every query without rows would be right; `notes` counts these problems. To find
them, each reference query is run once when the task is built, which takes a
millisecond on Spider's databases.

Usage:
  python -m experiments.evaluate --policy FOLDER --task "sql(dataset='spider')"

Source: Yu et al. 2018, "Spider"; Li et al. 2023, "Can LLM Already Serve as a
Database Interface?" (BIRD); rewards of Pourreza et al. 2025, "Reasoning-SQL".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etils import epath

from experiments.data import json_lines, split_files
from experiments.tasks.task import Task
from experiments.tasks.text import text_options, text_task
from experiments.tasks.text.text_options import Example, TextOptions
from models import storage_paths
from rewards.verifiers import sql as queries
from rewards.verifiers.pool import Pool
from rl import UsageError

INSTRUCTION = "Answer with one query for SQLite, in a block fenced as ```sql."
PARTS = ("execution", "syntax", "schema", "ngram", "format")
_TABLES = (
  "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND type IN "
  "('table', 'view') ORDER BY rowid"
)


@text_options.with_text_options(prompt_length=2048)
def sql(
  options: TextOptions,
  folder: str | None = None,
  dataset: str = "sql",
  workers: int = 4,
  timeout: float = 30.0,
) -> Task:
  """Questions, databases and queries from local files.

  Args:
    options: settings of all text tasks.
    folder: folder of the files. None reads the folder from `$EXTREMUM_DATA`.
    dataset: beginning of the files' names; see `split_files.find`. The test
      file is enough for evaluation with a tokenizer from a folder.
    workers: number of processes that judge completions.
    timeout: seconds to judge one completion. A query that takes three seconds
      of processor time is wrong. If judging takes longer than `timeout`, the
      completion is wrong if the worker process was computing for half of that
      time, and else unscored.

  Raises:
    UsageError: if data is missing, a line has another form, a database cannot
      be read, no problem remains, or `text_task.build` refuses the problems.
  """
  splits, notes = {}, []
  files = split_files.find(dataset, folder)
  for split, file in files.items():
    lines = json_lines.read(file)
    examples = [
      _example(location, line, file.parent) for location, line in lines
    ]
    splits[split] = [example for example in examples if example is not None]
    num_empty = len(lines) - len(splits[split])
    note = (
      f"{dataset} {split}: {num_empty} of {len(lines)} references return no "
      "rows, left out"
    )
    if not splits[split]:
      raise UsageError(f"{note}; at least one reference must return rows")
    if num_empty:
      notes.append(note)
  return text_task.build(
    dataset,
    splits,
    options,
    Pool(queries.verify, workers=workers, timeout=timeout),
    instruction=INSTRUCTION,
    write_answer=_fence,
    parts=PARTS,
    files=files,
    notes=notes,
  )


def _example(
  location: str, line: Mapping[str, Any], folder: epath.Path
) -> Example | None:
  """Makes an example from a line; None if its query fails or has no rows."""
  question = json_lines.required_text(location, line, "question").strip()
  query = json_lines.required_text(location, line, "query").strip()
  database = _database(location, line, folder)
  try:
    result = queries.run(query, database)
    tables = queries.run(_TABLES, database)
  except UsageError as error:
    raise UsageError(f"{location}: {error}") from None
  if not result.rows:
    return None
  schema = "\n".join(f"{statement};" for (statement,) in tables.rows or ())
  hint = json_lines.optional_text(location, line, "evidence").strip()
  prompt = "\n\n".join(filter(None, (schema, hint, question)))
  return Example(prompt, solution=_fence(query), answer=query, meta=database)


def _database(
  location: str, line: Mapping[str, Any], folder: epath.Path
) -> dict[str, str]:
  """Returns `{"schema": SCRIPT}` or `{"database": FILE}` of a line."""
  keys = [key for key in ("schema", "database") if line.get(key)]
  if len(keys) != 1:
    raise UsageError(
      f"{location} must have exactly one of 'schema' and 'database'; it has "
      f"{' and '.join(keys) or 'neither'}"
    )
  (key,) = keys
  value = json_lines.required_text(location, line, key)
  if key == "schema":
    return {key: value}
  file = storage_paths.require_local(
    folder / value, f"{location}: the database"
  )
  if not file.is_file():
    raise UsageError(f"{location}: no database {value!r} in {str(folder)!r}")
  return {key: str(file)}


def _fence(query: str) -> str:
  """Returns the completion with this query."""
  return f"```sql\n{query}\n```"
