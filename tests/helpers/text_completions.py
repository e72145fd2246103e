"""Completions of text tasks as arrays."""

import numpy as np

from models import tokenizer


def ids_of(folder, texts, end=""):
  """Returns completions `[P, 1, T]`, lengths `[P, 1]` and finished `[P, 1]`."""
  special = (end,) if end else ()
  rows = tokenizer.encode(
    tokenizer.load(folder), [t + end for t in texts], special
  )
  lengths = np.array([[len(row)] for row in rows], np.int32)
  completions = np.zeros((len(rows), 1, lengths.max()), np.int32)
  for i, row in enumerate(rows):
    completions[i, 0, : len(row)] = row
  return completions, lengths, np.ones(lengths.shape, bool)
