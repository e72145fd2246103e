"""Step scores of a fitted process reward model."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from rewards import base
from rewards.steps import information_gain
from rl import UsageError, types
from rl.transforms import transform

Array = jax.Array


@transform(
  takes="none",
  gives="step",
  needs=lambda model="prm", **_: {base.model_scores(model)},
)
def model_steps(
  _, rollout: types.Rollout, *, model: str = "prm", look_ahead: float = 0.0
) -> Array:
  """Returns the scores of the steps by a fitted process reward model.

    s'_k = s_k + look_ahead (s_{k+1} - s_k)

  s_k is the score of step k by the model; the last step of a sample keeps its
  score. The scores of a model that predicts classes are p(right) - p(wrong), in
  (-1, 1). Each file of `rewards/process/step_losses` states the scores of its
  loss. Early steps have the least reliable scores, which `look_ahead` corrects.
  Source: Sun et al. 2025, ReARTeR: Retrieval-Augmented Reasoning with
  Trustworthy Process Rewarding, for `look_ahead`. Its form is a guess from the
  abstract.

  Args:
    model: name of the model, a key of `config.models`.
    look_ahead: weight of the next step's score, from 0 to 1.

  Raises:
    UsageError: `look_ahead` is not in [0, 1].
  """
  if not 0 <= look_ahead <= 1:
    raise UsageError(f"look_ahead = {look_ahead} must be from 0 to 1")
  exists = rollout.valid("step")
  scores = base.zero_outside(rollout.extras[base.model_scores(model)], exists)
  following = information_gain.next_entry(scores)
  has_next = information_gain.next_entry(exists)
  return jnp.where(has_next, scores + look_ahead * (following - scores), scores)
