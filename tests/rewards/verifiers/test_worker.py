"""A worker without its pool: its clocks, and what its process does."""

import contextlib
import io
import os
import pickle
import resource
import socket
import sys
import time
import types
from multiprocessing import connection

import pytest
from helpers.acting_verifier import act, of

from rewards.verifiers import worker
from rl import registry


def test_processor_seconds_are_those_since_the_item_began(monkeypatch):
  """Fields 14 and 15 of the file are ticks in user and in kernel mode."""
  ticks = iter([(1000, 50), (1300, 90)])

  def show(path, mode):
    assert (path, mode) == ("/proc/77/stat", "rb")
    user, system = next(ticks)
    fields = [*range(4, 14), user, system, *range(16, 30)]
    return io.BytesIO(f"77 (a) b) S {' '.join(map(str, fields))}".encode())

  monkeypatch.setattr(worker, "open", show, raising=False)
  one = worker.Worker.__new__(worker.Worker)
  one._process = types.SimpleNamespace(pid=77)
  before = time.monotonic()
  one.begin(500.0)
  assert before + 500.0 <= one.deadline <= time.monotonic() + 500.0
  assert one.computed() == pytest.approx(340 / os.sysconf("SC_CLK_TCK"))


class Machine:
  """Stands for the modules `fcntl` and `resource` in a worker."""

  F_SETOWN, F_GETFL, F_SETFL = "owner", "get", "set"
  RLIM_INFINITY = resource.RLIM_INFINITY
  RLIMIT_CORE, RLIMIT_AS, RLIMIT_CPU, RUSAGE_SELF = "core", "as", "cpu", "self"

  def __init__(self, hard):
    self.hard, self.limits, self.calls = hard, {}, []

  def fcntl(self, descriptor, command, argument=None):
    self.calls.append((descriptor, command, argument))
    return 4

  def getrusage(self, who):
    assert who == "self"
    return types.SimpleNamespace(ru_utime=2.25, ru_stime=1.5)

  def getrlimit(self, kind):
    return (-2, self.hard.get(kind, self.RLIM_INFINITY))

  def setrlimit(self, kind, limits):
    self.limits[kind] = limits


def work(monkeypatch, hard, is_ended=False):
  """Runs the main function of a worker here; returns its replies."""
  machine = Machine(hard)
  monkeypatch.setitem(sys.modules, "fcntl", machine)
  monkeypatch.setitem(sys.modules, "resource", machine)
  reader, writer = os.pipe()
  if is_ended:
    os.close(writer)
  ours, theirs = socket.socketpair()
  parent = connection.Connection(ours.detach())
  parent.send((pickle.dumps(act), 1000, 11.0))
  parent.send(of("a", "raise", "b"))
  with socket.socket(fileno=os.dup(parent.fileno())) as ours:
    ours.shutdown(socket.SHUT_WR)  # the end of the items
  channel, start, replies = theirs.detach(), time.monotonic(), []
  worker.work(channel, reader)
  assert time.monotonic() - start < 0.9
  if is_ended:
    os.close(channel)  # which the worker has not opened
  else:
    os.close(writer)
  os.close(reader)
  with parent, contextlib.suppress(EOFError, ConnectionResetError):
    while True:
      replies.append(parent.recv())
  return replies, machine, reader


@pytest.mark.parametrize(
  ("hard", "limits"),
  [
    # int(2.25 + 1.5 + 11) + 1 seconds of the processor.
    ({}, {"as": (1000, 1000), "cpu": (15, resource.RLIM_INFINITY)}),
    ({"as": 2000, "cpu": 20}, {"as": (1000, 1000), "cpu": (15, 20)}),
    ({"as": 900, "cpu": 14}, {"as": (900, 900), "cpu": (14, 14)}),
  ],
)
def test_what_a_worker_does(monkeypatch, hard, limits):
  replies, machine, lifeline = work(monkeypatch, hard)
  assert replies[0] == "ready"
  assert [each.verdict for each in replies[1:]] == [1, -1, 1]
  place = f"{registry.source_file(act)}:44"
  assert replies[2].reason.startswith("ValueError: no (")
  assert place.endswith(replies[2].reason.split("(")[1].rstrip(")"))
  assert machine.limits == {**limits, "core": (0, 0)}
  assert machine.calls == [
    (lifeline, "owner", -os.getpid()),
    (lifeline, "get", None),
    (lifeline, "set", 4 | os.O_ASYNC),
  ]


def test_a_worker_whose_pool_has_ended_does_nothing(monkeypatch):
  replies, machine, _ = work(monkeypatch, {}, is_ended=True)
  assert (replies, machine.limits) == ([], {})
