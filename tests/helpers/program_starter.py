"""Starts the interpreter for a program as the sandbox does, but unprotected.

As a script, `program_starter.py ROOT` reads a list of jobs, runs their cases in
the working directory, and writes a list of the tester's messages for each. It
is a process of its own because the tester waits for all of its children.
"""

import contextlib
import json
import os
import resource
import signal
import sys
import types


def start(arguments, files):
  """Returns the pid; `files` is `{descriptor: descriptor of this process}`."""
  return os.posix_spawn(
    sys.executable,
    [sys.executable, "-I", "-S", "-B", *arguments],
    os.environ,
    file_actions=[(os.POSIX_SPAWN_DUP2, files[to], to) for to in files],
    setpgroup=0,
  )


def usages(user, system):
  """A `wait4` that waits, and reports these processor seconds."""
  wait = os.wait4

  def wait4(pid, options):
    ended, status, _ = wait(pid, options)
    assert ended == pid
    return ended, status, types.SimpleNamespace(ru_utime=user, ru_stime=system)

  return wait4


def main():
  sys.path.insert(0, sys.argv[1])
  from rewards.verifiers.sandbox.inside import tester

  resource.setrlimit(resource.RLIMIT_AS, (1 << 31, 1 << 31))
  started, kill, wait4 = [], os.kill, os.wait4

  def start_and_note(arguments, files):
    started.append(start(arguments, files))
    return started[-1]

  def kill_own(pid, number):
    """Refuses every process but the programs, above all -1, which is all."""
    if pid not in started or number != signal.SIGKILL:
      raise AssertionError(f"kill({pid}, {number})")
    kill(pid, number)

  os.kill = kill_own
  for job in json.load(sys.stdin):
    messages = []
    os.wait4 = wait4
    if "usage" in job:
      os.wait4 = usages(*job["usage"])
    descriptors = sorted(os.listdir("/dev/fd"))
    tester.run(job, start_and_note, messages.append)
    assert sorted(os.listdir("/dev/fd")) == descriptors
    assert signal.getitimer(signal.ITIMER_REAL)[0] == 0
    with contextlib.suppress(ChildProcessError):
      os.waitpid(-1, os.WNOHANG)
      raise AssertionError("a program was not waited for")
    print(json.dumps(messages))


if __name__ == "__main__":
  main()
