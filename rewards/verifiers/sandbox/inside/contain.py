"""Contains a program: starts the sandbox's processes and isolates them.

The host (the process that calls `sandbox.run`) starts an interpreter for
`main`, writes a job to its standard input and reads the tester's messages from
its standard output. An arrow means that a process starts the next one:

  host -> keeper (`main`) -> tester (process 1 of its namespaces) -> program

A namespace is the kernel's separate view of a resource, such as files or
processes, for some processes. The keeper kills the tester when time is up; the
kernel then kills every process of the tester's process namespace, because the
tester is its process 1. If the host ends, the kernel kills the keeper and the
tester.

The tester changes to a root directory in memory with little more than the
interpreter, read-only. It gives up its user and its capabilities (privileges of
root), sets the limits and runs `tester.py`. Each program has the same limits,
and also a filter of system calls.

Sources: the manual pages namespaces(7), user_namespaces(7), pid_namespaces(7),
pivot_root(2), getrlimit(2).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import resource
import select
import signal
import sys
from collections.abc import Callable

from rewards.verifiers.sandbox.inside import filters, libc, tester

NOBODY = 65534  # id of the user and group without privileges
_LINUX = sys.platform.startswith("linux")
_NAMESPACES = libc.NEW_FILES | libc.NEW_NAMES | libc.NEW_IPC
_NAMESPACES |= libc.NEW_PROCESSES | libc.NEW_NETWORK


def main() -> None:
  """Runs the keeper: reads a job, starts the tester and kills it in the end."""
  if _LINUX:
    libc.control(libc.DEATH_SIGNAL, signal.SIGKILL)
    libc.control(libc.SUBREAPER, 1)
  job = json.loads(sys.stdin.buffer.read())
  with open(tester.program.__file__, encoding="utf-8") as file:
    job["driver"] = file.read()
  # Messages are written to the first standard output, which becomes /dev/null.
  report = os.dup(1)
  null = os.open(os.devnull, os.O_RDWR)
  for descriptor in range(3):
    os.dup2(null, descriptor)

  def send(message: dict) -> None:
    os.write(report, json.dumps(message).encode() + b"\n")

  missing_protections, made_user_namespace = [], None
  try:
    made_user_namespace = _unshare()
  except OSError as error:
    missing_protections.append(
      f"namespaces for files, processes and network ({error})"
    )
  # Nothing is written to these pipes. A read end becomes readable when the
  # process that has the write end ends: the tester, or the keeper.
  judge_ended, judge_end = os.pipe()
  keeper_ended, keeper_end = os.pipe()
  pid = os.fork()
  if pid == 0:
    try:
      os.close(judge_ended)
      os.close(keeper_end)
      signal.signal(signal.SIGINT, signal.SIG_DFL)
      missing_protections += _contain(job, made_user_namespace, keeper_ended)
      send({"missing": missing_protections})
      if not missing_protections or job["allow_unprotected"]:
        processes = 0 if missing_protections else job["processes"]
        tester.run(job, _make_starter(processes), send)
    except BaseException as error:
      send({"failed": repr(error)})
    finally:
      os._exit(0)
  os.close(judge_end)
  if not select.select([judge_ended], [], [], job["patience"])[0]:
    send({"late": True})
  _kill_judge(pid)


def _kill_judge(pid: int) -> None:
  """Kills the tester, and its processes that became children of this one."""
  os.kill(pid, signal.SIGKILL)
  os.waitpid(pid, 0)
  children = f"/proc/self/task/{os.getpid()}/children"
  while os.path.exists(children):
    with open(children, encoding="ascii") as file:
      pids = [int(word) for word in file.read().split()]
    if not pids:
      break
    for child in pids:
      os.kill(child, signal.SIGKILL)
      os.waitpid(child, 0)


# --- namespaces and the root directory --------------------------------------


def _unshare() -> bool:
  """Enters new namespaces; returns True if a user namespace is among them."""
  if not _LINUX:
    raise OSError(f"{sys.platform} has no namespaces")
  _raise_oom_score()
  # In both cases the next child, the tester, will be process 1.
  if _may_become_nobody():
    with contextlib.suppress(OSError):
      libc.unshare(_NAMESPACES)
      return False
  # Without the privileges of root, the system allows the other namespaces only
  # inside of a user namespace.
  user, group = os.geteuid(), os.getegid()
  libc.unshare(_NAMESPACES | libc.NEW_USER)
  _map_user(user, group, "/proc/self")
  return True


def _may_become_nobody() -> bool:
  """Returns True if this process is root and its namespace has `NOBODY`."""
  if os.geteuid() != 0:
    return False
  with open("/proc/self/uid_map", encoding="ascii") as file:
    ranges = [[int(word) for word in line.split()] for line in file]
  return any(first <= NOBODY < first + count for first, _, count in ranges)


def _raise_oom_score() -> None:
  """Makes the kernel kill this process first when memory runs out."""
  try:
    # Processes that this process starts get the same score.
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
      file.write("1000")
  except OSError:
    pass


def _map_user(
  user: int,  # id outside of the namespace
  group: int,  # id outside of the namespace
  process: str,  # path of the process's folder in /proc
) -> None:
  """Makes this process the user nobody in its user namespace."""
  # The files below belong to root while the process is not dumpable.
  libc.control(libc.DUMPABLE, 1)
  for name, text in (
    ("setgroups", "deny"),
    ("uid_map", f"{NOBODY} {user} 1"),
    ("gid_map", f"{NOBODY} {group} 1"),
  ):
    with open(f"{process}/{name}", "w", encoding="ascii") as file:
      file.write(text)
  libc.control(libc.DUMPABLE, 0)


def _contain(
  job: dict,  # "disk_bytes", "folder" and the limits
  # Result of `_unshare`; None if it raised an error.
  made_user_namespace: bool | None,
  keeper_ended: int,  # descriptor that becomes readable when the keeper ends
) -> list[str]:
  """Drops files, user and capabilities; returns the missing protections."""
  missing_protections = []
  process = os.open("/proc/self", os.O_RDONLY) if _LINUX else -1
  folder = os.open(job["folder"], os.O_RDONLY)
  if made_user_namespace is not None:
    try:
      _enter_root(job["disk_bytes"])
    except OSError as error:
      made_user_namespace = None
      missing_protections.append(f"a separate root directory ({error})")
  if made_user_namespace is None:
    os.fchdir(folder)  # its path may be hidden by a mount of `_enter_root`
    missing_protections += _become_nobody(folder)
  else:
    if not made_user_namespace:
      _drop_user()
      # In a user namespace, RLIMIT_NPROC counts only this program's processes.
      libc.unshare(libc.NEW_USER)
      os.fchdir(process)
      _map_user(NOBODY, NOBODY, ".")
    os.chdir("/tmp")
  os.close(folder)
  _set_limits(job, made_user_namespace is not None)
  if not _LINUX:
    return [*missing_protections, "a filter of system calls"]
  os.close(process)
  libc.drop_capabilities()
  libc.control(libc.NO_NEW_PRIVILEGES, 1)
  libc.control(libc.DUMPABLE, 0)  # the program may not trace this process
  libc.control(libc.DEATH_SIGNAL, signal.SIGKILL)
  # The death signal does not arrive if the keeper ended before it was set.
  if select.select([keeper_ended], [], [], 0)[0]:
    os._exit(0)
  if not filters.has_known_numbers():
    missing_protections.append(
      f"a filter of system calls for {os.uname().machine}"
    )
  return missing_protections


def _become_nobody(folder: int) -> list[str]:
  """Makes root the user nobody; returns the missing protections."""
  may_become_nobody = _LINUX and _may_become_nobody()
  if not may_become_nobody or not _executable_by_all(sys.executable):
    return ["a separate user without privileges"]
  try:
    # `folder` is a descriptor of the working directory, which nobody will own.
    os.chown(folder, NOBODY, NOBODY)
    _drop_user()
  except OSError as error:
    return [f"a separate user without privileges ({error})"]
  return []


def _drop_user() -> None:
  """Gives up the user and the groups of root for those of nobody."""
  os.setgroups([])
  os.setresgid(NOBODY, NOBODY, NOBODY)
  os.setresuid(NOBODY, NOBODY, NOBODY)


def _executable_by_all(path: str) -> bool:
  """Returns True if every user may execute a file and enter its folders."""
  path = os.path.realpath(path)
  while os.stat(path).st_mode & 1:
    if path == os.path.dirname(path):
      return True
    path = os.path.dirname(path)
  return False


def _enter_root(disk_bytes: int) -> None:
  """Changes to a root directory with the interpreter and an empty /tmp."""
  os.umask(0o022)
  # The paths that are mounted, and links as pairs of target and path.
  visible_paths, links = ["/usr"], []
  for path in ("/lib", "/lib64", "/lib32", "/bin", "/nix/store"):
    if os.path.islink(path):
      links.append((os.readlink(path), path))
    elif os.path.isdir(path):
      visible_paths.append(path)
  visible_paths += ["/etc/ld.so.cache"]
  visible_paths += ["/dev/null", "/dev/zero", "/dev/urandom"]
  for path in (sys.base_prefix, sys.base_exec_prefix, sys.executable):
    path = os.path.realpath(path)
    if not any(
      path.startswith(f"{parent}/") for parent in [*visible_paths, "/usr"]
    ):
      visible_paths.append(path)
  # Descriptors stay valid when a mount below hides the path.
  sources = {
    path: os.open(path, os.O_PATH)
    for path in dict.fromkeys(visible_paths)
    if os.path.exists(path)
  }
  # Both directories are in memory (tmpfs), and disappear when the last process
  # of the namespace ends.
  root, scratch = "/tmp", "/tmp/tmp"
  flags = libc.NOSUID | libc.NODEV
  libc.mount(None, "/", None, libc.RECURSIVE | libc.PRIVATE)
  libc.mount("tmpfs", root, "tmpfs", flags, "size=1m,nr_inodes=1024,mode=755")
  os.mkdir(scratch)
  size = f"size={disk_bytes},nr_inodes=4096,mode=1777"
  libc.mount("tmpfs", scratch, "tmpfs", flags, size)
  for path, descriptor in sources.items():
    target = root + path
    if os.path.isdir(f"/proc/self/fd/{descriptor}"):
      os.makedirs(target, exist_ok=True)
    else:
      os.makedirs(os.path.dirname(target), exist_ok=True)
      os.close(os.open(target, os.O_CREAT | os.O_WRONLY))
    libc.mount(
      f"/proc/self/fd/{descriptor}", target, None, libc.BIND | libc.RECURSIVE
    )
    os.close(descriptor)
    if not path.startswith("/dev/"):
      attributes = libc.ATTRIBUTE_READ_ONLY
      attributes |= libc.ATTRIBUTE_NOSUID | libc.ATTRIBUTE_NODEV
      libc.set_attributes(target, attributes, below=True)
  for target, path in links:
    os.symlink(target, root + path)
  libc.change_root(root)
  libc.set_attributes("/", libc.ATTRIBUTE_READ_ONLY, below=False)


# --- limits and the filter --------------------------------------------------


def _set_limits(job: dict, has_user_namespace: bool) -> None:
  """Sets the limits of this process and of every program that it starts."""
  limits = {  # `job` has the fields of `sandbox.Limits`
    "CPU": job["cpu_seconds"],
    "AS": job["memory_bytes"],
    "FSIZE": job["disk_bytes"],
    "NOFILE": job["open_files"],
    "CORE": 0,
    "MEMLOCK": 0,
  }
  # Without a user namespace, the kernel also counts the processes of the same
  # user on the host, so their number is not limited.
  if has_user_namespace:
    # Threads count as processes; 2 for the tester and the program.
    limits["NPROC"] = job["processes"] + job["threads"] + 2
  for name, value in limits.items():
    kind = getattr(resource, f"RLIMIT_{name}")
    hard_limit = resource.getrlimit(kind)[1]
    if hard_limit != resource.RLIM_INFINITY:
      value = min(value, hard_limit)
    try:
      resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
      if _LINUX:
        raise


def _make_starter(
  processes: int,  # number of processes that the program may start
) -> Callable[[list[str], dict], int]:
  """Returns a function that starts the interpreter for a program."""
  # A fixed hash seed makes verdicts reproducible. Python reads it from the
  # environment, so the option -I, which ignores the environment, is not used.
  command = [sys.executable, "-s", "-S", "-B", "-X", "utf8"]
  environment = {
    "HOME": os.getcwd(),
    "TMPDIR": os.getcwd(),
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
  }
  if "LD_LIBRARY_PATH" in os.environ:
    environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]

  # `files` has descriptors of the tester by those of the program.
  def start(arguments: list[str], files: dict[int, int]) -> int:
    judge_pid = os.getpid()
    pid = os.fork()
    if pid:
      return pid
    try:
      os.setsid()
      signal.setitimer(signal.ITIMER_REAL, 0)
      sources = {
        target: fcntl.fcntl(source, fcntl.F_DUPFD_CLOEXEC, 10)
        for target, source in files.items()
      }
      for target, source in sources.items():
        os.dup2(source, target)
      if _LINUX:
        libc.control(libc.DEATH_SIGNAL, signal.SIGKILL)
        # The tester may have ended before the death signal was set.
        if os.getppid() != judge_pid:
          os._exit(127)
        if filters.has_known_numbers():
          filters.install(processes=processes > 0)
      os.execve(command[0], command + arguments, environment)
    finally:
      os._exit(127)

  return start
