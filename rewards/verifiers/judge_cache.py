"""Keeps the replies of a judge on disk, so that no question is asked twice.

The file is an SQLite database, which several threads and processes may use at a
time, and which a killed process leaves intact. An error of the judge is not
kept: the question is asked again the next time.
"""

from __future__ import annotations

import functools
import hashlib
import json
import pathlib
import sqlite3
import threading

from rewards.verifiers.judge import Complete, Message


class CachedJudge:
  """A judge whose replies are kept, by its name and the messages.

  Attributes:
    num_requests: number of messages that were sent to the judge.
    num_reused: number of replies that came from the file.
  """

  def __init__(
    self, complete: Complete, name: str, file: str | pathlib.Path
  ) -> None:
    """Keeps the settings; the file is opened by the first question.

    Args:
      complete: the judge.
      name: what the replies depend on besides the messages, such as the model,
        its temperature and the length of a reply.
      file: the database. Its folder is created if it is missing.
    """
    self._complete, self._name = complete, name
    self._file = pathlib.Path(file).expanduser()
    self._lock = threading.Lock()
    self.num_requests = self.num_reused = 0

  def __call__(self, messages: list[Message]) -> str:
    """Returns the reply to the messages, from the file if it has one."""
    text = json.dumps([self._name, messages], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    database = self._database
    with self._lock:
      row = database.execute(
        "SELECT reply FROM replies WHERE key = ?", (key,)
      ).fetchone()
      if row is not None:
        self.num_reused += 1
        return row[0]
      self.num_requests += 1
    reply = self._complete(messages)
    with self._lock, database:
      database.execute(
        "INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, reply)
      )
    return reply

  @functools.cached_property
  def _database(self) -> sqlite3.Connection:
    """The file, which is created with its folder if it is missing."""
    with self._lock:
      self._file.parent.mkdir(parents=True, exist_ok=True)
      # The time-out is how long a process waits while another one writes.
      database = sqlite3.connect(
        self._file, timeout=60, check_same_thread=False
      )
      with database:
        database.execute(
          "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, "
          "reply TEXT)"
        )
      return database
