"""Text to SQL: queries that return what the reference's returns, on sqlite.

A line has a question, a database and the reference query:

  {"question": "Which pears are ripe?",
   "schema": "CREATE TABLE pears (name TEXT, ripe INT); INSERT INTO ...",
   "query": "SELECT name FROM pears WHERE ripe"}

The database is the script under "schema", or a file under "database", relative
to the folder of the data, which then cannot be in a bucket. Under "evidence"
there may be a hint, as in BIRD. The prompt shows the statements that make the
tables, not their rows. Spider's and BIRD's lines become these by naming the
database (`db_id` -> `database/db_id/db_id.sqlite`) and, for BIRD, calling `SQL`
"query".

`rewards.verifiers.sql` runs both queries, in worker processes: right is the
same rows, in the same order where the reference orders; the score weighs that
with the partial rewards, which are the components "execution", "syntax",
"schema", "ngram" and "format".

Problems whose reference does not run, or returns no rows, are left out: of
those every query that returns nothing is right. Each reference is run once to
see (`notes` counts), a millisecond on Spider's databases.

Usage:
  python -m experiments.evaluate --policy FOLDER --task "sql(dataset='spider')"

Source: Yu et al. 2018, "Spider"; Li et al. 2023, "Can LLM Already Serve as a
Database Interface?" (BIRD); rewards of Pourreza et al. 2025, "Reasoning-SQL".
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from typing import Any

from etils import epath

from experiments.data import json_lines
from experiments.tasks.task import Task
from experiments.tasks.text import prompting, text_task
from models import storage_paths
from rewards.verifiers import sql as queries
from rewards.verifiers.pool import Pool

INSTRUCTION = "Answer with one query for SQLite, in a block fenced as ```sql."
PARTS = ("execution", "syntax", "schema", "ngram", "format")
_TABLES = (
  "SELECT sql FROM sqlite_master WHERE sql NOT NULL AND type IN "
  "('table', 'view') ORDER BY rowid"
)


def sql(
  data_path: str | None = None,
  cache: str = "~/.cache/extremum",
  dataset: str = "sql",
  tokenizer: str = "",
  vocab_size: int = 2048,
  prompt_length: int = 2048,
  completion_length: int = 512,
  chat: bool | str = "auto",
  instruction: str | None = None,
  system: str = "",
  thinking: bool | None = None,
  too_long: str = "drop",
  workers: int = 4,
  timeout: float = 30.0,
) -> Task:
  """Questions, databases and queries from local files.

  Args:
    data_path: folder of the files; None reads `$EXTREMUM_DATA`.
    cache: folder for the task's own tokenizer.
    dataset: how the files' names begin, as of `lines.find`. The test file is
      enough to evaluate, with a tokenizer.
    tokenizer: a Hugging Face folder; "" learns a BPE from the train split.
    vocab_size: largest number of tokens of the task's own BPE.
    prompt_length: L.
    completion_length: T.
    chat, system, thinking, too_long: as of `language.Prompting`.
    instruction: a line after the question; None is one that asks for a fenced
      query, and nothing with the own BPE.
    workers: processes that judge completions.
    timeout: seconds that one completion may take. A query is wrong after three
      seconds of processor time. A completion that takes longer than `timeout` is
      wrong if it computed for half of that time, and unscored if it waited.

  Returns:
    The task, which is not jittable.

  Raises:
    ValueError: missing data, a line of another form, a database that cannot be
      read, no problem left, or what `math` refuses of the same settings.
  """
  files = json_lines.find(dataset, data_path)
  splits, notes = {}, []
  for split, file in files.items():
    found = [_row(*line, file.parent) for line in json_lines.read(file)]
    splits[split] = [row for row in found if row is not None]
    empty = len(found) - len(splits[split])
    note = (
      f"{dataset} {split}: {empty} of {len(found)} references return no rows, "
      "left out"
    )
    if not splits[split]:
      raise ValueError(f"{note}; allowed: a file with others")
    notes += [note] if empty else []
  kept = json_lines.tokenizer_folder(
    tokenizer, cache, files, dataset, vocab_size
  )
  spoken = prompting.find(tokenizer, splits, vocab_size, kept)
  if instruction is None:
    instruction = "" if spoken.own else INSTRUCTION
  task = text_task.build(
    dataset,
    splits,
    spoken,
    prompting.Prompting(chat, instruction, system, thinking, too_long),
    Pool(queries.verify, workers=workers, timeout=timeout, wrong_if_slow=True),
    shortest=_fenced,
    prompt_length=prompt_length,
    completion_length=completion_length,
    files=files,
    parts=PARTS,
  )
  return dataclasses.replace(task, notes=(*task.notes, *notes))


def _row(
  where: str, line: Mapping[str, Any], folder: epath.Path
) -> prompting.Row | None:
  """The problem; None if its reference returns nothing."""
  question = json_lines.text(where, line, "question").strip()
  query = json_lines.text(where, line, "query").strip()
  given = [key for key in ("schema", "database") if line.get(key)]
  if len(given) != 1:
    raise ValueError(
      f"{where} has {' and '.join(given) or 'neither'} of 'schema' and "
      "'database'; allowed: one"
    )
  (kind,) = given
  where_from = json_lines.text(where, line, kind)
  if kind == "database":
    file = storage_paths.require_local(
      folder / where_from, f"{where}: the database"
    )
    where_from = str(file)
    if not file.is_file():
      raise ValueError(
        f"{where}: no database {line[kind]!r} in {str(folder)!r}"
      )
  meta = {kind: where_from}
  try:
    truth = queries.run(query, meta)
    tables = queries.run(_TABLES, meta)
  except ValueError as error:
    raise ValueError(f"{where}: {error}") from None
  if not truth.rows:
    return None
  made = "\n".join(f"{statement};" for (statement,) in tables.rows or ())
  hint = json_lines.optional(where, line, "evidence").strip()
  shown = "\n\n".join(filter(None, (made, hint, question)))
  return prompting.Row(shown, _fenced(query), query, meta)


def _fenced(query: str) -> str:
  return f"```sql\n{query}\n```"
