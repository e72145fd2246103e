"""Contains a program: what the sandbox's own process does, on Linux.

The host starts an interpreter for `main`, writes a job to its standard input
and reads the judge's messages from its standard output:

  host -> keeper (`main`) -> judge (process 1 of its name spaces) -> program

The keeper outlives the others and kills the judge when time is up; with process
1 the kernel ends every process of the name space. If the host dies, so do they.
The judge makes itself a root directory of memory files in which there is the
interpreter, read-only, and little else, gives up its user and its capabilities
and runs `judge.py`; each program gets the limits and a filter of system calls
besides.

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

from rewards.verifiers.sandbox.inside import filters, judge, libc

NOBODY = 65534
_LINUX = sys.platform.startswith("linux")
_SPACES = libc.NEW_FILES | libc.NEW_NAMES | libc.NEW_IPC
_SPACES |= libc.NEW_PROCESSES | libc.NEW_NETWORK


def main() -> None:
  """Keeps watch over a job; see the top of the file."""
  if _LINUX:
    libc.control(libc.DEATH_SIGNAL, signal.SIGKILL)
    libc.control(libc.SUBREAPER, 1)
  job = json.loads(sys.stdin.buffer.read())
  with open(judge.program.__file__, encoding="utf-8") as file:
    job["driver"] = file.read()
  report = os.dup(1)
  null = os.open(os.devnull, os.O_RDWR)
  for descriptor in range(3):
    os.dup2(null, descriptor)

  def say(message: dict) -> None:
    os.write(report, json.dumps(message).encode() + b"\n")

  missing, mapped = [], None
  try:
    mapped = _unshare()
  except OSError as error:
    missing.append(f"name spaces for files, processes and network ({error})")
  ended, alive = os.pipe()  # closes as the judge ends
  watched, keeping = os.pipe()  # closes as the keeper ends
  pid = os.fork()
  if pid == 0:
    try:
      os.close(ended)
      os.close(keeping)
      signal.signal(signal.SIGINT, signal.SIG_DFL)
      missing += _contain(job, mapped, watched)
      say({"missing": missing})
      if not missing or job["allow_unprotected"]:
        processes = 0 if missing else job["processes"]
        judge.run(job, _starter(job, processes), say)
    except BaseException as error:
      say({"failed": repr(error)})
    finally:
      os._exit(0)
  os.close(alive)
  if not select.select([ended], [], [], job["patience"])[0]:
    say({"late": True})
  _end(pid)


def _end(pid: int) -> None:
  """Kills the judge and whatever it leaves to this process."""
  os.kill(pid, signal.SIGKILL)
  os.waitpid(pid, 0)
  children = f"/proc/self/task/{os.getpid()}/children"
  while os.path.exists(children):
    with open(children, encoding="ascii") as file:
      left = [int(each) for each in file.read().split()]
    if not left:
      break
    for each in left:
      os.kill(each, signal.SIGKILL)
      os.waitpid(each, 0)


# --- name spaces and the root directory -------------------------------------


def _unshare() -> bool:
  """Leaves the host's name spaces, children's processes included.

  Returns:
    Whether that took a user name space (this process is not privileged).

  Raises:
    OSError: the system does not let it.
  """
  if not _LINUX:
    raise OSError(f"there are none on {sys.platform}")
  _raise_score()
  if _may_become_nobody():
    with contextlib.suppress(OSError):
      libc.unshare(_SPACES)
      return False
  user, group = os.geteuid(), os.getegid()
  libc.unshare(_SPACES | libc.NEW_USER)
  _map_user(user, group, "/proc/self")
  return True


def _may_become_nobody() -> bool:
  """Whether this is root, in a name space that has the user nobody."""
  if os.geteuid() != 0:
    return False
  with open("/proc/self/uid_map", encoding="ascii") as file:
    ranges = [[int(word) for word in line.split()] for line in file]
  return any(first <= NOBODY < first + count for first, _, count in ranges)


def _raise_score() -> None:
  """Of all processes, these are the first to go when memory runs out."""
  try:
    with open("/proc/self/oom_score_adj", "w", encoding="ascii") as file:
      file.write("1000")
  except OSError:
    pass


def _map_user(user: int, group: int, process: str) -> None:
  """Makes this process, which is `user` outside, nobody in its name space."""
  libc.control(libc.DUMPABLE, 1)  # else the files below belong to root
  for name, text in (
    ("setgroups", "deny"),
    ("uid_map", f"{NOBODY} {user} 1"),
    ("gid_map", f"{NOBODY} {group} 1"),
  ):
    with open(f"{process}/{name}", "w", encoding="ascii") as file:
      file.write(text)
  libc.control(libc.DUMPABLE, 0)


def _contain(job: dict, mapped: bool | None, watched: int) -> list[str]:
  """Gives up files, user and capabilities; says which means are missing.

  Args:
    job: "disk_bytes", "folder", the limits.
    mapped: what `_unshare` said, None if it failed.
    watched: closes when the keeper is gone.
  """
  missing = []
  process = os.open("/proc/self", os.O_RDONLY) if _LINUX else -1
  folder = os.open(job["folder"], os.O_RDONLY)
  if mapped is not None:
    try:
      _enter_root(job["disk_bytes"])
    except OSError as error:
      mapped = None
      missing.append(f"a root directory of its own ({error})")
  if mapped is None:
    os.fchdir(folder)  # a mount may hide its name
    missing += _become_nobody(folder)
  else:
    if not mapped:
      os.setgroups([])
      os.setresgid(NOBODY, NOBODY, NOBODY)
      os.setresuid(NOBODY, NOBODY, NOBODY)
      # A user name space besides: it counts this program's processes alone.
      libc.unshare(libc.NEW_USER)
      os.fchdir(process)
      _map_user(NOBODY, NOBODY, ".")
    os.chdir("/tmp")
  os.close(folder)
  _limit(job, mapped is not None)
  if not _LINUX:
    return [*missing, "a filter of system calls"]
  os.close(process)
  libc.drop_capabilities()
  libc.control(libc.NO_NEW_PRIVILEGES, 1)
  libc.control(libc.DUMPABLE, 0)  # the program may not trace this process
  libc.control(libc.DEATH_SIGNAL, signal.SIGKILL)
  if select.select([watched], [], [], 0)[0]:
    os._exit(0)
  if not filters.has_known_numbers():
    missing.append(f"a filter of system calls for {os.uname().machine}")
  return missing


def _become_nobody(folder: int) -> list[str]:
  """Where there are no name spaces: root gives up its user if it can."""
  able = _LINUX and _may_become_nobody()
  if not able or not _executable_by_all(sys.executable):
    return ["a user of its own"]
  try:
    os.chown(folder, NOBODY, NOBODY)
    os.setgroups([])
    os.setresgid(NOBODY, NOBODY, NOBODY)
    os.setresuid(NOBODY, NOBODY, NOBODY)
  except OSError as error:
    return [f"a user of its own ({error})"]
  return []


def _executable_by_all(path: str) -> bool:
  path = os.path.realpath(path)
  while os.stat(path).st_mode & 1:
    if path == os.path.dirname(path):
      return True
    path = os.path.dirname(path)
  return False


def _enter_root(disk_bytes: int) -> None:
  """Changes to a root directory with the interpreter and an empty /tmp.

  Both are memory files: nothing is written to a disk, and nothing is left once
  the last process has gone.
  """
  os.umask(0o022)
  shown, links = ["/usr"], []
  for path in ("/lib", "/lib64", "/lib32", "/bin", "/nix/store"):
    if os.path.islink(path):
      links.append((os.readlink(path), path))
    elif os.path.isdir(path):
      shown.append(path)
  shown += ["/etc/ld.so.cache", "/dev/null", "/dev/zero", "/dev/urandom"]
  for path in (sys.base_prefix, sys.base_exec_prefix, sys.executable):
    path = os.path.realpath(path)
    if not any(path.startswith(f"{each}/") for each in [*shown, "/usr"]):
      shown.append(path)
  sources = {
    path: os.open(path, os.O_PATH)
    for path in dict.fromkeys(shown)
    if os.path.exists(path)
  }
  root, scratch = "/tmp", "/tmp/tmp"
  guarded = libc.NOSUID | libc.NODEV
  libc.mount(None, "/", None, libc.RECURSIVE | libc.PRIVATE)
  libc.mount("tmpfs", root, "tmpfs", guarded, "size=1m,nr_inodes=1024,mode=755")
  os.mkdir(scratch)
  size = f"size={disk_bytes},nr_inodes=4096,mode=1777"
  libc.mount("tmpfs", scratch, "tmpfs", guarded, size)
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


def _limit(job: dict, alone: bool) -> None:
  """Sets the limits of this process and of every program it starts.

  Args:
    job: the numbers.
    alone: whether this user's processes are counted apart from the host's.
  """
  limits = {
    "CPU": job["cpu_seconds"],
    "AS": job["memory_bytes"],
    "FSIZE": job["disk_bytes"],
    "NOFILE": job["open_files"],
    "CORE": 0,
    "MEMLOCK": 0,
  }
  if alone:
    limits["NPROC"] = job["processes"] + job["threads"] + 2
  for name, value in limits.items():
    kind = getattr(resource, f"RLIMIT_{name}")
    hard = resource.getrlimit(kind)[1]
    if hard != resource.RLIM_INFINITY:
      value = min(value, hard)
    try:
      resource.setrlimit(kind, (value, value))
    except (OSError, ValueError):
      if _LINUX:
        raise


def _starter(job: dict, processes: int) -> Callable[[list[str], dict], int]:
  """A function that starts the interpreter in a session of its own.

  The hash seed is fixed, so that one program has one verdict; that is why the
  interpreter is not told to ignore its environment, which holds nothing else.
  """
  command = [sys.executable, "-s", "-S", "-B", "-X", "utf8"]
  environment = {
    "HOME": os.getcwd(),
    "TMPDIR": os.getcwd(),
    "PATH": "/usr/bin:/bin",
    "PYTHONHASHSEED": "0",
  }
  if "LD_LIBRARY_PATH" in os.environ:
    environment["LD_LIBRARY_PATH"] = os.environ["LD_LIBRARY_PATH"]

  def start(arguments: list[str], files: dict[int, int]) -> int:
    judge = os.getpid()
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
        if os.getppid() != judge:
          os._exit(127)
        if filters.has_known_numbers():
          filters.install(processes=processes > 0)
      os.execve(command[0], command + arguments, environment)
    finally:
      os._exit(127)

  return start
