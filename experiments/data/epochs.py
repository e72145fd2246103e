"""Draws the lines of a dataset in shuffled epochs."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np

Array = np.ndarray


def batch(indices: Array, key: Any, step: Any, n: int) -> Array:
  """Returns the n elements of `indices` that a training step reads.

  Epochs follow each other in one endless sequence; each is a permutation of all
  elements. Step s gets the elements at the positions s * n to
  s * n + n - 1 of this sequence. They depend on the arguments alone, so a run
  can resume at any step.

  Args:
    indices: `[M]`, the M indices of which every epoch is a permutation.
    key: PRNG key that determines all orders.
    step: s, the number of the training step, from 0.
    n: number of elements.
  """
  positions = int(step) * n + np.arange(n)
  seed = np.asarray(jax.random.key_data(key)).reshape(-1).tolist()
  elements = np.empty(n, indices.dtype)
  epochs, offsets = np.divmod(positions, len(indices))
  for epoch in np.unique(epochs):
    order = np.random.default_rng([*seed, int(epoch)]).permutation(indices)
    in_epoch = epochs == epoch
    elements[in_epoch] = order[offsets[in_epoch]]
  return elements
