"""Packs the sample dumps of runs into a page, the newest ones first.

The packed text is base64 of deflated JSON: a list of files, each with one list
per column. A script of the page unpacks it.
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

MAX_SAMPLES = 10_000
MAX_BYTES = 4_500_000  # deflated; base64 makes it a third larger
Record = Mapping[str, Any]
Group = list[Record]  # the samples of one prompt
# Columns with one value per token, and how their values are rounded.
_TOKEN_COLUMNS: Mapping[str, Callable[[float], float]] = {
  "advantages": lambda x: float(f"{x:.3g}"),
  "log_probs": lambda x: round(x, 3 if x > -0.1 else 2),
  "entropies": lambda x: round(x, 2),
  "step_ids": int,
}


class Packed(NamedTuple):
  """Packed samples.

  Attributes:
    text: base64 text; "" without samples.
    note: sentences about samples that were left out; "" if none were.
    has_steps: whether any sample has step scores.
  """

  text: str
  note: str
  has_steps: bool


def pack(
  workdirs: Sequence[epath.PathLike],
  max_samples: int = MAX_SAMPLES,
  max_bytes: int = MAX_BYTES,
) -> Packed:
  """Packs the samples of runs, those of the last steps first.

  Args:
    workdirs: folders of the runs, which share the limits evenly.
    max_samples: largest number of samples.
    max_bytes: largest size of the deflated JSON.
  """
  files, notes = [], []
  limits = max_samples // len(workdirs), max_bytes // len(workdirs)
  for run, workdir in enumerate(workdirs):
    run_files, note = _pack_run(run, epath.Path(workdir) / "rollouts", *limits)
    files += run_files
    if note:
      notes.append(f"{epath.Path(workdir).name}: {note}")
  if not files:
    return Packed("", "", False)
  text = base64.b64encode(_deflate(files)).decode()
  has_steps = any(any(file["step_scores"] or ()) for file in files)
  return Packed(text, " ".join(notes), has_steps)


def _pack_run(
  run: int, folder: epath.Path, max_samples: int, max_bytes: int
) -> tuple[list[dict[str, Any]], str]:
  """Returns the shown files of one run, and a note about the others."""
  files = []
  paths = sorted(folder.glob("step_*.jsonl"), reverse=True, key=_step)
  for i, path in enumerate(paths):
    groups = _group_by_prompt(json_files.read(path))
    file, size = _pack_file(run, _step(path), groups, max_samples, max_bytes)
    num_shown, num_samples = len(file["group"]), sum(map(len, groups))
    if num_shown:
      files.append(file)
    max_samples, max_bytes = max_samples - num_shown, max_bytes - size
    if num_shown < num_samples:
      note = (
        f"of step {_step(path):,}, {num_shown:,} of {num_samples:,} samples "
        "are shown"
      )
      older = len(paths) - i - 1
      if older:
        note += f", and none of {older} older file{'s' * (older > 1)}"
      return files, f"{note}; all are in rollouts/."
  return files, ""


def _step(path: epath.Path) -> int:
  return int(path.stem.removeprefix("step_"))


def _group_by_prompt(records: Iterable[Record]) -> list[Group]:
  """Groups the samples of a prompt, which follow each other in a file."""
  by_prompt = itertools.groupby(
    records, lambda r: (r.get("prompt_id"), r["prompt"])
  )
  return [list(group) for _, group in by_prompt]


def _pack_file(
  run: int, step: int, groups: list[Group], max_samples: int, max_bytes: int
) -> tuple[dict[str, Any], int]:
  """Returns the first groups that fit into the limits, and their bytes."""
  ends = itertools.accumulate(map(len, groups))
  num_groups = sum(end <= max_samples for end in ends)
  while True:
    file = _columns(run, step, groups[:num_groups])
    size = len(_deflate(file))
    if size <= max_bytes or not num_groups:
      return file, size
    # Size is about proportional to the groups; always tries fewer than before.
    num_groups = min(int(num_groups * max_bytes / size), num_groups - 1)


def _columns(run: int, step: int, groups: Sequence[Group]) -> dict[str, Any]:
  """Returns the columns of a file."""
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
      name: _or_none([_token_values(r.get(name), round_fn) for r in records])
      for name, round_fn in _TOKEN_COLUMNS.items()
    },
    "step_scores": _or_none([_numbers(r.get("step_scores")) for r in records]),
  }


def _text(record: Record) -> tuple[str, list[int] | None]:
  """Returns a completion, and its tokens' lengths in JavaScript's units."""
  pieces = record.get("pieces")
  if not pieces:
    return record["completion"], None
  return "".join(pieces), [_javascript_length(piece) for piece in pieces]


def _javascript_length(text: str) -> int:
  """Returns the number of UTF-16 units."""
  return len(text.encode("utf-16-le", "surrogatepass")) // 2


def _or_none(values: list[Any]) -> list[Any] | None:
  return None if all(value is None for value in values) else values


def _number(value: Any) -> float | None:
  """Rounds a number of a file; None if it is missing or not finite."""
  x = float("nan") if value is None else float(value)
  return float(f"{x:.5g}") if abs(x) < float("inf") else None


def _numbers(values: Any) -> list[float | None] | None:
  return None if values is None else [_number(value) for value in values]


def _token_values(values: Any, round_fn: Callable[[float], float]) -> Any:
  """Rounds the values of tokens; a single number if all are equal."""
  if values is None:
    return None
  numbers = [None if x is None else round_fn(x) for x in _numbers(values)]
  return numbers[0] if len(set(numbers)) == 1 else numbers


def _deflate(value: Any) -> bytes:
  text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
  return zlib.compress(text.encode(errors="replace"))
