r"""Checks that no question of the test split is also in the train split.

A held-out problem that was trained on measures memorization. Two questions
count as the same problem if they differ only in letter case, white space or the
Unicode form of accents:

  normalize("What  is\n2?") == normalize("what is 2?")
"""

from __future__ import annotations

import os
import unicodedata
from collections.abc import Mapping, Sequence

from rl import UsageError


def normalize(question: str) -> str:
  """Returns a form that is equal for two questions of the same problem.

  It does not depend on letter case, the amount of white space, or the Unicode
  form of accents ("é" as one character or as "e" with an accent after it).

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
    name: name of the task, for the error message.
    questions: questions by split ("train", "test"). A missing split counts as
      empty.
    files: file of each split, for the error message. If a split has no file,
      the message names the split and the task.

  Raises:
    UsageError: if the splits share a question. The message names both files and
      the number of different questions that they share.
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
  raise UsageError(
    f"{train_file} and {test_file} share {count} of the {len(test)} test "
    f"prompts (letter case and white space ignored), the first is "
    f"{shared[0][:60]!r}. A test prompt must not be trained on; remove the "
    "shared prompts from the train file"
  )
