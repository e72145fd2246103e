"""Compares the shapes that a task declares with those of its scores."""

import jax
import numpy as np


def check(task, judged):
  """Raises unless `task.judged_shapes` declares what `task.score` returned."""
  step_ids = judged.step_ids
  T = task.completion_length if step_ids is None else step_ids.shape[-1]
  declared = task.judged_shapes(*judged.scores.shape, T)
  assert arrays_of(declared) == arrays_of(judged)


def arrays_of(judged):
  """Returns the shape and dtype of each array, by its path."""
  paths, _ = jax.tree.flatten_with_path(judged)
  return {path: (x.shape, np.dtype(x.dtype)) for path, x in paths}
