"""Calls of the Linux C library that Python's modules do not have.

Each function raises OSError if the call fails. A namespace is the kernel's
separate view of a resource, such as files or processes, for some processes.

Sources: the manual pages prctl(2), mount(2), pivot_root(2), mount_setattr(2),
unshare(2), capset(2), and the kernel's headers.
"""

from __future__ import annotations

import ctypes
import os
from typing import Any

# Flags of new namespaces, <linux/sched.h>: CLONE_NEWNS (mounts), CLONE_NEWUTS
# (host names), CLONE_NEWIPC, CLONE_NEWUSER, CLONE_NEWPID, CLONE_NEWNET,
# CLONE_NEWCGROUP; and CLONE_THREAD, by which `clone` makes a thread.
NEW_FILES, NEW_NAMES, NEW_IPC = 0x00020000, 0x04000000, 0x08000000
NEW_USER, NEW_PROCESSES, NEW_NETWORK = 0x10000000, 0x20000000, 0x40000000
NEW_CGROUP, THREAD = 0x02000000, 0x00010000
# <linux/mount.h>: flags MS_NOSUID, MS_NODEV, MS_BIND, MS_REC, MS_PRIVATE and
# attributes MOUNT_ATTR_RDONLY, MOUNT_ATTR_NOSUID, MOUNT_ATTR_NODEV of a mount.
NOSUID, NODEV, BIND, RECURSIVE, PRIVATE = 2, 4, 4096, 16384, 1 << 18
ATTRIBUTE_READ_ONLY, ATTRIBUTE_NOSUID, ATTRIBUTE_NODEV = 1, 2, 4
# Options of `control`, <linux/prctl.h>: PR_SET_PDEATHSIG, PR_SET_DUMPABLE,
# PR_SET_SECCOMP, PR_SET_CHILD_SUBREAPER, PR_SET_NO_NEW_PRIVS.
DEATH_SIGNAL, DUMPABLE, SECCOMP = 1, 4, 22
SUBREAPER, NO_NEW_PRIVILEGES = 36, 38

_DETACH = 2  # MNT_DETACH of umount2
# Number of the system call mount_setattr, and its flags.
_MOUNT_SETATTR, _AT_FDCWD, _AT_RECURSIVE = 442, -100, 0x8000
_CAPABILITY_VERSION = 0x20080522  # _LINUX_CAPABILITY_VERSION_3


def unshare(flags: int) -> None:
  """Moves this process to new namespaces.

  Args:
    flags: union of flags `NEW_...`. With NEW_PROCESSES, only processes that
      this process starts afterwards are in the new process namespace.
  """
  _check(_library().unshare(ctypes.c_int(flags)))


def control(option: int, *values: Any) -> None:
  """Sets a property of this process.

  Args:
    option: an option of prctl(2), such as `DUMPABLE`.
    *values: up to four integers or pointers.
  """
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
  """Mounts a file system, or mounts a folder at a second path.

  Args:
    source: name of the file system, or path of the folder; None if not used.
    target: path at which it is mounted.
    kind: type of the file system, such as "tmpfs"; None for a folder.
    flags: union of `NOSUID`, `NODEV`, `BIND`, `RECURSIVE` and `PRIVATE`.
    data: options of the file system, such as "size=1m"; "" for none.
  """
  encoded = [
    None if each is None else os.fsencode(each)
    for each in (source, target, kind)
  ]
  word, options = ctypes.c_ulong(flags), data.encode() or None
  _check(_library().mount(*encoded, word, options))


def set_attributes(target: str, attributes: int, *, below: bool) -> None:
  """Adds attributes to a mount; needs Linux 5.12.

  Args:
    target: path of the mount.
    attributes: union of flags `ATTRIBUTE_...`.
    below: whether to add them to the mounts below the path, too.
  """
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
  """Makes a mount the root directory and detaches the old root directory.

  Args:
    folder: path of the mount.
  """
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
