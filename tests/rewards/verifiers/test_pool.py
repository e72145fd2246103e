"""Facts about workers that hang, die, eat memory, and about what is left."""

import collections
import gc
import inspect
import itertools
import logging
import os
import pathlib
import pickle
import signal
import subprocess
import sys
import time
import types

import pytest
from helpers.acting_verifier import Broken, Unsendable, act, of, pids

from rewards.verifiers import Item, Outcome, numbers, unscored
from rewards.verifiers import pool as pools
from rewards.verifiers.pool import Pool

ROOT = pathlib.Path(__file__).resolve().parents[3]


def alive(pid):
  try:
    state = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2]
  except (FileNotFoundError, ProcessLookupError):
    return False
  return state.split()[0] not in "ZX"


def gone(pids, seconds=5.0):
  end = time.monotonic() + seconds
  while any(map(alive, pids)) and time.monotonic() < end:
    time.sleep(0.02)
  return not any(map(alive, pids))


def test_the_documented_defaults():
  parameters = inspect.signature(Pool).parameters.values()
  defaults = {each.name: each.default for each in parameters}
  del defaults["verify"]
  assert defaults == {
    "workers": 2,
    "timeout": 10.0,
    "memory": 2**31,
    "batch": 32,
    "start_timeout": 120.0,
  }
  assert Pool(act).statistics == dict.fromkeys(
    ("items", "timeouts", "restarts", "unscored"), 0
  )


class Worker:
  """A worker without a process, in a time of its own.

  It says what `replies` yields for each start and each item: an exception is
  its end, and None is silence.
  """

  made = ()
  replies = iter(())
  clock = 0.0
  processor_seconds = 0.0
  status = -9

  def __init__(self, verify, limits, start_timeout):
    self.limits, self.sent, self.times = limits, [], []
    self.connection = self
    self.ready, self.pending = False, collections.deque()
    self.messages = collections.deque()
    Worker.made.append(self)
    self.begin(start_timeout)
    self.say(next(Worker.replies, "ready"))

  def say(self, message):
    if message is not None:
      self.messages.append(message)

  def give(self, indices, parcel, timeout):
    self.sent.append(list(indices))
    self.pending.extend(indices)
    self.begin(timeout)
    for item in pickle.loads(parcel):
      right = Outcome(1.0, 1, item.completion, 0)
      self.say(next(Worker.replies, right))

  def begin(self, timeout):
    self.times.append(timeout)
    self.deadline = Worker.clock + timeout

  def computed(self):
    return Worker.processor_seconds

  def poll(self):
    return bool(self.messages)

  def recv(self):
    message = self.messages.popleft()
    if isinstance(message, Exception):
      self.messages.appendleft(message)
      raise message
    return message

  def kill(self):
    return Worker.status


@pytest.fixture
def simulated(monkeypatch):
  """Makes pools of such workers; waiting moves their clock at once."""
  waits = []

  def wait(connections, seconds):
    waits.append(seconds)
    assert len(waits) < 1000, "it waits for nothing"
    news = [each for each in connections if each.poll()]
    if not news:
      Worker.clock += seconds
    return news

  monkeypatch.setattr(pools, "Worker", Worker)
  monkeypatch.setattr(pools.connection, "wait", wait)
  clock = types.SimpleNamespace(monotonic=lambda: Worker.clock)
  monkeypatch.setattr(pools, "time", clock)

  def make(*replies, status=-9, processor_seconds=0.0, **settings):
    monkeypatch.setattr(Worker, "made", [])
    monkeypatch.setattr(Worker, "replies", iter(replies))
    monkeypatch.setattr(Worker, "status", status)
    monkeypatch.setattr(Worker, "processor_seconds", processor_seconds)
    monkeypatch.setattr(Worker, "clock", 100.0)
    return Pool(act, **settings)

  return make


@pytest.mark.parametrize(
  ("items", "workers", "batch", "sizes"),
  [
    # At least four batches per worker: 17 / 8 is rounded up.
    (17, 2, 32, [3, 3, 3, 3, 3, 2]),
    (17, 2, 2, [2] * 8 + [1]),
    (3, 2, 32, [1, 1, 1]),
    (24, 3, 32, [2] * 12),
    (0, 2, 32, []),
  ],
)
def test_items_are_sent_in_equal_batches(
  simulated, items, workers, batch, sizes
):
  pool = simulated(workers=workers, batch=batch)
  names = [f"item {i}" for i in range(items)]
  assert [o.answer for o in pool(of(*names))] == names
  assert len(Worker.made) == workers
  batches = [each for worker in Worker.made for each in worker.sent]
  assert sorted(map(len, batches), reverse=True) == sizes
  assert sorted(itertools.chain(*batches)) == list(range(items))
  assert all(each == list(range(each[0], each[-1] + 1)) for each in batches)


