"""Keeps the replies of a judge on disk, so that no question is asked twice.

The file is an SQLite database, which several threads and processes may use at a
time, and which a killed process leaves intact. An error of the judge is not
kept: the question is asked again the next time. A file that is damaged is
renamed to `NAME.damaged-TIME`, and a new one begins; without a file that can be
opened, every question is asked.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import pathlib
import sqlite3
import threading
import time
from collections.abc import Callable
from concurrent import futures
from typing import NoReturn

from rewards.verifiers.llm_judge import Complete, JudgeError, Message
from rl import UsageError


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
    self._inode = 0  # of the file that is open
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

    identity = [self._name, messages, "next_words"]
    return json.loads(self._ask_once(identity, ask, _has_finite_numbers))

  def embed(self, text: str) -> list[float]:
    """Returns the embedding of a text, from the file if it has one."""

    def ask() -> str:
      return json.dumps(self._complete.embed(text))

    identity = [self._name, text, "embed"]
    return json.loads(self._ask_once(identity, ask, _has_finite_numbers))

  def _ask_once(
    self,
    identity: list,  # what the reply depends on; its JSON is the key
    ask: Callable[[], str],
    # Whether a reply is stored, and read from the file. If the reply of `ask`
    # is not valid, a JudgeError is raised.
    is_valid: Callable[[str], bool] = lambda reply: True,
  ) -> str:
    """Returns the reply of `ask`, from the file if it has one."""
    text = json.dumps(identity, sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    with self._lock:
      kept_reply = self._read(key)
      if kept_reply is not None and not is_valid(kept_reply):
        kept_reply = None
      pending = self._pending.get(key)
      if kept_reply is None and pending is None:
        mine = self._pending[key] = futures.Future()
    if kept_reply is not None:
      return kept_reply
    if pending is not None:  # another thread waits for this reply
      return pending.result()
    try:
      reply = ask()
      if not is_valid(reply):
        raise JudgeError("judge: the reply has numbers that are not finite")
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

  def _read(self, key: str) -> str | None:
    """Returns the reply of a key; None if the file has none."""
    try:
      if self._database is None:
        self._open()
      row = self._database.execute(
        "SELECT reply FROM replies WHERE key = ?", (key,)
      ).fetchone()
      return None if row is None else row[0].decode("utf-8", "surrogatepass")
    except sqlite3.Error as error:
      # After a damaged file a new one is opened at once, which has no reply.
      return self._read(key) if self._give_up(error) else None
    except (AttributeError, UnicodeDecodeError):  # no text
      return None

  def _store(self, key: str, reply: str) -> None:
    """Keeps a reply; a disk that is full or read-only loses it."""
    # SQLite refuses a text with half of a surrogate pair, but no bytes.
    value = reply.encode("utf-8", "surrogatepass")
    with self._lock:
      if self._database is None:
        return
      try:
        with self._database:
          self._database.execute(
            "INSERT OR REPLACE INTO replies VALUES (?, ?)", (key, value)
          )
      except sqlite3.Error as error:
        self._give_up(error)

  def _open(self) -> None:
    """Opens the file, which is created with its folder if it is missing."""
    with contextlib.suppress(OSError):
      self._file.parent.mkdir(parents=True, exist_ok=True)
    # The time-out is how long a process waits while another one writes.
    database = sqlite3.connect(self._file, timeout=60, check_same_thread=False)
    self._database = database
    database.text_factory = bytes
    self._inode = self._inode_of_file()
    with database:
      database.execute(
        "CREATE TABLE IF NOT EXISTS replies (key TEXT PRIMARY KEY, reply TEXT)"
      )
    self._inode = self._inode_of_file()

  def _inode_of_file(self) -> int:
    """Returns the number by which the file differs from others of its name."""
    try:
      return self._file.stat().st_ino
    except OSError:  # SQLite has not created it yet
      return 0

  def _give_up(self, error: sqlite3.Error) -> bool:
    """Closes a file and moves it if damaged; returns if a new one can begin."""
    database, self._database = self._database, None
    if database is not None:
      database.close()
    # Subclasses stand for a full disk, a lock, a missing permission. They say
    # nothing about the content, so the file stays where it is.
    if type(error) is not sqlite3.DatabaseError:
      return False
    # Another process may have moved it, and begun a new one.
    if self._inode_of_file() != self._inode:
      return True
    target = self._file.with_name(f"{self._file.name}.damaged-{time.time_ns()}")
    try:
      self._file.rename(target)
    except OSError:
      return False
    logging.warning(
      "the file of the judge's replies %s is damaged (%s); it is now %s, and "
      "questions are asked again",
      self._file,
      error,
      target,
    )
    return True


def _has_finite_numbers(text: str) -> bool:
  """Returns whether JSON has neither NaN nor infinities."""
  try:
    json.loads(text, parse_constant=_refuse)
  except ValueError:
    return False
  return True


def _refuse(name: str) -> NoReturn:
  raise UsageError(name)
