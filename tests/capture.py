"""Records what the code computes, and compares two records.

  python tests/capture.py record DIR [--only NAME ...] [--jobs 2]
  python tests/capture.py compare BEFORE AFTER [--only NAME ...]

A record of one commit is compared with a record of another on the same machine,
each made in a worktree of its own, to see which methods, rewards, verifiers,
tasks, samplers, configs and runs compute something else. It shows change, not
correctness. Items are keyed by public names (`method:grpo`, `reward:majority`),
so a record survives moved modules; the names that the capture assumes of the
code stand in `captured/code.py`. `--only` takes the beginning of an item's
name.

Everything but the runs is computed without fusion (`jax.disable_jit`), where
the order of operations in the source alone decides every bit. A run whose
compiled metrics differ is compared on its first step without fusion.

Recording goes on where it stopped: an item that has a file is not computed
again. An item that raises is recorded with its error, and the exit status is 1.
"""

from __future__ import annotations

import argparse
import concurrent.futures
import json
import multiprocessing
import os
import pathlib
import sys
import time
import traceback
from collections.abc import Iterable
from typing import Any

ROOT = pathlib.Path(__file__).absolute().parent.parent
os.environ["JAX_PLATFORMS"] = "cpu"
sys.path[:0] = [str(ROOT), str(ROOT / "tests")]

# Slow items first, so that no process waits for the last of them alone.
SECTIONS = (
  "runs",
  "sampling",
  "methods",
  "tasks",
  "verifiers",
  "rewards",
  "transforms",
  "functions",
  "configs",
)
# A process may have about 65,000 memory maps; every compiled operation has
# some.
MOST_MAPS = 30_000


def sections() -> dict[str, dict[str, Any]]:
  """`{section: {item: function that computes it}}`."""
  import importlib

  results = {}
  for section in SECTIONS:
    results[section] = importlib.import_module(f"captured.{section}").items()
  return results


def chosen(name: str, only: Iterable[str]) -> bool:
  return not only or any(name.startswith(start) for start in only)


# Recording.


def file_of(folder: pathlib.Path, name: str) -> pathlib.Path:
  return folder / f"{name.replace('/', '_')}.npz"


def flatten(value: Any, path: str = "") -> dict[str, Any]:
  """Leaves of nested dicts, lists and dataclasses by their path."""
  import dataclasses

  if hasattr(value, "_asdict"):
    value = value._asdict()
  elif dataclasses.is_dataclass(value) and not isinstance(value, type):
    value = {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}
  if isinstance(value, dict):
    pairs = [(str(key), part) for key, part in value.items()]
  elif isinstance(value, list | tuple):
    pairs = [(str(i), part) for i, part in enumerate(value)]
  else:
    return {path: value}
  results = {}
  for key, part in pairs:
    results |= flatten(part, f"{path} > {key}" if path else key)
  return results


def as_array(value: Any) -> Any:
  """A leaf as a numpy array; texts and other values as their JSON."""
  import jax
  import numpy as np

  if isinstance(value, jax.Array):
    if jax.dtypes.issubdtype(value.dtype, jax.dtypes.prng_key):
      value = jax.random.key_data(value)
    return np.asarray(value)
  if isinstance(value, np.ndarray | np.generic) and value.dtype != object:
    return np.asarray(value)
  text = json.dumps(value, sort_keys=True, default=str)
  return np.frombuffer(b"json" + text.encode(), np.uint8)


def write(path: pathlib.Path, value: Any) -> None:
  import numpy as np

  arrays = {key: as_array(leaf) for key, leaf in flatten(value).items()}
  unfinished = path.with_suffix(".unfinished")
  with unfinished.open("wb") as file:
    np.savez_compressed(file, **{f"={key}": a for key, a in arrays.items()})
  unfinished.rename(path)


def record_item(section: str, name: str, folder: str) -> tuple[str, float, str]:
  """Computes and writes one item; returns its name, seconds and error."""
  import jax

  started = time.perf_counter()
  error = ""
  try:
    make = sections_of_process()[section][name]
    with jax.disable_jit(section != "runs"):
      value = make()
  except Exception:  # the error is what the code does, and is recorded as such
    error = traceback.format_exc()
    value = {"error": error.splitlines()[-1]}
  write(file_of(pathlib.Path(folder), name), value)
  if maps() > MOST_MAPS:
    jax.clear_caches()
  return name, time.perf_counter() - started, error


_SECTIONS: dict[str, dict[str, Any]] = {}


def sections_of_process() -> dict[str, dict[str, Any]]:
  if not _SECTIONS:
    _SECTIONS.update(sections())
  return _SECTIONS


def maps() -> int:
  path = pathlib.Path("/proc/self/maps")
  return path.read_text().count("\n") if path.exists() else 0