def test_the_limits_and_times_of_a_worker(simulated):
  pool = simulated(workers=1, timeout=4.0, memory=7, start_timeout=30.0)
  pool(of("a", "b"))
  (worker,) = Worker.made
  assert worker.limits == (7, 5.0)
  # Its start, its readiness, and each item as it is given and answered.
  assert worker.times == [30.0, *[4.0] * 5]


LATE = {"parts": {"timeout": 1.0}}
NO_VERDICT = Outcome(0.0, -1, "", -1, reason="no verdict within 4 s", **LATE)
WRONG = Outcome(0.0, 0, "", -1, **LATE)


@pytest.mark.parametrize(
  ("seconds", "outcome"),
  [
    (2.0, WRONG),  # half of the time limit
    (1.9, NO_VERDICT),
    (0.0, NO_VERDICT),
  ],
)
def test_an_item_without_an_answer_in_time(simulated, seconds, outcome):
  pool = simulated(
    *("ready", None), processor_seconds=seconds, workers=1, timeout=4.0
  )
  assert pool(of("a", "b"))[0] == outcome
  assert Worker.clock == 104.0
  statistics = {"items": 2, "timeouts": 1, "restarts": 1}
  statistics["unscored"] = int(outcome is NO_VERDICT)
  assert pool.statistics == statistics


@pytest.mark.parametrize(
  ("status", "outcome"),
  [
    (-signal.SIGXCPU, WRONG),  # the limit of processor time ended it
    (-signal.SIGKILL, Outcome(1.0, 1, "a", 0)),  # the second try succeeds
  ],
)
def test_an_item_whose_worker_dies(simulated, status, outcome):
  pool = simulated(
    *("ready", EOFError()), status=status, workers=1, timeout=4.0
  )
  assert pool(of("a")) == [outcome]
  is_late = status == -signal.SIGXCPU
  assert pool.statistics["timeouts"] == is_late
  assert pool.statistics["restarts"] == 1


def test_an_item_whose_workers_die_twice(simulated, caplog):
  dead, right = EOFError(), Outcome(1.0, 1, "x", 0)
  pool = simulated("ready", right, dead, "ready", dead, workers=1, batch=2)
  with caplog.at_level(logging.WARNING):
    outcomes = pool(of(*"abcdefgh"))
  assert outcomes[1] == unscored("two workers died of it (-9)")
  assert [o.verdict for o in outcomes] == [1, -1, *[1] * 6]
  assert pool.statistics["restarts"] == 2
  (line,) = caplog.messages
  name = "helpers.acting_verifier.act"
  end = "1 of 8 items unscored; item 1: two workers died of it (-9)"
  assert line == f"{name}: {end}"


def test_the_first_unscored_item_is_logged(simulated, caplog):
  right, wrong = (Outcome(float(v), v, "", 0) for v in (1, 0))
  replies = ("ready", right, unscored(""), wrong, unscored("no"))
  pool = simulated(*replies, workers=1)
  with caplog.at_level(logging.WARNING):
    pool(of(*"abcd"))
  (line,) = caplog.messages
  assert line.endswith("2 of 4 items unscored; item 1: no reason given")


def test_a_late_worker_does_not_wait_for_a_worker_that_starts(simulated):
  # One worker is silent. The other dies, and the next one never starts.
  replies = ("ready", "ready", None, EOFError(), None)
  pool = simulated(*replies, workers=2, timeout=4.0, start_timeout=60.0)
  verdicts = [o.verdict for o in pool(of("a", "b", "c"))]
  assert verdicts == [-1, 1, 1]
  assert Worker.clock == 104.0


def test_a_pool_is_entered_when_all_of_its_workers_have_started(simulated):
  pool = simulated("ready", None, workers=2, start_timeout=0.5)
  with pool:
    assert [worker.ready for worker in pool._workers] == [True, True]
  assert (len(Worker.made), Worker.clock) == (3, 100.5)


