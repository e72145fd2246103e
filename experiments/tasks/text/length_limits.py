"""Selects the problems of a dataset that a text task uses, by their lengths."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from experiments.tasks.text.text_options import TextOptions
from rl import UsageError

Array = np.ndarray


def select(
  name: str,
  split: str,
  indices: Array,
  prompts: Sequence[list[int]],
  solutions: Sequence[list[int]],
  options: TextOptions,
) -> tuple[Array, str]:
  """Selects the problems of one split that are used.

  A train problem whose solution has more than T tokens is left out; a test
  problem is not, because an evaluation does not read solutions, so that the
  test problems do not depend on T. Prompts of more than L tokens are treated as
  `options.too_long` says.

  Args:
    name: name of the dataset.
    split: "train" or "test".
    indices: indices of all problems of the split.
    prompts, solutions: lists of token ids, of the problems of both splits.
    options: has L, T and `too_long`.

  Returns:
    The indices of the problems that are used, in the same order, and a note
    that counts the used problems, the others, and the prompts that are cut.

  Raises:
    UsageError: no problem remains, or a prompt is too long and `too_long` is
      "refuse".
  """
  limit = options.prompt_length
  lengths = np.array([len(prompts[i]) for i in indices])
  prompt_is_long = lengths > limit
  if options.too_long == "refuse" and prompt_is_long.any():
    raise UsageError(
      f"{prompt_is_long.sum()} prompts of {name} {split} are longer than "
      f"prompt_length={limit}; the longest has {lengths.max()} tokens: set "
      f"prompt_length={lengths.max()}, or too_long='drop' or 'cut'"
    )
  limits = f"prompt_length={limit}"
  fits = np.ones(len(indices), bool)
  if split == "train":
    limits += f" and completion_length={options.completion_length}"
    solution_lengths = np.array([len(solutions[i]) for i in indices])
    fits = solution_lengths <= options.completion_length
  if options.too_long == "drop":
    fits = fits & ~prompt_is_long
  if not fits.any():
    raise UsageError(
      f"no {split} problem of {name} fits into {limits}; set a larger length"
    )
  num_used = fits.sum()
  note = (
    f"{name} {split}: {num_used} problems, {len(indices) - num_used} too long "
    "and left out"
  )
  num_cut = int((prompt_is_long & fits).sum())
  if num_cut:
    note += f", {num_cut} prompts cut to {limit} tokens"
  return indices[fits], note
