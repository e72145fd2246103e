"""The filter of system calls under which a program runs (seccomp(2)).

The filter is a program of the kernel's BPF machine, which sees each system call
before it runs. It refuses system calls that

* allocate memory outside of the limits, such as shared memory;
* read or trace other processes;
* add to the parts of the kernel that a program can reach, such as `bpf`;
* open sockets, except for local (Unix) sockets;
* make new namespaces;
* set the owner of a descriptor, because the kernel sends signals to the owner,
  which may be another process;
* start a process or send a signal, if the program may not start processes. The
  program is then one process with its threads.

Sources: the kernel's tables of system calls for x86-64 and arm64,
<linux/bpf.h>.
"""

from __future__ import annotations

import ctypes
import os

from rewards.verifiers.sandbox.inside import libc

# Numbers of the system calls that are always refused: shmget, msgget, semget,
# mq_open, memfd_create, unshare, setns, mount, ptrace, process_vm_readv,
# process_vm_writev, bpf, perf_event_open, io_uring_setup, userfaultfd, keyctl,
# add_key, request_key, memfd_secret.
_X86 = (29, 68, 64, 240, 319, 272, 308, 165, 101, 310, 311, 321, 298, 425)
_X86 += (323, 250, 248, 249, 447)
_ARM = (194, 186, 190, 180, 279, 97, 268, 40, 117, 270, 271, 280, 241, 425)
_ARM += (282, 219, 217, 218, 447)
# Machine -> the kernel's number of its architecture (AUDIT_ARCH_...); the calls
# that are always refused; the calls that are refused if no process may be
# started (fork and vfork on x86-64, kill, tkill, rt_sigqueueinfo, tgkill,
# rt_tgsigqueueinfo, pidfd_send_signal); socket; clone; fcntl; ioctl.
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

# Instructions of BPF: (code, jump if true, jump if false, operand). A jump of n
# skips n instructions. The codes load a word of the system call, or compare the
# loaded word with the operand.
_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST = 0x20, 0x15, 0x45, 0x35
_ALLOW, _KILL = (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x80000000)
_REFUSE = (0x06, 0, 0, 0x00050001)  # the call fails with EPERM
_UNKNOWN = (0x06, 0, 0, 0x00050026)  # the call fails with ENOSYS
# Load the number of the call, the architecture, the first or second argument.
_NUMBER, _ARCHITECTURE, _ARGUMENT, _SECOND = (
  (_LOAD, 0, 0, offset) for offset in (0, 4, 16, 24)
)


class _Instruction(ctypes.Structure):
  """`struct sock_filter` of <linux/filter.h>."""

  _fields_ = (
    ("code", ctypes.c_uint16),
    ("jump_true", ctypes.c_uint8),
    ("jump_false", ctypes.c_uint8),
    ("k", ctypes.c_uint32),
  )


class _Filter(ctypes.Structure):
  """`struct sock_fprog` of <linux/filter.h>."""

  _fields_ = (
    ("length", ctypes.c_uint16),
    ("instructions", ctypes.POINTER(_Instruction)),
  )


def has_known_numbers() -> bool:
  """Returns True if `_MACHINES` lists the system calls of this machine."""
  return os.uname().machine in _MACHINES


def install(*, processes: bool) -> None:
  """Filters the system calls of this process and of processes that it starts.

  The filter cannot be removed.

  Args:
    processes: whether the process may start processes and send signals.
  """
  audit, refused, process_calls, socket, clone, fcntl, ioctl = _MACHINES[
    os.uname().machine
  ]
  code = [_ARCHITECTURE, (_EQUAL, 1, 0, audit), _KILL, _NUMBER]
  # x86-64 has a second set of the calls from this number on (x32).
  code += [(_AT_LEAST, 0, 1, 0x40000000), _REFUSE]
  for call in refused if processes else refused + process_calls:
    code += [(_EQUAL, 0, 1, call), _REFUSE]
  # The flags of clone3 are in memory, where BPF cannot read them. After ENOSYS
  # the C library uses clone instead.
  code += [(_EQUAL, 0, 1, _CLONE3), _UNKNOWN]
  # Only sockets of family 1 (AF_UNIX) are allowed.
  code += [
    (_EQUAL, 0, 4, socket),
    _ARGUMENT,
    (_EQUAL, 0, 1, 1),
    _ALLOW,
    _REFUSE,
  ]
  for call, commands in ((fcntl, _OWN), (ioctl, _OWN_SOCKET)):
    code += [(_EQUAL, 0, 2 * len(commands) + 2, call), _SECOND]
    for command in commands:
      code += [(_EQUAL, 0, 1, command), _REFUSE]
    code.append(_ALLOW)
  namespaces = libc.NEW_FILES | libc.NEW_NAMES | libc.NEW_IPC | libc.NEW_USER
  namespaces |= libc.NEW_PROCESSES | libc.NEW_NETWORK | libc.NEW_CGROUP
  # Every call but clone is allowed here; clone may not make namespaces.
  code += [(_EQUAL, 1, 0, clone), _ALLOW, _ARGUMENT]
  code += [(_ANY_BIT, 0, 1, namespaces), _REFUSE]
  if not processes:  # clone may only make threads
    code += [(_ANY_BIT, 1, 0, libc.THREAD), _REFUSE]
  code.append(_ALLOW)
  instructions = (_Instruction * len(code))(*code)
  program = _Filter(len(code), instructions)
  libc.control(libc.SECCOMP, 2, ctypes.byref(program))
