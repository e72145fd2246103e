"""Packs the samples of runs into a text that the page of a report contains.

The samples are those of the files `rollouts/step_*.jsonl`. The text is JSON,
compressed with zlib and encoded as base64. The JSON is a list with one object
per file (`_columns`). The script `web/samples.js` unpacks it.
"""

from __future__ import annotations

import base64
import itertools
import json
import zlib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from etils import epath

from experiments.logging import json_files

# Limits per page.
MAX_SAMPLES = 10_000
MAX_BYTES = 4_500_000  # compressed, before base64, which adds a third
Record = Mapping[str, Any]  # one sample, as `sample_dump.make_recorder` says
Group = list[Record]  # the samples of one prompt
# Columns with one value per token, and the functions that round the values.
_TOKEN_COLUMNS: Mapping[str, Callable[[float], float]] = {
  "advantages": lambda x: float(f"{x:.3g}"),
  # Probabilities near 1 get one more digit.
  "log_probs": lambda x: round(x, 3 if x > -0.1 else 2),
  "entropies": lambda x: round(x, 2),
  "step_ids": int,
}


class Packed(NamedTuple):
  """The samples of a page."""

  text: str  # compressed and encoded as base64; "" without samples
  note: str  # sentences about samples that exceed the limits; "" if none does
  has_steps: bool  # whether any packed sample has step scores


def pack(
  workdirs: Sequence[epath.PathLike],
  max_samples: int = MAX_SAMPLES,
  max_bytes: int = MAX_BYTES,
) -> Packed:
  """Packs the samples of runs; within a run, the latest steps come first.

  Each run may use an equal part of the limits of the page.
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
  text = base64.b64encode(_compress(files)).decode()
  has_steps = any(any(file["step_scores"] or ()) for file in files)
  return Packed(text, " ".join(notes), has_steps)


def _pack_run(
  run: int, folder: epath.Path, max_samples: int, max_bytes: int
) -> tuple[list[dict[str, Any]], str]:
  """Returns the columns of the files that fit, and a note about the others."""
  files = []
  # The latest step comes first.
  paths = sorted(folder.glob("step_*.jsonl"), reverse=True, key=_step)
  for i, path in enumerate(paths):
    # The records of one prompt are neighbours in a file.
    by_prompt = itertools.groupby(
      json_files.read(path), lambda r: (r.get("prompt_id"), r["prompt"])
    )
    groups = [list(group) for _, group in by_prompt]
    file, size = _pack_file(run, _step(path), groups, max_samples, max_bytes)
    num_shown, num_samples = len(file["group"]), sum(map(len, groups))
    if num_shown:
      files.append(file)
      max_samples, max_bytes = max_samples - num_shown, max_bytes - size
    # The limits of this run are reached, so older files are not shown.
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
  """Returns the step in the name of a sample dump, `step_000020.jsonl`."""
  return int(path.stem.removeprefix("step_"))


def _pack_file(
  run: int, step: int, groups: list[Group], max_samples: int, max_bytes: int
) -> tuple[dict[str, Any], int]:
  """Packs as many groups of a file as the limits allow."""
  ends = itertools.accumulate(map(len, groups))
  num_groups = sum(end <= max_samples for end in ends)
  while True:
    file = _columns(run, step, groups[:num_groups])
    size = len(_compress(file))
    if size <= max_bytes or not num_groups:
      return file, size  # columns and compressed size in bytes
    # The size is about proportional to the number of groups. It is above the
    # limit, so that the number decreases, and the loop ends.
    num_groups = num_groups * max_bytes // size


def _columns(run: int, step: int, groups: Sequence[Group]) -> dict[str, Any]:
  """Returns the columns of a file, which `web/samples.js` reads."""
  records = [record for group in groups for record in group]
  texts = [_text_and_cuts(record) for record in records]
  # The names of all components, in order.
  terms = dict.fromkeys(name for r in records for name in r.get("terms") or ())
  # A column is None if no sample has a value.
  return {
    "run": run,
    "step": step,
    # [id, text] of each prompt. All other lists have one entry per sample.
    "prompts": [[g[0].get("prompt_id"), g[0]["prompt"]] for g in groups],
    # The index of the sample's prompt.
    "group": [i for i, group in enumerate(groups) for _ in group],
    "completion": [text for text, _ in texts],
    # The lengths of the texts of the sample's tokens.
    "cuts": _or_none([cuts for _, cuts in texts]),
    "score": [_number(r["score"]) for r in records],
    "correct": [int(r.get("correct", -1)) for r in records],
    "finished": [int(r.get("finished", True)) for r in records],
    "length": [len(r.get("tokens") or ()) for r in records],
    # The components of the score.
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


def _text_and_cuts(record: Record) -> tuple[str, list[int] | None]:
  """Returns the text of a completion, and the length of each token's text."""
  pieces = record.get("pieces")
  if not pieces:
    return record["completion"], None  # the texts of the tokens are unknown
  # The lengths are in UTF-16 units, as in JavaScript.
  units = (piece.encode("utf-16-le", "surrogatepass") for piece in pieces)
  return "".join(pieces), [len(text) // 2 for text in units]


def _or_none(values: list[Any]) -> list[Any] | None:
  """Returns the values, or None if all of them are None."""
  return None if all(value is None for value in values) else values


def _number(value: Any) -> float | None:
  """Rounds to 5 significant digits; None for a missing or infinite number."""
  x = float("nan") if value is None else float(value)
  return float(f"{x:.5g}") if abs(x) < float("inf") else None


def _numbers(values: Any) -> list[float | None] | None:
  return None if values is None else [_number(value) for value in values]


def _token_values(values: Any, round_fn: Callable[[float], float]) -> Any:
  """Returns the rounded values of a sample's tokens, or None without values."""
  if values is None:
    return None
  numbers = [None if x is None else round_fn(x) for x in _numbers(values)]
  # One number stands for all tokens if their values are equal.
  return numbers[0] if len(set(numbers)) == 1 else numbers


def _compress(value: Any) -> bytes:
  """Returns JSON in the zlib format, which JavaScript calls "deflate"."""
  text = json.dumps(value, separators=(",", ":"), ensure_ascii=False)
  return zlib.compress(text.encode(errors="replace"))
