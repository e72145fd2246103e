"""Step scores of a fitted process reward model."""

from __future__ import annotations

import jax

from rewards import base
from rl import types
from rl.transforms import transform

Array = jax.Array


@transform(
  takes="none",
  gives="step",
  needs=lambda model="prm", **_: {base.model_scores(model)},
)
def model_steps(_, rollout: types.Rollout, *, model: str = "prm") -> Array:
  """Returns the scores of the steps by a fitted process reward model.

  The scores of a model that predicts classes are p(right) - p(wrong), in (-1,
  1). Each file of `rewards/process/step_losses` states the scores of its loss.

  Args:
    model: name of the model, a key of `config.models`.
  """
  scores = rollout.extras[base.model_scores(model)]
  return base.zero_outside(scores, rollout.valid("step"))