def record(folder: pathlib.Path, only: list[str], jobs: int) -> int:
  """Records every chosen item that `folder` lacks; 1 if one raised."""
  folder.mkdir(parents=True, exist_ok=True)
  todo = [
    (section, name)
    for section, items in sections().items()
    for name in items
    if chosen(name, only) and not file_of(folder, name).exists()
  ]
  print(f"{len(todo)} items to record in {folder}", flush=True)
  failed, started = [], time.perf_counter()
  spawn = multiprocessing.get_context("spawn")
  with concurrent.futures.ProcessPoolExecutor(jobs, spawn) as pool:
    waiting = [
      pool.submit(record_item, section, name, str(folder))
      for section, name in todo
    ]
    for number, one in enumerate(concurrent.futures.as_completed(waiting), 1):
      name, seconds, error = one.result()
      spent = time.perf_counter() - started
      if error:
        failed.append(name)
        print(f"{name} raised:\n{error}", flush=True)
      print(
        f"[{spent:6.0f} s] {number}/{len(todo)} {name} {seconds:.1f} s",
        flush=True,
      )
  if failed:
    print(f"{len(failed)} items raised: {', '.join(failed)}")
  return int(bool(failed))


# Comparing.


def read(path: pathlib.Path) -> dict[str, Any]:
  import numpy as np

  with np.load(path) as file:
    return {key[1:]: file[key] for key in file.files}


def is_text(array: Any) -> bool:
  return (
    array.ndim == 1 and array.dtype == "u1" and array[:4].tobytes() == b"json"
  )


def difference(before: Any, after: Any, tolerance: float) -> str:
  """Returns the difference between two leaves as text; "" if they are equal."""
  import numpy as np

  if is_text(before) or is_text(after):
    texts = [
      a[4:].tobytes().decode() if is_text(a) else str(a)
      for a in (before, after)
    ]
    return "" if texts[0] == texts[1] else f"{texts[0][:60]} -> {texts[1][:60]}"
  if (before.shape, before.dtype) != (after.shape, after.dtype):
    return (
      f"{before.dtype}{list(before.shape)} -> {after.dtype}{list(after.shape)}"
    )
  if before.tobytes() == after.tobytes():
    return ""
  if before.dtype.kind not in "fc":
    return f"{int((before != after).sum())} of {before.size} differ"
  if np.array_equal(before, after, equal_nan=True):
    return ""  # zeros or NaNs of another sign
  same = (before == after) | (np.isnan(before) & np.isnan(after))
  with np.errstate(invalid="ignore"):
    distance = np.abs(before - after)[~same]
  worst = np.max(np.where(np.isnan(distance), np.inf, distance))
  scale = max(
    1.0, float(np.max(np.abs(before[np.isfinite(before)]), initial=0))
  )
  if worst <= tolerance * scale:
    return ""
  return f"{len(distance)} of {before.size} differ, by at most {worst:.3g}"


def differences(
  before: pathlib.Path, after: pathlib.Path, name: str, tolerance: float
) -> list[str]:
  """Lines that say what differs in an item; [] if nothing does."""
  paths = file_of(before, name), file_of(after, name)
  for path, which in zip(paths, ("before", "after"), strict=True):
    if not path.exists():
      return [f"is not in the record {which}"]
  first, second = read(paths[0]), read(paths[1])
  lines = [f"{key}: is gone" for key in first if key not in second]
  lines += [f"{key}: is new" for key in second if key not in first]
  for key in first:
    if key in second:
      text = difference(first[key], second[key], tolerance)
      if text:
        lines.append(f"{key}: {text}")
  return lines


def compare(
  before: pathlib.Path, after: pathlib.Path, only: list[str], tolerance: float
) -> int:
  """Prints the items that differ; 1 if there are any."""
  names = sorted(
    {path.stem for folder in (before, after) for path in folder.glob("*.npz")}
  )
  names = [name for name in names if chosen(name, only)]
  results = {
    name: differences(before, after, name, tolerance) for name in names
  }
  moved = {}
  for name in [name for name in names if name.startswith("run:")]:
    # Fusion may move a bit of a compiled run; its first step, computed without
    # fusion, then decides whether the run computes something else.
    if results[name] and not differences(
      before, after, f"first step of {name}", tolerance
    ):
      moved[name] = results.pop(name)
  changed = {name: lines for name, lines in results.items() if lines}
  for name, lines in changed.items():
    print(name)
    for line in lines[:6]:
      print(f"  {line}")
    if len(lines) > 6:
      print(f"  and {len(lines) - 6} more")
  for name in moved:
    print(
      f"{name}: fusion moved {len(moved[name])} values; its first step is equal"
    )
  print(f"{len(names)} items compared: {len(changed)} differ")
  return int(bool(changed) or not names)


def main() -> int:
  parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
  commands = parser.add_subparsers(dest="command", required=True)
  recording = commands.add_parser(
    "record", help="write a record of this commit"
  )
  recording.add_argument("folder", type=pathlib.Path)
  recording.add_argument("--jobs", type=int, default=os.cpu_count())
  comparing = commands.add_parser(
    "compare", help="say what two records differ in"
  )
  comparing.add_argument("before", type=pathlib.Path)
  comparing.add_argument("after", type=pathlib.Path)
  comparing.add_argument(
    "--tolerance",
    type=float,
    default=0.0,
    help="largest difference that counts as equal, relative to the largest "
    "magnitude in the array (at least 1); 0 compares bits",
  )
  for one in (recording, comparing):
    one.add_argument(
      "--only",
      nargs="+",
      default=[],
      metavar="NAME",
      help="beginnings of the names of items, as in method:grpo or reward:",
    )
  options = parser.parse_args()
  if options.command == "record":
    return record(options.folder.absolute(), options.only, options.jobs)
  return compare(options.before, options.after, options.only, options.tolerance)


if __name__ == "__main__":
  sys.exit(main())
