"""Returns free memory of the host to the operating system.

glibc keeps the memory that threads have freed, for later allocations. After
compilation this is hundreds of MB, and each checkpoint, which is written by
other threads, adds to it. Without `trim` the memory use of a long run grows,
as the operating system counts it.
"""

from __future__ import annotations

import ctypes


def trim() -> None:
  """Returns free memory to the operating system; does nothing without glibc."""
  malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
  if malloc_trim is not None:
    malloc_trim(ctypes.c_size_t(0))
