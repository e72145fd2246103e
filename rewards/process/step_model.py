"""A process reward model with any of the losses of `step_losses`.

  features of step k = (h, max_t n_t, sum_t n_t)
  features of token t = (h, n_t, sum of n_u over the step up to t)

h is the hidden state of a decoder after the last token of the step, or after
the token. n_t is the surprise of token t: minus its log-probability under the
decoder, which keeps the head that predicts tokens. Tokens of high surprise
often belong to errors. A linear head reads the features.

Axes: E examples, S samples of an example, T tokens, K steps, D hidden width, C
outputs of the head.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable

import jax
import jax.numpy as jnp

from rewards.process import step_data, step_features, text_filter
from rewards.process.step_losses.base import Outputs, StepLoss
from rl import UsageError, types

Array = jax.Array


@dataclasses.dataclass(frozen=True)
class StepModel:
  """A decoder, a head and a loss.

  Its parameters are `{"decoder": ..., "head": ...}`, with "reference" for the
  decoder before the first update if the loss reads it.

  Attributes:
    policy: the decoder.
    head: `(params, features [..., D + 2]) -> [..., C]`.
    loss: the loss.
    left_out: ids of the tokens of completions that it does not read.
  """

  policy: types.Policy
  head: Callable[[types.PyTree, Array], Array]
  loss: StepLoss
  left_out: tuple[int, ...] = ()

  def filter_text(self, data: step_data.StepData) -> step_data.StepData:
    """Returns examples without the tokens that the model does not read."""
    return text_filter.leave_out(data, self.left_out)

  def outputs(
    self, params: types.PyTree, data: step_data.StepData
  ) -> tuple[Outputs, Array]:
    """Reads examples.

    Args:
      params: the parameters.
      data: E examples that went through `filter_text`.

    Returns:
      The outputs, and the log-probs of the tokens, `[E, S, T]`.
    """
    num_steps = data.values.shape[-1]
    reading = step_features.read_through(
      self.policy, params["decoder"], data.tokens
    )
    steps = step_features.step_features(reading, data.step_ids, num_steps)
    surprise = -reading.log_probs
    tokens = jnp.concatenate(
      [
        reading.hidden[:, :, 1:].astype(jnp.float32),
        surprise[..., None],
        _sum_in_step(surprise, data.step_ids)[..., None],
      ],
      -1,
    )
    reversed_steps, log_ratios = None, None
    if self.loss.reads_reversed:
      reversed_steps = self._reversed(params, data)
    if self.loss.reads_reference:
      reference = step_features.read_through(
        self.policy, jax.lax.stop_gradient(params["reference"]), data.tokens
      )
      log_ratios = reading.log_probs - reference.log_probs
    outputs = Outputs(
      steps=self.head(params["head"], steps),
      tokens=self.head(params["head"], tokens),
      reversed_steps=reversed_steps,
      log_ratios=log_ratios,
    )
    return outputs, reading.log_probs

  def scores(self, params: types.PyTree, data: step_data.StepData) -> Array:
    """Returns the scores of the steps, `[E, S, K]`; 0 where there is none."""
    data = self.filter_text(data)
    outputs, _ = self.outputs(params, data)
    scores = jax.lax.stop_gradient(self.loss.score(outputs, data))
    return jnp.where(data.step_mask, scores, 0.0)

  def _reversed(self, params: types.PyTree, data: step_data.StepData) -> Array:
    """Returns the outputs of a pass over the steps in the opposite order."""
    num_steps = data.values.shape[-1]
    ids = step_data.reverse_ids(data.step_ids)
    reading = step_features.read_through(
      self.policy,
      params["decoder"],
      step_data.reverse_steps(data.tokens, data.step_ids),
    )
    outputs = self.head(
      params["head"], step_features.step_features(reading, ids, num_steps)
    )  # of step n - 1 - k at k
    last = data.step_ids.max(-1)[..., None]  # n - 1
    index = jnp.maximum(last - jnp.arange(num_steps), 0)
    return jnp.take_along_axis(outputs, index[..., None], 2)


def of_rollout(rollout: types.Rollout) -> step_data.StepData:
  """Returns the samples of a rollout as examples without labels.

  Raises:
    UsageError: the task does not split completions into steps.
  """
  if rollout.step_ids is None or rollout.step_mask is None:
    raise UsageError(
      "the rollout has no step_ids and step_mask, because its task does not "
      "split completions into steps; a process reward model needs steps"
    )
  return step_data.unlabelled(
    rollout.tokens,
    rollout.step_ids,
    rollout.step_mask.shape[-1],
    rollout.correct,
    rollout.prompt_ids,
  )


def _sum_in_step(values: Array, step_ids: Array) -> Array:
  """Returns the sum of the values of a step up to each token, `[E, S, T]`."""
  sums = jnp.cumsum(values, -1)
  starts = jnp.concatenate(
    [
      jnp.ones_like(step_ids[..., :1], bool),
      step_ids[..., 1:] != step_ids[..., :-1],
    ],
    -1,
  )
  # The sum before the first token of the step. Sums do not fall, because
  # surprises are not negative, so that the maximum is that of the last start.
  before = jax.lax.cummax(
    jnp.where(starts, sums - values, 0.0), axis=values.ndim - 1
  )
  return sums - before
