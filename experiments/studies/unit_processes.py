"""Runs the units of a study, each in a process of its own.

A unit is one arm or row of the study with one seed. It writes a result file. A
unit whose file exists is not run again.
"""

from __future__ import annotations

import pathlib
import subprocess
import sys
from collections.abc import Callable, Sequence


def run(
  study: str,
  names: Sequence[str],
  seeds: Sequence[int],
  result_file: Callable[[str, int], pathlib.Path],
  workdir: pathlib.Path,
) -> int:
  """Runs every unit without a result, as `STUDY unit NAME SEED`.

  Args:
    study: module of the study's command.
    names: names of the arms or rows.
    seeds: seeds of each.
    result_file: function that returns the result file of a name and a seed.
    workdir: folder of the runs.

  Returns:
    0, or the exit status of the first unit that fails, after which no further
    unit is run. Its process has printed the reason.
  """
  for seed in seeds:
    for name in names:
      if result_file(name, seed).exists():
        print(f"{name}, seed {seed}: already has a result", flush=True)
        continue
      print(f"{name}, seed {seed}: running", flush=True)
      command = [sys.executable, "-m", study, "unit", name, str(seed)]
      command += ["--workdir", str(workdir)]
      status = subprocess.run(command, check=False).returncode
      if status:
        return status
  return 0
