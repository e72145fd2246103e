"""The filter of system calls, run by an interpreter of its instructions."""

import itertools
import types

import pytest

from rewards.verifiers.sandbox.inside import filters

# Actions of <linux/seccomp.h>; the low half of an ERRNO action is the error.
ALLOW, KILL = 0x7FFF0000, 0x80000000
EPERM, ENOSYS = 0x00050000 + 1, 0x00050000 + 38
# AUDIT_ARCH_X86_64 and AUDIT_ARCH_AARCH64 of <linux/audit.h>.
ARCHITECTURES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
# Numbers of <asm/unistd.h>: name, x86-64, arm64; None if arm64 has no such
# call.
ALWAYS_REFUSED = (
  ("shmget", 29, 194),
  ("msgget", 68, 186),
  ("semget", 64, 190),
  ("mq_open", 240, 180),
  ("memfd_create", 319, 279),
  ("unshare", 272, 97),
  ("setns", 308, 268),
  ("mount", 165, 40),
  ("ptrace", 101, 117),
  ("process_vm_readv", 310, 270),
  ("process_vm_writev", 311, 271),
  ("bpf", 321, 280),
  ("perf_event_open", 298, 241),
  ("io_uring_setup", 425, 425),
  ("userfaultfd", 323, 282),
  ("keyctl", 250, 219),
  ("add_key", 248, 217),
  ("request_key", 249, 218),
  ("memfd_secret", 447, 447),
)
OF_PROCESSES = (
  ("fork", 57, None),
  ("vfork", 58, None),
  ("kill", 62, 129),
  ("tkill", 200, 130),
  ("rt_sigqueueinfo", 129, 138),
  ("tgkill", 234, 131),
  ("rt_tgsigqueueinfo", 297, 240),
  ("pidfd_send_signal", 424, 424),
)
SOCKET, CLONE, FCNTL, IOCTL = (41, 198), (56, 220), (72, 25), (16, 29)
CLONE3 = 435


class Filter:
  """The installed filter: `filter(number, first, second)` is its action.

  Attributes:
    option: arguments of prctl(2) before the program.
  """

  def __init__(self, monkeypatch, machine, processes):
    calls = []
    monkeypatch.setattr(
      filters.os, "uname", lambda: types.SimpleNamespace(machine=machine)
    )
    monkeypatch.setattr(
      filters.libc, "control", lambda *arguments: calls.append(arguments)
    )
    filters.install(processes=processes)
    ((*self.option, pointer),) = calls
    program = pointer._obj
    self._code = [
      (each.code, each.jump_true, each.jump_false, each.k)
      for each in program.instructions[: program.length]
    ]
    self._architecture = ARCHITECTURES[machine]

  def __call__(self, number, first=0, second=0, architecture=None):
    # `struct seccomp_data`: number, architecture, an address of 8 bytes, and
    # arguments of 8 bytes.
    architecture = architecture or self._architecture
    data = {0: number, 4: architecture, 16: first, 24: second}
    compare = {
      0x15: lambda word, operand: word == operand,  # BPF_JMP | BPF_JEQ
      0x35: lambda word, operand: word >= operand,  # BPF_JMP | BPF_JGE
      0x45: lambda word, operand: word & operand,  # BPF_JMP | BPF_JSET
    }
    place, word = 0, None
    while True:
      code, if_true, if_false, operand = self._code[place]
      place += 1
      if code in compare:
        place += if_true if compare[code](word, operand) else if_false
        continue
      assert (if_true, if_false) == (0, 0)  # as BPF_STMT makes it
      if code == 0x06:  # BPF_RET
        return operand
      assert code == 0x20  # BPF_LD | BPF_W | BPF_ABS
      word = data[operand]


def named(rows, column):
  return {row[column] for row in rows} - {None}


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize(
  ("column", "machine"), list(enumerate(ARCHITECTURES, 1))
)
def test_calls_by_their_number(monkeypatch, column, machine, processes):
  apply = Filter(monkeypatch, machine, processes)
  assert apply.option == [22, 2]  # PR_SET_SECCOMP, SECCOMP_MODE_FILTER
  refused = named(ALWAYS_REFUSED, column)
  if not processes:
    refused |= named(OF_PROCESSES, column)
  judged_by_arguments = {each[column - 1] for each in (SOCKET, CLONE)}
  expected = {
    number: EPERM if number in refused else ALLOW
    for number in set(range(600)) - judged_by_arguments
  }
  # The C library falls back to clone if clone3 does not exist.
  expected[CLONE3] = ENOSYS
  # The second set of calls of x86-64 begins with bit 30.
  expected |= {2**30 - 1: ALLOW, 2**30: EPERM, 2**30 + 59: EPERM}
  assert {number: apply(number) for number in expected} == expected
  for architecture in (0x40000003, *ARCHITECTURES.values()):  # i386, others
    is_own = architecture == ARCHITECTURES[machine]
    action = apply(0, architecture=architecture)
    assert action == (ALLOW if is_own else KILL)


@pytest.mark.parametrize("processes", [False, True])
@pytest.mark.parametrize(("column", "machine"), list(enumerate(ARCHITECTURES)))
def test_calls_by_their_arguments(monkeypatch, column, machine, processes):
  apply = Filter(monkeypatch, machine, processes)
  families = [apply(SOCKET[column], family) for family in range(46)]
  assert [i for i, each in enumerate(families) if each == ALLOW] == [1]
  assert set(families) == {ALLOW, EPERM}
  # F_SETOWN, F_SETSIG and F_SETOWN_EX; FIOSETOWN and SIOCSPGRP. The descriptor
  # in the first argument does not matter.
  for (call, owning), first in itertools.product(
    ((FCNTL, {8, 10, 15}), (IOCTL, {0x8901, 0x8902})), (0, 8, 0x8901)
  ):
    commands = (*range(40), *range(0x8900, 0x8910), 1030, 0x541B)
    for command in commands:
      action = apply(call[column], first, command)
      assert action == (EPERM if command in owning else ALLOW), command
  # CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID and NEWNET.
  namespaces = {1 << bit for bit in (17, 25, 26, 27, 28, 29, 30)}
  thread = 1 << 16
  for flag in (1 << bit for bit in range(32)):
    allowed = flag not in namespaces
    assert apply(CLONE[column], flag | thread) == (ALLOW if allowed else EPERM)
    allowed &= processes or flag == thread
    assert apply(CLONE[column], flag) == (ALLOW if allowed else EPERM)
  assert apply(CLONE[column], 0) == (ALLOW if processes else EPERM)


@pytest.mark.parametrize(
  ("machine", "is_known"),
  [("x86_64", True), ("aarch64", True), ("riscv64", False)],
)
def test_machines_with_known_numbers(monkeypatch, machine, is_known):
  uname = types.SimpleNamespace(machine=machine)
  monkeypatch.setattr(filters.os, "uname", lambda: uname)
  assert filters.has_known_numbers() == is_known
