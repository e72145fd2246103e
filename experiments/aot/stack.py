"""Room for compilers that call themselves deeply."""

from __future__ import annotations

import os
import resource
import sys

SIZE = 2**28  # bytes of a thread's stack; 8 MiB were too few for a tpu7x


def deepen() -> None:
  """Starts the program again where its threads have less stack than `SIZE`.

  Theirs is what the process had as its limit when it started; its children
  inherit that. libtpu ends a process whose stack is full.
  """
  soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
  size = SIZE if hard == resource.RLIM_INFINITY else min(SIZE, hard)
  # Without a limit a thread has 2 MiB.
  if soft == resource.RLIM_INFINITY or soft < size:
    resource.setrlimit(resource.RLIMIT_STACK, (size, hard))
    os.execv(sys.executable, sys.orig_argv)
