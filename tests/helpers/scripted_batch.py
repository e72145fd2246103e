"""A batch of one prompt whose samples are given, for samplers that branch."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np

from helpers import worked_example
from rl import method, types


class ScriptedBatch:
  """One prompt; sample number n is the n-th of the given ones.

  Attributes:
    calls: `[(rows, prefix_lengths, first)]`, the arguments of `branch`.
  """

  params = "policy"

  def __init__(
    self,
    steps: Sequence[Sequence[int]],
    log_probs: Sequence[Sequence[float]] | None = None,
  ) -> None:
    """Makes the samples.

    Args:
      steps: number of tokens of each step of each sample.
      log_probs: log-probs of the tokens of each sample; None for the default.
    """
    self.samples = len(steps)
    self.calls: list[tuple[list[int], list[int], int]] = []
    settings = {}
    if log_probs is not None:
      padded = np.zeros((1, len(steps), max(map(sum, steps))))
      for number, values in enumerate(log_probs):
        padded[0, number, : len(values)] = values
      settings["behavior_log_probs"] = padded
    self._all = worked_example.rollout(
      np.arange(len(steps)), steps=steps, **settings
    )

  def replace(self, **fields) -> None:
    """Replaces fields of the rollout of all samples."""
    self._all = self._all.replace(**fields)

  def _take(self, first: int, count: int) -> types.Rollout:
    def cut(x):
      is_of_samples = x.ndim > 1 and x.shape[:2] == (1, self.samples)
      return x[:, first : first + count] if is_of_samples else x

    return jax.tree.map(cut, self._all)

  def sample(self, params, count):
    assert params == "policy"
    return self._take(0, count)

  def branch(self, params, rollout, rows, prefix_lengths, first):
    assert params == "policy"
    assert rollout.scores.shape == (1, first)
    assert rows.shape == prefix_lengths.shape
    self.calls.append((rows[0].tolist(), prefix_lengths[0].tolist(), first))
    return self._take(first, rows.shape[1])


def in_loss(m: method.Method, rollout: types.Rollout) -> np.ndarray:
  """Returns the tokens `[P, S, T]` that a method trains on."""
  loss_filter = worked_example.apply(m.loss_filter, rollout.replace(memory=()))
  return np.asarray(rollout.mask) & loss_filter