def test_workers_that_do_not_start_end_the_call(simulated):
  pool = simulated(*[EOFError()] * 9, workers=1, status=3)
  with pytest.raises(RuntimeError, match=r"do not start.* 4 is dead \(3\)"):
    pool(of("a"))
  assert len(Worker.made) == 4
  pool = simulated(*[None] * 9, workers=1, start_timeout=60.0)
  with pytest.raises(RuntimeError, match=r"do not start.* 4 is too late"):
    pool(of("a"))
  assert Worker.clock == 100.0 + 4 * 60.0
  # Three failures in a row, twice.
  dead = EOFError()
  pool = simulated(*[dead] * 3, "ready", *[dead] * 4, workers=1)
  assert pool(of("a"))[0].verdict == 1
  assert pool.statistics["restarts"] == 7


@pytest.fixture(scope="module")
def pool():
  with Pool(act, workers=2, timeout=1.0, memory=1 << 30, batch=4) as result:
    yield result


def test_results_are_in_order(pool):
  names = [f"item {i}" for i in range(203)]
  assert [o.answer for o in pool(of(*names))] == names
  assert pool([]) == []


def test_outcomes_are_those_of_the_verifier_itself():
  items = [Item("", f"#### {i}", str(i % 3)) for i in range(50)]
  with Pool(numbers.verify, workers=1) as verify:
    assert verify(items) == numbers.verify(items)
    assert verify.statistics["unscored"] == 0


@pytest.mark.parametrize(
  ("what", "verdict", "reason", "message"),
  [
    # A busy machine looks like an item that sleeps: it uses no processor time.
    (
      *("hang", -1, "no verdict within 1 s"),
      "1 of 6 items unscored; item 2: no verdict within 1 s",
    ),
    (
      *("spin", 0, ""),
      "1 of 6 items wrong, because judging them did not end within 1 s; the "
      "first is item 2",
    ),
  ],
)
def test_an_item_is_wrong_if_it_computes_and_unscored_if_it_waits(
  pool, what, verdict, reason, message, caplog
):
  before = pool.statistics.copy()
  start = time.monotonic()
  with caplog.at_level(logging.WARNING):
    outcomes = pool(of("a", "b", what, "c", "d", "e"))
  assert time.monotonic() - start < 10
  assert [o.verdict for o in outcomes] == [1, 1, verdict, 1, 1, 1]
  assert outcomes[2] == Outcome(
    0.0, verdict, "", -1, parts={"timeout": 1.0}, reason=reason
  )
  counts = pool.statistics - before
  assert counts["timeouts"] == counts["restarts"] == 1
  assert counts["unscored"] == int(verdict == -1)
  (line,) = caplog.messages
  assert message in line


@pytest.mark.parametrize("what", ["kill", "segfault", "exit"])
def test_an_item_that_kills_twice_is_unscored(pool, what):
  before = pool.statistics.copy()
  outcomes = pool(of("a", what, "b", "c"))
  assert [o.verdict for o in outcomes] == [1, -1, 1, 1]
  counts = pool.statistics - before
  assert (counts["restarts"], counts["timeouts"]) == (2, 0)


def test_a_killed_worker_s_item_is_tried_again(pool, tmp_path):
  outcomes = pool(of("a", f"once {tmp_path / 'flag'}", "b"))
  assert [o.verdict for o in outcomes] == [1, 1, 1]


def test_a_worker_that_dies_idle_is_replaced(pool):
  old = pids(pool)
  for pid in old:
    os.kill(pid, signal.SIGKILL)
  assert gone(old)
  assert [o.verdict for o in pool(of(*"abcdefgh"))] == [1] * 8
  assert not set(old) & set(pids(pool))


@pytest.mark.parametrize(
  ("what", "reason"),
  [
    ("memory", "MemoryError"),
    ("raise", "ValueError: no"),
    ("garbage", "instead of an Outcome"),
    ("none", "not enough values"),
    ("score nan", "a score of nan, not in [0, 1]"),
    ("score 1.5", "a score of 1.5, not in [0, 1]"),
    ("verdict 300", "a verdict of 300, not -1, 0 or 1"),
    ("identity 4294967296", "an answer_id of 4294967296"),
    ("part nan", "a part 'x' of nan"),
  ],
)
def test_other_failures_are_unscored_and_cost_no_worker(pool, what, reason):
  old, before = pids(pool), pool.statistics.copy()
  outcomes = pool(of("a", what, "b"))
  assert [o.verdict for o in outcomes] == [1, -1, 1]
  assert reason in outcomes[1].reason
  assert pids(pool) == old
  assert (pool.statistics - before)["unscored"] == 1


