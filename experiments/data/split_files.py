"""Finds the train and test files of a dataset.

Which problems of a generated task are held out for tests is decided in
`experiments.tasks`.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Sequence

from etils import epath

from rl import UsageError

SPLITS = ("train", "test")
DATA_VARIABLE = "EXTREMUM_DATA"  # environment variable: folder of data files


def find(
  dataset: str,
  data_folder: epath.PathLike | None = None,
  required: Sequence[str] = ("test",),
) -> dict[str, epath.Path]:
  """Finds the files of a dataset in a folder.

  The train file is `NAME_train.jsonl`. The test file is `NAME_test.jsonl`, or
  `NAME.jsonl` if that does not exist. Any of them may be gzipped and end in
  `.gz`, and letter case is ignored: `HumanEval.jsonl.gz` is the test file of
  "humaneval".

  Args:
    dataset: NAME in the names of the files.
    data_folder: folder of the files. None or "" reads the folder from the
      environment variable `EXTREMUM_DATA`.
    required: splits that must have a file. A split that is not required is
      left out of the result if it has no file.

  Returns:
    `{split: file}`, the split "train" before "test".

  Raises:
    UsageError: if no folder is given, or the folder or a required file does not
      exist.
  """
  usual_names = {split: f"{dataset}_{split}.jsonl" for split in SPLITS}
  listing = " and ".join(usual_names[split] for split in required)
  data_folder = data_folder or os.environ.get(DATA_VARIABLE)
  if not data_folder:
    raise UsageError(
      f"no data folder for {dataset!r}: name a folder with {listing}, or set "
      f"the environment variable {DATA_VARIABLE} to that folder"
    )
  folder = epath.Path(data_folder).expanduser()
  if not folder.is_dir():
    raise UsageError(
      f"data folder {str(data_folder)!r} is not a folder; expected one with "
      f"{listing}"
    )
  by_lower_name = {path.name.lower(): path for path in sorted(folder.iterdir())}
  files = {}
  for split, usual_name in usual_names.items():
    names = [usual_name]
    if split == "test":
      names.append(f"{dataset}.jsonl")
    # In order of preference.
    candidates = [
      f"{name}{suffix}".lower() for name in names for suffix in ("", ".gz")
    ]
    matches = [by_lower_name[n] for n in candidates if n in by_lower_name]
    if matches:
      files[split] = matches[0]
    elif split in required:
      close = difflib.get_close_matches(usual_name.lower(), by_lower_name)
      guess = ""
      if close:
        nearest = by_lower_name[close[0]].name
        guess = f"; the nearest name in this folder is {nearest!r}"
      raise UsageError(f"no {usual_name!r} in {str(data_folder)!r}{guess}")
  return files
