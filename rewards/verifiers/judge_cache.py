"""Keeps the replies of a judge on disk, so that no question is asked twice.

The file is an SQLite database, which several threads and processes may use at a
time, and which a killed process leaves intact. An error of the judge is not
kept: the question is asked again the next time.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import pathlib
import sqlite3
import threading
from collections.abc import Callable
from concurrent import futures

from rewards.verifiers.judge import Complete, Message


class CachedJudge:
  """A judge whose replies are kept, by its name and the messages."""

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
    self._database: sqlite3.Connection | None = None
    # Requests that have no reply yet, by key.
    self._pending: dict[str, futures.Future] = {}

  def __call__(self, messages: list[Message]) -> str:
    """Returns the reply to the messages, from the file if it has one.

    If several threads ask the same at a time, one request is sent for all.
    """
    return self._ask_once(
      [self._name, messages], lambda: self._complete(messages)
    )

  def next_words(self, messages: list[Message]) -> dict[str, float]:
    """Returns the chances of the first words, from the file if it has them."""

    def ask() -> str:
      return json.dumps(self._complete.next_words(messages))

    return json.loads(self._ask_once([self._name, messages, "next_words"], ask))

  def embed(self, text: str) -> list[float]:
    """Returns the embedding of a text, from the file if it has one."""

    def ask() -> str:
      return json.dumps(self._complete.embed(text))

    return json.loads(self._ask_once([self._name, text, "embed"], ask))

  def _ask_once(self, identity: list, ask: Callable[[], str]) -> str:
    """Returns the reply of `ask`, from the file if it has one.

    Args:
      identity: what the reply depends on; its JSON is the key.
      ask: the function that is called if the file has no reply.
    """
    text = json.dumps(identity, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    with self._lock:
      if self._database is None:
        self._database = self._open()
      row = self._database.execute(
        "SELECT reply FROM replies WHERE key = ?", (key,)
      ).fetchone()
      pending = self._pending.get(key)
      if row is None and pending is None:
        mine = self._pending[key] = futures.Future()
    if row is not None:
      return row[0]
    if pending is not None:
      return pending.result()
    try:
      reply = ask()
    except BaseException as error:
      mine.set_exception(error)
      raise
    else:
      mine.set_result(reply)
      self._store(key, reply)
      return reply
    finally:
      with self._lock:
        del self._pending[key]

  def _store(self, key: str, reply: str) -> None:
    """Keeps a reply; a disk that is full or read-only loses it."""
    with contextlib.suppress(sqlite3.Error), self._lock, self._database:
      self._database.execute(
        "INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, reply)
      )

  def _open(self) -> sqlite3.Connection:
    """Opens the file, which is created with its folder if it is missing."""
    self._file.parent.mkdir(parents=True, exist_ok=True)
    # The time-out is how long a process waits while another one writes.
    database = sqlite3.connect(self._file, timeout=60, check_same_thread=False)
    with database:
      database.execute(
        "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT)"
      )
    return database
