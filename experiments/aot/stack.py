"""Raises the stack size of threads, for compilers that recurse deeply."""

from __future__ import annotations

import os
import resource
import sys

SIZE = 2**28  # bytes of a thread's stack; 8 MiB were too few for a tpu7x


def ensure_size() -> None:
  """Restarts the program if its threads have a smaller stack than possible.

  The stack of a thread is as large as the limit that the process had when it
  started; child processes inherit the limit. This function raises the limit to
  `SIZE`, or to the hard limit if that is lower. libtpu ends a process whose
  stack overflows.
  """
  soft, hard = resource.getrlimit(resource.RLIMIT_STACK)
  size = SIZE if hard == resource.RLIM_INFINITY else min(SIZE, hard)
  # Without a limit, a thread has a stack of 2 MiB.
  if soft == resource.RLIM_INFINITY or soft < size:
    resource.setrlimit(resource.RLIMIT_STACK, (size, hard))
    os.execv(sys.executable, sys.orig_argv)
