"""Adds results of forward passes to the extras of a rollout."""

from __future__ import annotations

from collections.abc import Iterable

from experiments.training.experiment import Experiment
from rl import scoring, training_state, types


def with_passes(
  e: Experiment,
  state: training_state.State,
  rollout: types.Rollout,
  needs: Iterable[scoring.Need],
) -> types.Rollout:
  """Returns the rollout with the results of forward passes in its extras.

  The passes use the chunks and microbatches of a training step.

  Args:
    e: the experiment.
    state: training state with the parameters of the passes.
    rollout: rollout on the training mesh.
    needs: arrays to compute. Their source is not "policy", since those arrays
      are computed and differentiated in the loss. Those that the extras have
      already are not computed again.
  """
  return scoring.passes(
    e.policy.with_frozen(state.carried.frozen),
    {**state.parameters, "old": state.params},
    {need for need in needs if need not in rollout.extras},
    rollout,
    e.plan.temperature,
    e.plan.chunk,
    e.plan.microbatches,
  )
