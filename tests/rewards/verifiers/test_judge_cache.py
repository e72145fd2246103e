"""Replies of a judge are kept on disk, by judge and messages."""

import subprocess
import sys
from concurrent import futures

import pytest

from rewards.verifiers.judge_cache import CachedJudge

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
