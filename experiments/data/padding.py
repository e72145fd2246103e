"""Pads lists of token ids to arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

Array = np.ndarray


def on_left(
  rows: Sequence[Sequence[int]], length: int, pad_id: int
) -> tuple[Array, Array]:
  """Returns N rows at the right ends of an array, `[N, length]`, and a mask.

  The ids are int32, and the mask is True on those of the rows.
  """
  ids = np.full((len(rows), length), pad_id, np.int32)
  mask = np.zeros(ids.shape, bool)
  for i, row in enumerate(rows):
    ids[i, length - len(row) :], mask[i, length - len(row) :] = row, True
  return ids, mask


def on_right(
  rows: Sequence[Sequence[int]], length: int, pad_id: int
) -> tuple[Array, Array]:
  """Returns N rows with padding after them, `[N, length]`, and their lengths.

  The ids and the lengths, `[N]`, are int32.
  """
  ids = np.full((len(rows), length), pad_id, np.int32)
  for i, row in enumerate(rows):
    ids[i, : len(row)] = row
  return ids, np.array([len(row) for row in rows], np.int32)
