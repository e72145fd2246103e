"""Rollout files of runs, packed for the page: the newest that have room.

The page unpacks them itself: deflated JSON in base64, a list of files, each
with its columns.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from etils import epath

from experiments.logging import json_files

MOST_SAMPLES = 10_000
MOST_BYTES = 4_500_000  # deflated; a third more in base64
Record = Mapping[str, Any]
Group = list[Record]
# Per token of a sample: how it is rounded.
_PER_TOKEN: Mapping[str, Callable[[float], float]] = {
  "advantages": lambda x: float(f"{x:.3g}"),
  "log_probs": lambda x: round(x, 3 if x > -0.1 else 2),
  "entropies": lambda x: round(x, 2),
  "step_ids": int,
}


class Packed(NamedTuple):
  """Samples for a page.

  Attributes:
    text: base64; empty without samples.
    note: what was left out; empty if nothing was.
    has_steps: whether any has step scores.
  """

  text: str
  note: str
  has_steps: bool


def pack(
  workdirs: Sequence[epath.PathLike],
  most_samples: int = MOST_SAMPLES,
  most_bytes: int = MOST_BYTES,
) -> Packed:
  """The samples of runs, those of the last steps first.

  Args:
    workdirs: of the runs, which share the room evenly.
    most_samples, most_bytes: the room.

  Returns:
    What is shown, and a note of what is not.
  """
  files, notes = [], []
  share = most_samples // len(workdirs), most_bytes // len(workdirs)
  for run, workdir in enumerate(workdirs):
    found, note = _of_run(run, epath.Path(workdir) / "rollouts", *share)
    files += found
    if note:
      notes.append(f"{epath.Path(workdir).name}: {note}")
  if not files:
    return Packed("", "", False)
  text = base64.b64encode(_deflated(files)).decode()
  has_steps = any(any(file["step_scores"] or ()) for file in files)
  return Packed(text, " ".join(notes), has_steps)


def _of_run(
  run: int, folder: epath.Path, most_samples: int, most_bytes: int
) -> tuple[list[dict[str, Any]], str]:
  found = []
  paths = sorted(folder.glob("step_*.jsonl"), reverse=True, key=_step)
  for i, path in enumerate(paths):
    groups = _groups(json_files.read(path))
    file, size = _fitting(run, _step(path), groups, most_samples, most_bytes)
    shown = len(file["group"])
    if shown:
      found.append(file)
    most_samples, most_bytes = most_samples - shown, most_bytes - size
    there = sum(map(len, groups))
    if shown < there:
      note = (
        f"of step {_step(path):,}, {shown:,} of {there:,} samples are shown"
      )
      older = len(paths) - i - 1
      if older:
        note += f", and none of {older} older file{'s' * (older > 1)}"
      return found, f"{note}; all are in rollouts/."
  return found, ""


def _step(path: epath.Path) -> int:
  return int(path.stem.removeprefix("step_"))


def _groups(records: Iterable[Record]) -> list[Group]:
  """Samples of one prompt, which stand behind one another."""
  by_prompt = itertools.groupby(
    records, lambda r: (r.get("prompt_id"), r["prompt"])
  )
  return [list(group) for _, group in by_prompt]


def _fitting(
  run: int, step: int, groups: list[Group], most_samples: int, most_bytes: int
) -> tuple[dict[str, Any], int]:
  """As many of the groups as there is room for, and the bytes they take."""
  ends = itertools.accumulate(map(len, groups))
  kept = sum(end <= most_samples for end in ends)
  while True:
    file = _columns(run, step, groups[:kept])
    size = len(_deflated(file))
    if size <= most_bytes or not kept:
      return file, size
    kept = min(int(kept * most_bytes / size), kept - 1)


def _columns(run: int, step: int, groups: Sequence[Group]) -> dict[str, Any]:
  records = [record for group in groups for record in group]
  texts = [_text(record) for record in records]
  terms = dict.fromkeys(name for r in records for name in r.get("terms") or ())
  return {
    "run": run,
    "step": step,
    "prompts": [[g[0].get("prompt_id"), g[0]["prompt"]] for g in groups],
    "group": [i for i, group in enumerate(groups) for _ in group],
    "completion": [text for text, _ in texts],
    "cuts": _or_none([cuts for _, cuts in texts]),
    "score": [_number(r["score"]) for r in records],
    "correct": [int(r.get("correct", -1)) for r in records],
    "finished": [int(r.get("finished", True)) for r in records],
    "length": [len(r.get("tokens") or ()) for r in records],
    "terms": [
      [name, [_number((r.get("terms") or {}).get(name)) for r in records]]
      for name in terms
    ],
    **{
      name: _or_none([_per_token(r.get(name), rounded) for r in records])
      for name, rounded in _PER_TOKEN.items()
    },
    "step_scores": _or_none([_numbers(r.get("step_scores")) for r in records]),
  }


def _text(record: Record) -> tuple[str, list[int] | int | None]:
  """A completion, and how long its tokens are, as JavaScript counts."""
  found = record.get("pieces")
  if not found:
    return record["completion"], None
  return "".join(found), [_length(p) for p in found]


def _length(text: str) -> int:
  return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _or_none(values: list[Any]) -> list[Any] | None:
  return None if all(value is None for value in values) else values


def _number(value: Any) -> float | None:
  """What a file says of a number; None where it is none."""
  x = float("nan") if value is None else float(value)
  return float(f"{x:.5g}") if abs(x) < float("inf") else None


def _numbers(values: Any) -> list[float | None] | None:
  return None if values is None else [_number(value) for value in values]


def _per_token(values: Any, rounded: Callable[[float], float]) -> Any:
  """Rounded values; one number where they are all the same."""
  if values is None:
    return None
  found = [None if x is None else rounded(x) for x in _numbers(values)]
  return found[0] if len(set(found)) == 1 else found


def _deflated(value: Any) -> bytes:
  text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
  return zlib.compress(text.encode(errors="replace"))