@pytest.mark.parametrize(
  ("what", "is_kept"),
  [
    ("score 0", True),
    ("score -0.001", False),
    ("score 1", True),
    ("verdict 0", True),
    ("verdict -2", False),
    ("verdict 2", False),
    ("identity -1", True),
    ("identity -2", False),
    ("identity 2147483647", True),
    ("identity 2147483648", False),
  ],
)
def test_an_outcome_has_to_fit_into_arrays(pool, what, is_kept):
  (outcome,) = pool(of(what))
  kind, number = what.split()
  fields = {"score": "score", "verdict": "verdict", "identity": "answer_id"}
  assert (getattr(outcome, fields[kind]) == float(number)) == is_kept
  assert bool(outcome.reason) != is_kept


def test_many_hostile_items_at_once(pool):
  acts = ["kill", "ok", "hang", "ok", "raise", "memory", "exit", "ok"] * 2
  verdicts = [o.verdict for o in pool(of(*acts))]
  assert verdicts == [1 if what == "ok" else -1 for what in acts]


def test_a_time_out_takes_the_worker_s_children_with_it(pool, tmp_path):
  note = tmp_path / "pid"
  assert pool(of(f"child {note}"))[0].verdict == -1
  assert gone([int(note.read_text())])


def test_workers_are_sessions_of_their_own_without_input(pool):
  pid = int(pool(of("pid"))[0].answer)
  assert os.getsid(pid) == pid != os.getsid(0)
  assert pool(of("stdin"))[0].answer == ""


def test_both_workers_work():
  with Pool(act, workers=2) as pool:
    observed = {o.answer for o in pool(of(*["pid"] * 500))}
    assert observed == set(map(str, pids(pool)))


def test_close_leaves_nothing_and_may_be_called_twice():
  before = len(os.listdir("/proc/self/fd"))
  with Pool(act, workers=2) as pool:
    workers = pids(pool)
    assert all(map(alive, workers))
  assert not any(map(alive, workers))
  pool.close()
  assert len(os.listdir("/proc/self/fd")) == before
  with pytest.raises(RuntimeError, match="closed"):
    pool(of("a"))


@pytest.mark.parametrize("what", ["idle", "hang", "spin"])
def test_workers_end_with_a_parent_that_is_killed(what, tmp_path):
  note = tmp_path / "pids"
  code = (
    "import sys, pathlib\n"
    f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
    "from helpers import acting_verifier as t\n"
    "pool = t.Pool(t.act, workers=2, timeout=500).__enter__()\n"
    f"note = pathlib.Path({str(note)!r})\n"
    "note.write_text(' '.join(map(str, t.pids(pool))) + '.')\n"
    f"pool(t.of({what!r}, {what!r}))\n"
    "import time; time.sleep(1000)\n"
  )
  parent = subprocess.Popen([sys.executable, "-c", code])
  end = time.monotonic() + 60
  while time.monotonic() < end:
    if note.exists() and note.read_text().endswith("."):
      break
    time.sleep(0.05)
  time.sleep(0.3)
  workers = [int(pid) for pid in note.read_text().strip(".").split()]
  assert all(map(alive, workers))
  parent.kill()
  parent.wait()
  assert gone(workers)


def test_building_one_starts_nothing():
  """A config is validated by building its task, which may hold a pool."""
  before = len(os.listdir("/proc/self/fd"))
  pool = Pool(act, workers=2)
  assert pids(pool) == []
  assert len(os.listdir("/proc/self/fd")) == before
  assert pool.statistics["items"] == 0
  assert pool(of("a"))[0].verdict == 1
  assert len(pids(pool)) == 2
  pool.close()
  never = Pool(act)
  never.close()
  with pytest.raises(RuntimeError, match="closed"):
    never(of("a"))


def test_what_is_forgotten_is_closed():
  before = len(os.listdir("/proc/self/fd"))
  pool = Pool(act, workers=2)
  pool(of("a"))
  workers = pids(pool)
  del pool
  gc.collect()
  assert not any(map(alive, workers))
  assert len(os.listdir("/proc/self/fd")) == before


def test_an_interrupted_call_leaves_a_pool_that_starts_anew(monkeypatch):
  pool = Pool(act, workers=1)
  pool(of("a"))
  old = pids(pool)

  def interrupt(*args):
    raise KeyboardInterrupt

  with monkeypatch.context() as patched:
    patched.setattr(pool, "_attend", interrupt)
    with pytest.raises(KeyboardInterrupt):
      pool(of("b"))
  assert not any(map(alive, old))
  assert pool(of("c"))[0].answer == "c"
  pool.close()


