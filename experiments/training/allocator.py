"""Returns free memory to the operating system.

glibc keeps the memory that threads have freed, in case they need it again.
After compilation that is hundreds of MB, and each checkpoint, which is written
by threads of its own, adds some. Without `trim` the memory of a long run seems
to grow.
"""

from __future__ import annotations

import ctypes


def trim() -> None:
  """Returns free memory to the system; does nothing without glibc."""
  malloc_trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
  if malloc_trim is not None:
    malloc_trim(ctypes.c_size_t(0))
