"""Faults of disks: flipped bits, truncated files, full and read-only disks."""

from __future__ import annotations

import contextlib
import os
import pathlib
import random
import shutil
import subprocess
from collections.abc import Iterator

from experiments.studies.faults import kills, runs
from experiments.studies.faults.outcome import Outcome, Report, Skipped

DISK_SIZE = 64  # MiB of the file system in memory; a run needs less


def damage_checkpoints(
  times: int, reference: pathlib.Path, rng: random.Random, report: Report
) -> Outcome:
  """Kills a run, damages its newest checkpoint and starts it again.

  The run has to report the damage and to resume from the checkpoint before it.
  Some files of a checkpoint are never read, so that their damage has no effect.
  They are counted separately: the function ends when it has damaged `times`
  files that the run reads.

  Args:
    times: number of damaged files that the run reads.
    reference: workdir of the undisturbed run.
    rng: random generator that picks the files and the damaged bytes.
    report: function that prints a line of progress.
  """
  folder = reference.parent
  workdir, log = folder / "damaged", folder / "damaged.log"
  num_damaged = recovered = lost = unread = 0
  newest = 0  # step of the checkpoint that was damaged last; 0 if none
  wrong: list[str] = []
  while True:
    run = runs.Run(workdir, (), log)
    if newest:
      run.wait_until(lambda run=run: run.resumed_at is not None)
      # A run that resumes from the damaged checkpoint did not read the damaged
      # file.
      unread += run.resumed_at == newest
      # Otherwise the run has to report the damage.
      recovered += "damaged (" in run.output or run.resumed_at == newest
      lost += newest - (run.resumed_at or 0)
      newest = 0
    if num_damaged - unread == times or not kills.kill_at(run, "step", rng):
      if status := run.wait():
        wrong.append(f"ended with status {status}: {run.last_line}")
      break
    checkpoint = runs.newest_checkpoint(workdir)
    if len(runs.checkpoint_steps(workdir)) < 2:
      continue  # no earlier checkpoint exists from which the run could resume
    newest = int(checkpoint.name)
    damage = damage_file(checkpoint, rng)
    report(f"damage {num_damaged + 1 - unread} of {times}: {damage}")
    num_damaged += 1
  wrong += runs.differences(reference, workdir)
  shutil.rmtree(workdir)
  notes = (f"{unread} of the damaged files are never read", *wrong[:5])
  counts = num_damaged, recovered, lost, len(wrong)
  return Outcome("damaged checkpoint", *counts, notes)


def damage_file(checkpoint: pathlib.Path, rng: random.Random) -> str:
  """Flips a bit of a file in a checkpoint's `state` folder, or truncates it.

  Args:
    checkpoint: folder of the checkpoint.
    rng: random generator that picks the file, the byte and the kind of damage.

  Returns:
    A description of the damage.
  """
  files = sorted(
    path for path in (checkpoint / "state").rglob("*") if path.is_file()
  )
  path = rng.choice([path for path in files if path.stat().st_size])
  content = bytearray(path.read_bytes())
  position = rng.randrange(len(content))
  name = path.relative_to(checkpoint.parent)
  if rng.random() < 0.5:
    path.write_bytes(content[:position])
    return f"{name} is truncated to {position} of {len(content)} bytes"
  content[position] ^= 1 << rng.randrange(8)
  path.write_bytes(content)
  return f"one bit of byte {position} of {name} is flipped"


def fill_disk(
  times: int, reference: pathlib.Path, report: Report
) -> Outcome | Skipped:
  """Fills the disk during a run, frees it, and starts the run again.

  The run has to end with status 1 and a one-line error.

  Args:
    times: number of times that the disk is filled.
    reference: workdir of the undisturbed run.
    report: function that prints a line of progress.
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
      # Checkpoints are 5 steps apart, so that step is between two saves.
      step = runs.newest_checkpoint_step(workdir) + 7
      run.wait_until(lambda step=step: runs.last_logged_step(workdir) >= step)
      _fill(ballast)
      status = run.wait()
      lost += run.lost_steps
      message = run.last_line
      recovered += status == 1 and message.startswith("error: ")
      report(f"full {number + 1} of {times}: status {status}, {message[:100]}")
      if not number:
        notes.append(message[:160])
      ballast.unlink()
    last = runs.Run(workdir, (), folder / "full.log")
    wrong = []
    if status := last.wait():
      wrong.append(f"ended with status {status}: {last.last_line}")
    wrong += runs.differences(reference, workdir)
  counts = times, recovered, lost, len(wrong)
  return Outcome("full disk", *counts, (*notes, *wrong[:5]))


def _fill(ballast: pathlib.Path) -> None:
  """Writes zeros to a file until the disk is full."""
  with contextlib.suppress(OSError), ballast.open("wb") as file:
    while True:
      file.write(bytes(1 << 12))
      file.flush()


def forbid_writing(
  reference: pathlib.Path, report: Report
) -> Outcome | Skipped:
  """Starts runs on a read-only disk, in a new and in an existing workdir.

  Each run has to end with an error. The existing run is then resumed on the
  writable disk.

  Args:
    reference: workdir of the undisturbed run.
    report: function that prints a line of progress.
  """
  folder = reference.parent
  disk = folder / "read_only_disk"
  with _mounted(disk) as problem:
    if problem:
      return Skipped("read-only workdir", problem)
    unfinished = disk / "run"
    log = folder / "read_only.log"
    run = runs.Run(unfinished, (), log)
    run.wait_until(lambda: runs.newest_checkpoint_step(unfinished) >= 10)
    run.kill()
    recovered, notes = 0, []
    _mount("-o", "remount,ro", str(disk))
    for workdir in (disk / "new", unfinished):
      run = runs.Run(workdir, (), log)
      status, message = run.wait(), run.last_line
      # Status 2 reports a wrong argument, here the workdir.
      recovered += status in (1, 2) and message.startswith("error: ")
      notes.append(f"status {status}: {message[:160]}")
      report(notes[-1])
    _mount("-o", "remount,rw", str(disk))
    wrong = []
    if status := runs.Run(unfinished, (), log).wait():
      wrong.append(f"ended with status {status}")
    wrong += runs.differences(reference, unfinished)
  counts = 2, recovered, 0, len(wrong)
  return Outcome("read-only workdir", *counts, (*notes, *wrong[:5]))


@contextlib.contextmanager
def _mounted(disk: pathlib.Path) -> Iterator[str]:
  """Mounts a file system in memory; yields "", or why this failed."""
  disk.mkdir()
  error = _mount(
    "-t", "tmpfs", "-o", f"size={DISK_SIZE}m", "extremum", str(disk)
  )
  try:
    yield f"needs permission to mount a file system: {error}" if error else ""
  finally:
    if not error:
      subprocess.run(["umount", "-l", str(disk)], check=False)


def _mount(*arguments: str) -> str:
  """Runs `mount`; returns its error message, or "" if it succeeded."""
  if os.name != "posix" or not shutil.which("mount"):
    return "this machine has no mount command"
  process = subprocess.run(
    ["mount", *arguments], capture_output=True, text=True, check=False
  )
  return process.stderr.strip() if process.returncode else ""