@pytest.mark.parametrize("what", ["ok", "unused", "fork"])
def test_a_process_that_never_closes_its_pool_ends_cleanly(what):
  """No traceback, no wait; and a child that was forked ends its own alone."""
  code = (
    "import os, sys\n"
    f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
    "from helpers import acting_verifier as t\n"
    "pool = t.Pool(t.act, workers=2)\n"
    f"what = {what!r}\n"
    "if what != 'unused':\n"
    "  pool(t.of('a'))\n"
    "if what == 'fork':\n"
    "  child = os.fork()\n"
    "  if not child:\n"
    "    sys.exit()\n"
    "  os.waitpid(child, 0)\n"
    "  old = t.pids(pool)\n"
    "  assert pool(t.of('pid'))[0].answer in map(str, old)\n"
    "print(*t.pids(pool))\n"
  )
  # The standard library warns of what a forked child did not start itself.
  strict = [] if what == "fork" else ["-W", "error"]
  start = time.monotonic()
  done = subprocess.run(
    [sys.executable, *strict, "-c", code],
    capture_output=True,
    text=True,
    check=False,
    timeout=60,
  )
  assert (done.returncode, done.stderr) == (0, "")
  assert time.monotonic() - start < 30
  workers = [int(pid) for pid in done.stdout.split()]
  assert len(workers) == (0 if what == "unused" else 2)
  assert gone(workers)


def test_says_what_it_cannot_do():
  with pytest.raises(ValueError, match="top level of a module"):
    Pool(lambda items: [])
  scripted = types.FunctionType(act.__code__, {}, "verify")
  scripted.__module__ = "__main__"
  with pytest.raises(ValueError, match="allowed: a function"):
    Pool(scripted)
  with pytest.raises(ValueError, match="workers is 0"):
    Pool(act, workers=0)
  for name in ("timeout", "start_timeout"):
    for seconds in (float("nan"), float("inf"), 0.0, -1.0):
      with pytest.raises(ValueError, match=f"{name} is {seconds}.*finite"):
        Pool(act, **{name: seconds})
  with pytest.raises(RuntimeError, match=r"no worker can load.*no such"):
    Pool(Broken(), workers=1)(of("a"))


def test_an_item_that_cannot_be_sent_is_unscored_and_the_others_are_not(pool):
  items, old = of(*"abcdefghij"), pids(pool)
  for i, error in ((1, TypeError("no")), (2, OSError("no")), (9, KeyError(1))):
    items[i] = Item("?", "x", "!", {"held": Unsendable(error)})
  verdicts = [1, -1, -1, 1, 1, 1, 1, 1, 1, -1]
  outcomes = pool(items)
  assert [o.verdict for o in outcomes] == verdicts
  assert "cannot be sent: TypeError: no" in outcomes[1].reason
  assert [o.verdict for o in pool([items[1]])] == [-1]
  assert pids(pool) == old


def test_limits_that_the_machine_s_own_are_below():
  code = (
    "import resource, sys\n"
    f"sys.path[:0] = [{str(ROOT)!r}, {str(ROOT / 'tests')!r}]\n"
    "resource.setrlimit(resource.RLIMIT_AS, (3 << 30, 3 << 30))\n"
    "resource.setrlimit(resource.RLIMIT_CPU, (200, 200))\n"
    "from rewards.verifiers import Item, numbers, pool\n"
    "with pool.Pool(\n"
    "  numbers.verify, workers=1, timeout=900, memory=8 << 30\n"
    ") as verify:\n"
    "  print(verify([Item('', '#### 7', '7')])[0].verdict)\n"
  )
  command = [sys.executable, "-c", code]
  done = subprocess.run(command, capture_output=True, text=True, check=False)
  assert done.stdout == "1\n", done.stderr


def test_a_worker_that_cannot_be_started_leaves_no_pipe(monkeypatch):
  def refuse(*args, **kwargs):
    raise OSError("no more processes")

  before = len(os.listdir("/proc/self/fd"))
  monkeypatch.setattr(subprocess, "Popen", refuse)
  with pytest.raises(OSError, match="no more processes"):
    Pool(act, workers=1)(of("a"))
  assert len(os.listdir("/proc/self/fd")) == before
