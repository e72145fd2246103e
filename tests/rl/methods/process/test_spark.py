"""Worked example of SPARK."""

import jax.numpy as jnp
import numpy as np
import pytest
from helpers import clip_example, process_example

from rl import methods

# z-scores of the scores .1, .2, .3 and .4 (ddof 1) of the samples that exist.
Z = (np.array([0.1, 0, 0.2, 0.3, 0.4]) - 0.25) / np.std(
  [0.1, 0.2, 0.3, 0.4], ddof=1
)


def at_tokens(*tokens):
  """Returns z at these tokens of each sample, else 0."""
  values = np.zeros((1, 5, 4))
  for i, chosen in enumerate(tokens):
    values[0, i, list(chosen)] = Z[i]
  return values


@pytest.mark.worked_example("method:spark")
def test_advantages_where_steps_agree():
  """The z-scores of the first and third samples are negative.

  Their wrong steps, (.6, -.3) and (-.2, .8), have the advantage; of the others,
  (.9, .1, .4) and (.5), all steps are right.
  """
  target = at_tokens([2], [], [0], [0, 1, 2], [0, 1])
  m = methods.get("spark", beta=0.0)
  rollout = process_example.rollout()
  clip_example.check_advantages(m, rollout, target)
  weights = process_example.MASK / 12
  clip_example.check_clip(m, rollout, target, weights, 0.2, 0.2, sides="above")
  # Steps without a verdict agree with nothing.
  rollout = rollout.replace(
    step_scores=jnp.where(rollout.step_scores == 0.1, 0.0, rollout.step_scores)
  )
  target = at_tokens([2], [], [0], [0, 2], [0, 1])
  clip_example.check_advantages(m, rollout, target)


@pytest.mark.worked_example("method:spark")
def test_if_all_steps_agree_it_is_grpo():
  rollout = process_example.rollout()
  signs = np.where(Z >= 0, 1.0, -1.0)[None, :, None]
  rollout = rollout.replace(step_scores=jnp.asarray(signs * np.ones((1, 5, 3))))
  m = methods.get("spark", beta=0.0)
  target = Z[None, :, None] * process_example.MASK
  clip_example.check_advantages(m, rollout, target)
  assert methods.get("spark").parameter_sets
  assert not m.parameter_sets
