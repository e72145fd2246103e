"""The few calls of the C library that Python's own modules lack.

Every function raises OSError if the call fails. Sources: the manual pages
prctl(2), mount(2), pivot_root(2), mount_setattr(2), unshare(2), capset(2), and
the kernel's headers.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

# <linux/sched.h>
NEW_FILES, NEW_NAMES, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
NEW_CGROUP, THREAD = 0x02000000, 0x00010000
# <linux/mount.h>
NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 4096, 16384, 1 << 18
ATTRIBUTE_READ_ONLY, ATTRIBUTE_NOSUID, ATTRIBUTE_NODEV = 1, 2, 4
# <linux/prctl.h>
DEATH_SIGNAL, DUMPABLE, SECCOMP = 1, 4, 22
SUBREAPER, NO_NEW_PRIVILEGES = 36, 38

_DETACH = 2
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_CAPABILITY_VERSION = 0x20080522


def unshare(flags: int) -> None:
  """Leaves name spaces; new children leave that of processes."""
  _check(_library().unshare(ctypes.c_int(flags)))


def control(option: int, *values: Any) -> None:
  """Sets a property of this process: integers or pointers."""
  words = [
    ctypes.c_ulong(each) if isinstance(each, int) else each for each in values
  ]
  words += [ctypes.c_ulong(0)] * (4 - len(words))
  _check(_library().prctl(ctypes.c_int(option), *words))


def mount(
  source: str | None,
  target: str,
  kind: str | None,
  flags: int,
  data: str = "",
) -> None:
  """Mounts a file system, or a folder once more."""
  encoded = [
    None if each is None else os.fsencode(each)
    for each in (source, target, kind)
  ]
  word, options = ctypes.c_ulong(flags), data.encode() or None
  _check(_library().mount(*encoded, word, options))


def set_attributes(target: str, attributes: int, *, below: bool) -> None:
  """Adds attributes to a mount, and to those below it (Linux 5.12)."""
  words = (ctypes.c_uint64 * 4)(attributes, 0, 0, 0)
  _check(
    _library().syscall(
      ctypes.c_long(_MOUNT_SETATTR),
      ctypes.c_long(_AT_FDCWD),
      os.fsencode(target),
      ctypes.c_long(_AT_RECURSIVE if below else 0),
      ctypes.byref(words),
      ctypes.c_size_t(ctypes.sizeof(words)),
    )
  )


def change_root(folder: str) -> None:
  """Makes a mount the root directory, and lets go of the old one."""
  os.chdir(folder)
  _check(_library().pivot_root(b".", b"."))
  _check(_library().umount2(b".", _DETACH))
  os.chdir("/")


def drop_capabilities() -> None:
  """Gives up every capability."""
  header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION, 0)
  _check(_library().capset(header, (ctypes.c_uint32 * 6)()))


def _library() -> Any:
  return ctypes.CDLL(None, use_errno=True)


def _check(result: int) -> None:
  if result != 0:
    number = ctypes.get_errno()
    raise OSError(number, os.strerror(number))
