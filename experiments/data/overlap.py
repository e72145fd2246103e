r"""Checks that no question of the test split is also in the train split.

A held-out problem that was trained on measures memory. Two questions count as
the same problem if they differ in letter case or white space only:

  normalize("What  is\n2?") == normalize("what is 2?")
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence


def normalize(question: str) -> str:
  """Removes the differences that do not change the problem.

  These are letter case, the length of white space, and the Unicode form of
  accents ("é" as one character or as "e" with an accent after it).

  Args:
    question: text of the question.
  """
  composed = unicodedata.normalize("NFC", question)
  return " ".join(composed.casefold().split())


def check_disjoint(
  name: str,
  questions: Mapping[str, Sequence[str]],
  files: Mapping[str, os.PathLike],
) -> None:
  """Checks that the train and test splits share no question.

  Args:
    name: name of the task, for the message.
    questions: questions by split. A task without a train split passes.
    files: file of each split, for the message. A split without a file is named
      by the task.

  Raises:
    ValueError: if the splits share a question. The message names both files and
      the number of shared test questions.
  """
  test = {normalize(question) for question in questions.get("test", ())}
  shared = [
    question
    for question in questions.get("train", ())
    if normalize(question) in test
  ]
  if not shared:
    return
  train_file, test_file = (
    files.get(split, f"the {split} split of {name}")
    for split in ("train", "test")
  )
  # The same test question may be in the train split several times.
  count = len({normalize(question) for question in shared})
  raise ValueError(
    f"{train_file} and {test_file} share {count} of the {len(test)} test "
    f"prompts (letter case and white space ignored), the first is "
    f"{shared[0][:60]!r}. A test prompt must not be trained on; remove the "
    "shared prompts from the train file"
  )
