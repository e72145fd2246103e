"""Text to SQL: queries that return the same rows as the reference, on SQLite.

A line of the data has a question, a database and the reference query:

  {"question": "Which pears are ripe?",
   "schema": "CREATE TABLE pears (name TEXT, ripe INT); INSERT INTO ...",
   "query": "SELECT name FROM pears WHERE ripe"}

The database is the script under "schema", or the file under "database", whose
path is relative to the folder of the data; that folder then cannot be in a
bucket. A hint may be under "evidence", as in BIRD. Lines of Spider and BIRD get
this form by naming the database (`db_id` becomes
`database/db_id/db_id.sqlite`), and lines of BIRD by renaming `SQL` to "query".

The prompt shows the statements that create the tables, without their rows, then
the hint and the question:

  CREATE TABLE pears (name TEXT, ripe INT);

  Which pears are ripe?

`rewards.verifiers.sql` runs both queries in worker processes. A query is right
if it returns the same rows, in the same order where the reference has an order.
The score weighs that with partial rewards, which are logged as the components
"execution", "syntax", "schema", "ngram" and "format".

A problem is left out if its reference fails or returns no rows, since every
query without rows would be right. Each reference is run once to see this
(`notes` counts), which takes a millisecond on Spider's databases.

Usage:
  python -m experiments.evaluate --policy FOLDER --task "sql(dataset='spider')"

Source: Yu et al. 2018, "Spider"; Li et al. 2023, "Can LLM Already Serve as a
Database Interface?" (BIRD); rewards of Pourreza et al. 2025, "Reasoning-SQL".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from etils import epath

from experiments.data import json_lines
from experiments.tasks.task import Task
from experiments.tasks.text import text_task
from experiments.tasks.text.text_task import Example, TextOptions
from models import storage_paths
from rewards.verifiers import sql as queries
from rewards.verifiers.pool import Pool

INSTRUCTION = "Answer with one query for SQLite, in a block fenced as ```sql."
PARTS = ("execution", "syntax", "schema", "ngram", "format")
_TABLES = (
  "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND type IN "
  "('table', 'view') ORDER BY rowid"
)


@text_task.with_text_options(prompt_length=2048)
def sql(
  options: TextOptions,
  data_path: str | None = None,
  dataset: str = "sql",
  workers: int = 4,
  timeout: float = 30.0,
) -> Task:
  """Questions, databases and queries from local files.

  Args:
    options: settings of all text tasks.
    data_path: folder of the files. None reads the folder from `$EXTREMUM_DATA`.
    dataset: beginning of the files' names; see `json_lines.find`. The test file
      is enough for evaluation with a tokenizer from a folder.
    workers: number of processes that judge completions.
    timeout: seconds for one completion. A query is wrong after three seconds of
      processor time. A completion that takes longer than `timeout` is wrong if
      it computed for half of that time, and unscored if it waited.

  Raises:
    ValueError: if data is missing, a line has another form, a database cannot
      be read, no problem remains, or `text_task.build` refuses the problems.
  """
  splits, notes = {}, []
  files = json_lines.find(dataset, data_path)
  for split, file in files.items():
    lines = json_lines.read(file)
    examples = [_example(*line, file.parent) for line in lines]
    splits[split] = [x for x in examples if x is not None]
    num_empty = len(lines) - len(splits[split])
    note = (
      f"{dataset} {split}: {num_empty} of {len(lines)} references return no "
      "rows, left out"
    )
    if not splits[split]:
      raise ValueError(
        f"{note}; allowed: a file with some references that return rows"
      )
    if num_empty:
      notes.append(note)
  return text_task.build(
    dataset,
    splits,
    options,
    Pool(queries.verify, workers=workers, timeout=timeout, wrong_if_slow=True),
    instruction=INSTRUCTION,
    write_answer=_fence,
    parts=PARTS,
    files=files,
    notes=notes,
  )


def _example(
  location: str, line: Mapping[str, Any], folder: epath.Path
) -> Example | None:
  """Reads a line; None if its reference returns no rows."""
  question = json_lines.required_text(location, line, "question").strip()
  query = json_lines.required_text(location, line, "query").strip()
  database = _database(location, line, folder)
  try:
    result = queries.run(query, database)
    tables = queries.run(_TABLES, database)
  except ValueError as error:
    raise ValueError(f"{location}: {error}") from None
  if not result.rows:
    return None
  schema = "\n".join(f"{statement};" for (statement,) in tables.rows or ())
  hint = json_lines.optional_text(location, line, "evidence").strip()
  prompt = "\n\n".join(filter(None, (schema, hint, question)))
  return Example(prompt, _fence(query), query, database)


def _database(
  location: str, line: Mapping[str, Any], folder: epath.Path
) -> dict[str, str]:
  """Returns `{"schema": SCRIPT}` or `{"database": FILE}`."""
  keys = [key for key in ("schema", "database") if line.get(key)]
  if len(keys) != 1:
    raise ValueError(
      f"{location} has {' and '.join(keys) or 'neither'} of 'schema' and "
      "'database'; allowed: one"
    )
  (key,) = keys
  value = json_lines.required_text(location, line, key)
  if key == "schema":
    return {key: value}
  file = storage_paths.require_local(
    folder / value, f"{location}: the database"
  )
  if not file.is_file():
    raise ValueError(f"{location}: no database {value!r} in {str(folder)!r}")
  return {key: str(file)}


def _fence(query: str) -> str:
  return f"```sql\n{query}\n```"
