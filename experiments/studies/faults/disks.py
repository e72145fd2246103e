"""What disks do: bits flip, files end early, there is no room, no writing."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
from collections.abc import Iterator

from experiments.studies.faults import kills, runs
from experiments.studies.faults.outcome import Outcome, Skipped, Tell

ROOM = 64  # MiB of the small disk


def damaged(
  times: int, reference: pathlib.Path, draw: random.Random, tell: Tell
) -> Outcome:
  """A file of the newest checkpoint has a bit flipped, or ends early.

  Some files are never read, and damage there harms nothing: it goes on until
  enough of the others were hit.

  Args:
    times: how often the damage is one that matters.
    reference: workdir of the undisturbed run.
    draw: of the file and the place.
    tell: where progress goes.
  """
  folder = reference.parent
  workdir, log = folder / "damaged", folder / "damaged.log"
  done = recovered = lost = newest = unread = 0
  wrong: list[str] = []
  while True:
    run = runs.Run(workdir, (), log)
    if newest:
      run.until(lambda run=run: run.resumed_at is not None)
      unread += run.resumed_at == newest
      recovered += "damaged (" in run.said or run.resumed_at == newest
      lost += newest - (run.resumed_at or 0)
      newest = 0
    if done - unread == times or not kills.strike(run, "step", draw):
      if status := run.wait():
        wrong.append(f"ended with {status}: {run.last_line}")
      break
    whole = runs.newest(workdir)
    if len(runs.saved(workdir)) < 2:
      continue  # there is none before it to go on from
    newest = int(whole.name)
    tell(f"damage {done + 1 - unread} of {times}: {damage(whole, draw)}")
    done += 1
  wrong += runs.differences(reference, workdir)
  shutil.rmtree(workdir)
  return Outcome(
    "damaged checkpoint",
    done,
    recovered,
    lost,
    len(wrong),
    (f"{unread} times the file is one that is never read", *wrong[:5]),
  )


def damage(checkpoint: pathlib.Path, draw: random.Random) -> str:
  """Flips a bit of one of its files, or cuts it; says what."""
  files = sorted(
    path for path in (checkpoint / "state").rglob("*") if path.is_file()
  )
  path = draw.choice([path for path in files if path.stat().st_size])
  content = bytearray(path.read_bytes())
  place = draw.randrange(len(content))
  name = path.relative_to(checkpoint.parent)
  if draw.random() < 0.5:
    path.write_bytes(content[:place])
    return f"{name} ends after {place} of {len(content)} bytes"
  content[place] ^= 1 << draw.randrange(8)
  path.write_bytes(content)
  return f"a bit of byte {place} of {name}"


def full(times: int, reference: pathlib.Path, tell: Tell) -> Outcome | Skipped:
  """The disk has no room left while the run saves and logs.

  Args:
    times: how often.
    reference: workdir of the undisturbed run.
    tell: where progress goes.
  """
  folder = reference.parent
  disk = folder / "small_disk"
  with _mounted(disk) as problem:
    if problem:
      return Skipped("full disk", problem)
    workdir, ballast = disk / "run", disk / "ballast"
    recovered = lost = 0
    notes: list[str] = []
    for number in range(times):
      run = runs.Run(workdir, (), folder / "full.log")
      least = (run_saved(workdir) or 0) + 7
      run.until(lambda least=least: runs.logged(workdir) >= least)
      _fill(ballast)
      status = run.wait()
      lost += run.lost_steps
      said = run.last_line
      recovered += status == 1 and said.startswith("error: ")
      tell(f"full {number + 1} of {times}: status {status}, {said[:100]}")
      if not number:
        notes.append(said[:160])
      ballast.unlink()
    last = runs.Run(workdir, (), folder / "full.log")
    wrong = []
    if status := last.wait():
      wrong.append(f"ended with {status}: {last.last_line}")
    wrong += runs.differences(reference, workdir)
  return Outcome(
    "full disk", times, recovered, lost, len(wrong), (*notes, *wrong[:5])
  )


def run_saved(workdir: pathlib.Path) -> int | None:
  """Step of the latest checkpoint."""
  found = runs.newest(workdir)
  return None if found is None else int(found.name)


def _fill(ballast: pathlib.Path) -> None:
  """Takes all the room that is left."""
  with contextlib.suppress(OSError), ballast.open("wb") as file:
    while True:
      file.write(bytes(1 << 12))
      file.flush()


def read_only(reference: pathlib.Path, tell: Tell) -> Outcome | Skipped:
  """The workdir cannot be written: a new one, and one that is half done.

  Args:
    reference: workdir of the undisturbed run.
    tell: where progress goes.
  """
  folder = reference.parent
  disk = folder / "read_only_disk"
  with _mounted(disk) as problem:
    if problem:
      return Skipped("read-only workdir", problem)
    half = disk / "run"
    log = folder / "read_only.log"
    run = runs.Run(half, (), log)
    run.until(lambda: (run_saved(half) or 0) >= 10)
    run.kill()
    recovered, notes = 0, []
    _mount("-o", "remount,ro", str(disk))
    for workdir in (disk / "new", half):
      run = runs.Run(workdir, (), log)
      status, said = run.wait(), run.last_line
      recovered += status in (1, 2) and said.startswith("error: ")
      notes.append(f"status {status}: {said[:160]}")
      tell(notes[-1])
    _mount("-o", "remount,rw", str(disk))
    wrong = []
    if status := runs.Run(half, (), log).wait():
      wrong.append(f"ended with {status}")
    wrong += runs.differences(reference, half)
  return Outcome(
    "read-only workdir", 2, recovered, 0, len(wrong), (*notes, *wrong[:5])
  )


@contextlib.contextmanager
def _mounted(disk: pathlib.Path) -> Iterator[str]:
  """A small file system in memory; yields why there is none, or ""."""
  disk.mkdir()
  said = _mount("-t", "tmpfs", "-o", f"size={ROOM}m", "extremum", str(disk))
  try:
    yield f"needs the right to mount a file system: {said}" if said else ""
  finally:
    if not said:
      subprocess.run(["umount", "-l", str(disk)], check=False)


def _mount(*words: str) -> str:
  """What `mount` complains of, or ""."""
  if os.name != "posix" or not shutil.which("mount"):
    return "there is no mount command"
  found = subprocess.run(
    ["mount", *words], capture_output=True, text=True, check=False
  )
  return found.stderr.strip() if found.returncode else ""
