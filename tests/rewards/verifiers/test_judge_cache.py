"""Replies of a judge are kept on disk, by judge and messages."""

import hashlib
import json
import sqlite3
import subprocess
import sys
from concurrent import futures

import pytest

from rewards.verifiers.judge_cache import CachedJudge
from rewards.verifiers.llm_judge import JudgeError

MESSAGES = [{"role": "user", "content": "é"}]


class Judge:
  """Counts what it is asked."""

  def __init__(self):
    self.num_calls = 0

  def __call__(self, messages):
    self.num_calls += 1
    return f"reply {self.num_calls} to {messages[0]['content']}"


def test_a_reply_is_kept_by_judge_and_messages(tmp_path):
  file, complete = tmp_path / "new" / "replies.sqlite", Judge()
  cached = CachedJudge(complete, "one", file)
  assert not file.parent.exists()  # nothing is written before a question
  assert cached(MESSAGES) == cached(MESSAGES) == "reply 1 to é"
  assert complete.num_calls == 1
  again = CachedJudge(complete, "one", file)
  assert again(MESSAGES) == "reply 1 to é"
  other = CachedJudge(complete, "two", file)
  assert other(MESSAGES) == "reply 2 to é"
  assert other([{"role": "system", "content": "é"}]) == "reply 3 to é"


def test_an_error_is_not_kept(tmp_path):
  complete = Judge()

  def fails_once(messages):
    reply = complete(messages)
    if complete.num_calls == 1:
      raise RuntimeError("no reply")
    return reply

  cached = CachedJudge(fails_once, "one", tmp_path / "replies.sqlite")
  with pytest.raises(RuntimeError, match="no reply"):
    cached(MESSAGES)
  assert cached(MESSAGES) == "reply 2 to é"


def test_threads_share_a_file(tmp_path):
  complete = Judge()
  cached = CachedJudge(complete, "one", tmp_path / "replies.sqlite")
  messages = [[{"role": "user", "content": str(i % 10)}] for i in range(80)]
  with futures.ThreadPoolExecutor(8) as pool:
    replies = list(pool.map(cached, messages))
    assert list(pool.map(cached, messages[:10])) == [
      cached(one) for one in messages[:10]
    ]
  for i, reply in enumerate(replies):
    assert reply.endswith(f"to {i % 10}")
  assert complete.num_calls == 10


def test_a_killed_process_leaves_its_replies(tmp_path):
  file = tmp_path / "replies.sqlite"
  program = (
    "import os\n"
    "from rewards.verifiers.judge_cache import CachedJudge\n"
    f"judge = CachedJudge(lambda messages: 'kept', 'one', {str(file)!r})\n"
    f"judge({MESSAGES!r})\n"
    "os.kill(os.getpid(), 9)\n"
  )
  status = subprocess.run([sys.executable, "-c", program], check=False)
  assert status.returncode == -9
  assert CachedJudge(Judge(), "one", file)(MESSAGES) == "kept"


def ask_many(file, count=300):
  """Asks `count` different questions; returns what the judge was asked."""
  complete = Judge()
  cached = CachedJudge(complete, "one", file)
  for i in range(count):
    reply = cached([{"role": "user", "content": str(i)}])
    assert reply.endswith(f"to {i}")
  return complete.num_calls


def test_a_file_that_is_no_database_is_moved_away(tmp_path, caplog):
  file = tmp_path / "replies.sqlite"
  file.write_text("these are notes of a person\n" * 100)
  assert ask_many(file) == 300
  assert ask_many(file) == 0  # the new file has them
  (moved,) = tmp_path.glob("replies.sqlite.damaged-*")
  assert moved.read_text().startswith("these are notes")
  assert caplog.text.count("is damaged") == 1
  assert str(moved) in caplog.text


def test_garbage_within_a_file_loses_replies_and_no_question(tmp_path):
  file = tmp_path / "replies.sqlite"
  assert ask_many(file) == 300
  content = bytearray(file.read_bytes())
  for start in range(4096, len(content), 8192):  # every other page of SQLite
    content[start : start + 4096] = b"\xff" * 4096
  file.write_bytes(content)
  assert 0 < ask_many(file) <= 300
  assert ask_many(file) == 0
  assert list(tmp_path.glob("replies.sqlite.damaged-*"))


def test_a_process_does_not_move_the_new_file_of_another(tmp_path):
  file = tmp_path / "replies.sqlite"
  file.write_text("no database " * 500)
  first, second = (CachedJudge(Judge(), "one", file) for _ in range(2))
  error = sqlite3.DatabaseError("file is not a database")
  second._inode = file.stat().st_ino
  first(MESSAGES)  # moves the file away and begins a new one
  second._give_up(error)
  assert CachedJudge(None, "one", file)(MESSAGES) == "reply 1 to é"
  assert len(list(tmp_path.glob("*damaged*"))) == 1


def test_a_file_that_cannot_be_opened_keeps_nothing_and_fails_nothing(tmp_path):
  file = tmp_path / "folder"
  file.mkdir()
  assert ask_many(file, 3) == 3
  assert file.is_dir()
  (tmp_path / "text").write_text("")
  assert ask_many(tmp_path / "text" / "replies.sqlite", 3) == 3


def test_numbers_that_are_not_finite_are_not_kept(tmp_path):
  class Embedder(Judge):
    def embed(self, text):
      self.num_calls += 1
      return [float("nan") if self.num_calls < 3 else 1.0, 2.0]

  file, complete = tmp_path / "replies.sqlite", Embedder()
  cached = CachedJudge(complete, "one", file)
  with pytest.raises(JudgeError, match="not finite"):
    cached.embed("a")
  # Such a reply of an older version is asked for again.
  with sqlite3.connect(file) as database:
    identity = json.dumps(["one", "a", "embed"], sort_keys=True)
    key = hashlib.sha256(identity.encode()).hexdigest()
    database.execute("INSERT INTO replies VALUES (?, ?)", (key, "[NaN, 2.0]"))
  database.close()
  with pytest.raises(JudgeError, match="not finite"):
    cached.embed("a")
  assert cached.embed("a") == cached.embed("a") == [1.0, 2.0]
  assert complete.num_calls == 3


def test_half_of_a_surrogate_pair_is_kept(tmp_path):
  file, reply = tmp_path / "replies.sqlite", "a\ud800é\U0001f600"
  assert CachedJudge(lambda _: reply, "one", file)(MESSAGES) == reply
  assert CachedJudge(None, "one", file)(MESSAGES) == reply
