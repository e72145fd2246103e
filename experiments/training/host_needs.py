"""Arrays that the host computes for a method, between sampling and the update.

A *need* is an array that a method asks for and reads in `rollout.extras`
(`rl.scoring.Need`). Needs with the source "host" are computed with numpy.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import jax

from experiments.training import rollout_extras
from experiments.training.experiment import Experiment
from experiments.training.step_timer import StepTimer
from rl import UsageError, learners, scoring
from rl.method import Method
from rl.step import Rollouts
from rl.training_state import State


def host_needs(methods: Mapping[str, Method]) -> set[scoring.Need]:
  """Returns those needs of the learners' methods that the host computes."""
  return {
    need
    for method in methods.values()
    for need in method.signal_needs | method.term_needs
    if need.source == "host"
  }


def check(e: Experiment) -> None:
  """Checks that no step of a fused loop needs the host."""
  dispatch_steps = e.config.steps_per_dispatch
  if dispatch_steps == 1:
    return
  needs = sorted(map(str, host_needs(e.methods)))
  if needs:
    reason = (
      f"{e.method.name} needs {', '.join(needs)}, which the host computes "
      "between sampling and the update"
    )
  elif e.texts is not None:
    reason = "the host selects the lines of a file between two updates"
  elif not e.task.jittable:
    reason = f"{e.task.name} is scored on the host between sampling and the "
    reason += "update"
  else:
    return
  raise UsageError(
    f"steps_per_dispatch = {dispatch_steps} must be 1, because {reason}"
  )


def make_host_needs_fn(
  e: Experiment,
) -> Callable[[State, Rollouts, StepTimer], Rollouts]:
  """Returns a function that adds the host needs to the rollout of a state.

  The arrays that the host needs read are computed by a separate compiled
  program. Its results are replicated, so that every process has all of them on
  its devices.
  """
  needs = host_needs(e.methods)
  reads = {read for need in needs for read in need.probe.reads}

  @functools.partial(jax.jit, out_shardings=e.replicated)
  def score(state, rollout):
    return rollout_extras.with_passes(e, state, rollout, reads)

  def add_host_needs(
    state: State, rollouts: Rollouts, timer: StepTimer
  ) -> Rollouts:
    rollouts = learners.by_learner(rollouts)
    rollout = rollouts[learners.POLICY]
    scored = score(state, rollout)
    timer.wait_for(state)
    with timer.measure("time/rollout_s"):
      jax.block_until_ready(scored)
    with timer.measure("time/score_s"):
      extras = scoring.compute_on_host(needs, scored).extras.arrays
      rollout = rollout.replace(
        extras=rollout.extras.update(
          {str(need): extras[str(need)] for need in needs}
        )
      )
    return {**rollouts, learners.POLICY: rollout}

  return add_host_needs
