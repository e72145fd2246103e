"""The parts of a loss of process reward models.

Axes: E examples, S samples of an example, K steps, T tokens, C outputs of the
head.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from rewards.process import step_data
from rl import UsageError

Array = jax.Array


class Outputs(NamedTuple):
  """Outputs of a process reward model for E examples.

  Attributes:
    steps: `[E, S, K, C]`, outputs of the head after each step.
    tokens: `[E, S, T, C]`, outputs of the head after each token.
    reversed_steps: `[E, S, K, C]`, outputs after each step of the completion
      whose steps are in the opposite order; entry k belongs to step k of the
      original completion. None unless the loss reads it.
    log_ratios: `[E, S, T]`, log-probs of the tokens under the decoder minus
      those under the decoder at the start; None unless the loss reads it.
  """

  steps: Array
  tokens: Array
  reversed_steps: Array | None = None
  log_ratios: Array | None = None


def each_line(data: step_data.StepData) -> np.ndarray:
  """Returns `[N, 1]`: every line is an example."""
  return np.arange(len(data.problems))[:, None]


@dataclasses.dataclass(frozen=True)
class StepLoss:
  """A loss, and what it needs.

  Attributes:
    name: the name, in messages.
    outputs: C.
    loss: `(Outputs, StepData of the examples) -> []`.
    score: `(Outputs, StepData) -> [E, S, K]`, the scores of the steps: the
      higher, the better. Scores of classes are p(good) - p(bad), in (-1, 1).
    examples: `lines -> [E, S]` int, the lines of each example, which have the
      same prompt.
    prepare: `lines -> lines`, on the host, before the training.
    count: `StepData -> []`, the number of values of which the loss is the mean,
      so that the losses of slices, times their counts, add up. None if the loss
      is no such mean, or reads what the host prepares; then a model cannot be
      trained beside a policy.
    reads_reversed: whether `Outputs.reversed_steps` is computed.
    reads_reference: whether `Outputs.log_ratios` is computed.
    targets: what the loss reads of a line, of "labels", "potentials" and
      "verdicts".
    is_probability: whether (score + 1) / 2 estimates the probability that a
      step is right.
  """

  name: str
  outputs: int
  loss: Callable[[Outputs, step_data.StepData], Array]
  score: Callable[[Outputs, step_data.StepData], Array]
  examples: Callable[[step_data.StepData], np.ndarray] = each_line
  prepare: Callable[[step_data.StepData], step_data.StepData] = lambda x: x
  count: Callable[[step_data.StepData], Array] | None = None
  reads_reversed: bool = False
  reads_reference: bool = False
  targets: tuple[str, ...] = ("labels",)
  is_probability: bool = True

  def check_targets(self, data: step_data.StepData) -> None:
    """Refuses lines without any target of a kind that the loss reads.

    Raises:
      UsageError: there is none.
    """
    present = {
      "labels": np.any(data.weights > 0),
      "potentials": np.any(data.potential_weights > 0),
      "verdicts": np.any(data.correct >= 0),
    }
    for kind in self.targets:
      if not present[kind]:
        raise UsageError(
          f"the loss {self.name} learns from {kind}, and no line has any; "
          "label the lines with them, or use a loss that reads "
          f"{' or '.join(name for name in present if present[name])}"
        )


def score_of_logits(outputs: Outputs, data: step_data.StepData) -> Array:
  """Returns 2 sigmoid(l) - 1 of the only output l, p(good) - p(bad)."""
  del data
  return jnp.tanh(outputs.steps[..., 0] / 2)


def label_weight(data: step_data.StepData) -> Array:
  """Returns the sum of the weights of the labels."""
  return data.weights.sum()


def num_verdicts(data: step_data.StepData) -> Array:
  """Returns the number of samples with a verdict."""
  return (data.correct >= 0).sum()


def log_ratios_of_steps(outputs: Outputs, data: step_data.StepData) -> Array:
  """Returns the sum of the log-ratios of each step's tokens, `[E, S, K]`."""
  steps = jnp.arange(data.values.shape[-1])
  in_step = data.step_ids[..., None, :] == steps[:, None]  # [E, S, K, T]
  ratios = jnp.where(data.tokens.mask, outputs.log_ratios, 0.0)
  return jnp.sum(jnp.where(in_step, ratios[..., None, :], 0.0), -1)


def right_and_wrong(data: step_data.StepData) -> np.ndarray:
  """Returns every pair of a right and a wrong line of a problem, `[E, 2]`."""
  correct = np.asarray(data.correct)[:, 0]
  problems = np.asarray(data.problems)
  pairs = [
    (right, wrong)
    for problem in np.unique(problems)
    for right in np.flatnonzero((problems == problem) & (correct == 1))
    for wrong in np.flatnonzero((problems == problem) & (correct == 0))
  ]
  return np.array(pairs, int).reshape(-1, 2)
