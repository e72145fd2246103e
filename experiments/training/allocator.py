"""Memory that is free goes back to the system.

glibc keeps what threads have freed, in case they want it again. Compiling leaves
hundreds of MB of it, and each save, which allocates in threads of its own, some
more, so that the memory of a long run would seem to grow.
"""

from __future__ import annotations

import ctypes


def trim() -> None:
  """Gives back what is free; nothing where the allocator is not glibc's."""
  release = getattr(ctypes.CDLL(None), "malloc_trim", None)
  if release is not None:
    release(ctypes.c_size_t(0))
