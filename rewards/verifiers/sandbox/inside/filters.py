"""The filter of system calls under which a program runs (seccomp(2)).

Refused are those that hold memory outside the limits, look into other processes
or widen the part of the kernel that a program can reach, sockets but local
ones, new name spaces, and the owner of a descriptor, to whom the kernel sends
signals: it may be another process. Where no process may be started, neither may
a signal be sent: a program then consists of one process and its threads.

Sources: the kernel's tables of system calls for x86-64 and arm64,
<linux/bpf.h>.
"""

from __future__ import annotations

import ctypes
import os

from rewards.verifiers.sandbox.inside import libc

# Audit architecture; refused; refused where no process may be started; socket;
# clone; fcntl; ioctl. In order: shmget, msgget, semget, mq_open, memfd_create,
# unshare, setns, mount, ptrace, process_vm_readv, process_vm_writev, bpf,
# perf_event_open, io_uring_setup, userfaultfd, keyctl, add_key, request_key,
# memfd_secret; then (fork, vfork,) kill, tkill, rt_sigqueueinfo, tgkill,
# rt_tgsigqueueinfo, pidfd_send_signal.
_X86 = (29, 68, 64, 240, 319, 272, 308, 165, 101, 310, 311, 321, 298, 425)
_X86 += (323, 250, 248, 249, 447)
_ARM = (194, 186, 190, 180, 279, 97, 268, 40, 117, 270, 271, 280, 241, 425)
_ARM += (282, 219, 217, 218, 447)
_MACHINES = {
  "x86_64": (
    *(0xC000003E, _X86, (57, 58, 62, 200, 129, 234, 297, 424)),
    *(41, 56, 72, 16),
  ),
  "aarch64": (
    *(0xC00000B7, _ARM, (129, 130, 138, 131, 240, 424)),
    *(198, 220, 25, 29),
  ),
}
_CLONE3 = 435
_OWN = (8, 10, 15)  # F_SETOWN, F_SETSIG, F_SETOWN_EX of fcntl
_OWN_SOCKET = (0x8901, 0x8902)  # FIOSETOWN, SIOCSPGRP of ioctl

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST = 0x20, 0x15, 0x45, 0x35
_ALLOW, _KILL = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x80000000)
_REFUSE = (0x06, 0, 0, 0x00050001)  # EPERM
_UNKNOWN = (0x06, 0, 0, 0x00050026)  # ENOSYS
_NUMBER, _ARCHITECTURE, _ARGUMENT, _SECOND = (
  (_LOAD, 0, 0, offset) for offset in (0, 4, 16, 24)
)


class _Instruction(ctypes.Structure):
  _fields_ = (
    ("code", ctypes.c_uint16),
    ("jump_true", ctypes.c_uint8),
    ("jump_false", ctypes.c_uint8),
    ("k", ctypes.c_uint32),
  )


class _Filter(ctypes.Structure):
  _fields_ = (
    ("length", ctypes.c_uint16),
    ("instructions", ctypes.POINTER(_Instruction)),
  )


def has_known_numbers() -> bool:
  """Returns whether the numbers of this machine's system calls are listed."""
  return os.uname().machine in _MACHINES


def install(*, processes: bool) -> None:
  """Puts this process under the filter, for good, with all that it starts.

  Args:
    processes: whether it may start processes.
  """
  audit, refused, alone, socket, clone, fcntl, ioctl = _MACHINES[
    os.uname().machine
  ]
  code = [_ARCHITECTURE, (_EQUAL, 1, 0, audit), _KILL, _NUMBER]
  code += [(_AT_LEAST, 0, 1, 0x40000000), _REFUSE]  # the x32 calls
  for each in refused if processes else refused + alone:
    code += [(_EQUAL, 0, 1, each), _REFUSE]
  code += [(_EQUAL, 0, 1, _CLONE3), _UNKNOWN]  # libraries fall back on clone
  code += [
    (_EQUAL, 0, 4, socket),
    _ARGUMENT,
    (_EQUAL, 0, 1, 1),
    _ALLOW,
    _REFUSE,
  ]
  for call, commands in ((fcntl, _OWN), (ioctl, _OWN_SOCKET)):
    code += [(_EQUAL, 0, 2 * len(commands) + 2, call), _SECOND]
    for each in commands:
      code += [(_EQUAL, 0, 1, each), _REFUSE]
    code.append(_ALLOW)
  spaces = libc.NEW_FILES | libc.NEW_NAMES | libc.NEW_IPC | libc.NEW_USER
  spaces |= libc.NEW_PROCESSES | libc.NEW_NETWORK | libc.NEW_CGROUP
  code += [(_EQUAL, 1, 0, clone), _ALLOW, _ARGUMENT]
  code += [(_ANY_BIT, 0, 1, spaces), _REFUSE]
  if not processes:
    code += [(_ANY_BIT, 1, 0, libc.THREAD), _REFUSE]
  code.append(_ALLOW)
  instructions = (_Instruction * len(code))(*code)
  program = _Filter(len(code), instructions)
  libc.control(libc.SECCOMP, 2, ctypes.byref(program))
